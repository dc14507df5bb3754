# cython: language_level=3, boundscheck=False, wraparound=False
"""See zmtp_listener.pyi.

A peer is named by the identity that its connection shows, and the last connection that authenticates under it has it. A
connection ends when its other end is closed, and also when the process that made it is gone: a child of that process
may have inherited the descriptor and keep it open. Where the process cannot be seen (over tcp, and in a container with
processes of its own), the other end is asked for a sign of life while it says nothing: the process, or, if its user's
code may keep it from answering, the kernel of its host.
"""

import os
import select
import time

from scaler_protocol.transport.descriptors cimport coarse_seconds, ready
from scaler_protocol.transport.zmtp cimport ZmtpConnection

from scaler_protocol.transport.time_share import TimeShare
from scaler_protocol.transport.timer import Timer

cdef enum:
    READY_LIMIT = 64

BEAT_SECONDS = 0.5
SILENT_BEATS_LIMIT = 3
QUIET_BEATS = 4
BUSY_SECONDS = 0.02  # after authenticated peers have said something
WORK_SECONDS = 1.0  # after there was work: a client that waits for each of its tasks has none between two of them


cdef class ZmtpListener:
    def __init__(self, tell_lost, keys=None):
        from scaler_protocol.transport.unauthenticated import Unauthenticated  # peers import this module, too

        self.epoll = select.epoll()
        self.fd = self.epoll.fileno()
        self.tell_lost = tell_lost
        self.connections = {}
        self.processes = {}
        self.peers = {}
        self.silent = {}
        self.beat = Timer()
        self.rest = Timer()
        self.unauthenticated = Unauthenticated(keys)
        self.share = TimeShare(time.monotonic())
        self.unauthenticated_fd = self.unauthenticated.fd
        for fd in (self.beat.fd, self.rest.fd, self.unauthenticated_fd):
            self.epoll.register(fd, select.EPOLLIN)

    def listen(self, listening):
        self.unauthenticated.listen(listening)

    def take_lost(self):
        count, self.lost_count = self.lost_count, 0
        return count

    def close(self, linger_milliseconds=0):
        if self.epoll.closed:
            return
        self.unauthenticated.close()
        for fd, connection in self.connections.items():
            if fd == connection.fd:
                connection.close(linger_milliseconds)
            else:
                os.close(fd)
        self.connections.clear()
        self.processes.clear()
        self.peers.clear()
        self.silent.clear()
        self.beat.close()
        self.rest.close()
        self.epoll.close()

    # ---- messages ------------------------------------------------------------------------------------------------

    cdef list receive_many(self):
        """The messages of one read of each ready connection: peer, frames, user. More may wait, then ``fd``
        is readable still; so it is not looked at again before it was found empty, or said so."""
        cdef int fds[READY_LIMIT]
        cdef int count
        cdef int index
        cdef list messages = []
        if self.has_looked:
            self.has_looked = False
            self.raise_failure()
            return messages
        count = ready(self.fd, fds, READY_LIMIT)
        for index in range(count):
            try:
                self.serve(fds[index], messages)
            except Exception as error:  # the messages of other connections are not lost with it
                self.failure = error
                self._end_failed(fds[index])
        if messages:
            self.has_looked = True
            self.heard_at = coarse_seconds()
        else:
            self.raise_failure()
        return messages

    cdef int raise_failure(self) except -1:
        """Raise what ended a connection, after all messages have been returned."""
        cdef object failure = self.failure
        if failure is not None:
            self.failure = None
            raise failure
        return 0

    cdef int _end_failed(self, int fd) except -1:
        cdef ZmtpConnection connection = self.connections.get(fd)
        if connection is not None:
            self._lose(connection)
        return 0

    cdef int serve(self, int fd, list messages) except -1:
        cdef ZmtpConnection connection = self.connections.get(fd)
        if connection is not None:
            self.take_from(connection, messages)
            if fd != connection.fd:
                self._on_process_ended(connection, messages)
            if connection.has_ended:
                self._lose(connection)
        elif fd == self.unauthenticated_fd:
            self.has_unauthenticated = True
        elif fd == self.beat.fd:
            self._on_beat(messages)
        elif fd == self.rest.fd:
            self._end_rest()
        return 0  # else it has ended just now

    cdef int take_from(self, ZmtpConnection connection, list messages) except -1:
        """Take the messages of one read, so that no connection keeps the others waiting."""
        if connection.waiting_bytes:
            connection.flush()
        connection.pull()
        self.add_messages(connection, messages)
        return 0

    cdef int add_messages(self, ZmtpConnection connection, list messages) except -1:
        """Add the messages that have been read. When one cannot be added, the connection ends: its peer connects
        again, and sends the message again."""
        cdef list frames
        connection.is_drained = True
        try:
            while (frames := connection.next_message()) is not None:
                if frames:
                    messages.append((connection.identity, frames, connection.user))
        except BaseException:
            connection.fail()
            raise
        return 0

    cdef object send(self, object peer, object frames):
        """"sent", or "gone": also what the peer said before it went has been read."""
        cdef ZmtpConnection connection = self.peers.get(peer)
        if connection is None:
            return "gone"
        connection.send(frames)
        return "gone" if connection.has_ended else "sent"

    def has(self, peer):
        cdef ZmtpConnection connection = self.peers.get(peer)
        return connection is not None and not connection.has_ended

    # ---- peers that have not authenticated -----------------------------------------------------------------------

    def unauthenticated_messages(self, has_work=True):
        cdef double now = coarse_seconds()
        if has_work:
            self.worked_at = now
        if not self.has_unauthenticated:
            return
        self.has_unauthenticated = False
        is_busy = now - self.heard_at < BUSY_SECONDS and now - self.worked_at < WORK_SECONDS
        yield from self.unauthenticated.messages(self.share.begin(time.monotonic(), is_busy))
        rest_seconds = self.share.end(time.monotonic(), is_busy)
        if rest_seconds and not self.epoll.closed:
            self.epoll.unregister(self.unauthenticated_fd)
            self.rest.set(rest_seconds)

    def _end_rest(self):
        self.rest.take()
        self.epoll.register(self.unauthenticated_fd, select.EPOLLIN)

    def answer(self, peer, frames):
        if peer in self.unauthenticated:  # a Refused is not for the connection whose identity this one claims
            return "sent" if self.unauthenticated.answer(peer, frames) else "gone"
        return self.send(peer, frames)

    def admit(self, peer):
        arrived = self.unauthenticated.take(peer)
        if arrived is None:
            return
        cdef ZmtpConnection connection = arrived.connection
        connection.lift_limits()
        older = self.peers.pop(peer, None)
        if older is not None:
            self._lose(older)
        connection.watch_in(self.fd)
        self.connections[connection.fd] = connection
        self.peers[peer] = connection
        if not arrived.process or not self._watch_process(arrived.process, connection):
            self._watch_silence(connection)

    def pause(self, peer):
        cdef ZmtpConnection connection = self.peers.get(peer)
        if connection is not None:
            connection.stop_watching()

    def resume(self, peer):
        cdef ZmtpConnection connection = self.peers.get(peer)
        if connection is None:
            return
        try:
            connection.watch_in(self.fd)
        except OSError:
            self._lose(connection)

    def disconnect(self, peer):
        connection = self.peers.get(peer)
        if connection is not None:
            self._lose(connection)
        self.unauthenticated.end(peer)

    # ---- connections ---------------------------------------------------------------------------------------------

    def _watch_process(self, process, ZmtpConnection connection):
        """False: it is gone already, or no descriptor is left."""
        try:
            process_fd = os.pidfd_open(process)
        except OSError:
            return False
        try:
            self.epoll.register(process_fd, select.EPOLLIN)
        except OSError:
            os.close(process_fd)
            return False
        self.connections[process_fd] = connection
        self.processes[connection.fd] = process_fd
        return True

    def _watch_silence(self, ZmtpConnection connection):
        if not self.silent:
            self.beat.set(BEAT_SECONDS)
        self.silent[connection.fd] = 0
        connection.was_heard = True

    def _on_beat(self, list messages):
        """Time is counted in beats of this process: while it stood still itself, no peer was silent. Messages that arrived meanwhile
        are read before a peer is considered lost."""
        cdef ZmtpConnection connection
        self.beat.take()
        if self.silent:
            self.beat.set(BEAT_SECONDS)  # before anything can fail
        for fd, beats in list(self.silent.items()):
            connection = self.connections[fd]
            if not connection.was_heard and beats >= SILENT_BEATS_LIMIT:
                self.take_from(connection, messages)
            self.silent[fd] = next_beat(connection, beats)
            if connection.has_ended or self.silent[fd] > SILENT_BEATS_LIMIT:
                self._lose(connection)

    def _on_process_ended(self, ZmtpConnection connection, list messages):
        """Take the messages that were sent before the process ended, and no more."""
        while connection.pull():
            pass
        self.add_messages(connection, messages)
        connection.end()

    def _lose(self, ZmtpConnection connection):
        del self.connections[connection.fd]
        self.silent.pop(connection.fd, None)
        process_fd = self.processes.pop(connection.fd, None)
        if process_fd is not None:
            del self.connections[process_fd]
            self.epoll.unregister(process_fd)
            os.close(process_fd)
        connection.close()
        if self.peers.get(connection.identity) is connection:
            del self.peers[connection.identity]
            self.lost_count += 1
            self.tell_lost()


cdef int next_beat(ZmtpConnection connection, int beats) except? -1:
    """Return the number of beats for which a connection has been silent, although it was asked. A far process may be
    too busy to answer, so what counts is that its kernel acknowledges. Then it is asked rarely, and the number says,
    below zero, for how many beats it has not been."""
    if connection.was_heard:
        connection.was_heard = False
        return 0
    if connection.has_far_process and connection.is_acknowledged():
        beats = min(beats, 0) - 1
        if beats > -QUIET_BEATS:
            return beats
        connection.ping()
        return 0
    return max(beats, 0) + 1 if connection.ping() else 0
