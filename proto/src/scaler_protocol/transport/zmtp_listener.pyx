# cython: language_level=3, boundscheck=False, wraparound=False
"""See zmtp_listener.pyi.

A peer is named by the identity that its connection shows, and the last connection that shows it has it. A connection
ends when its other end is closed, and also when the process that made it is gone: a child of that process may have
inherited the descriptor and keep it open. So one that cannot be seen from here (in a container with processes of its own)
is turned away: libzmq's heartbeats look after it. Processes of other users are turned away before a word is said:
everybody can see the name of an abstract socket and connect to it.
"""

import errno
import os
import select
import socket as plain_socket
import struct
import time

from scaler_protocol.transport.descriptors cimport ready
from scaler_protocol.transport.zmtp cimport ZmtpConnection

from scaler_protocol.transport.timer import Timer

cdef enum:
    READY_LIMIT = 64

_BACKLOG = 4096
_ACCEPT_LIMIT = 64  # connections in one turn: whoever makes them without end keeps nobody waiting
HANDSHAKE_SECONDS_LIMIT = 10.0
HALF_OPEN_LIMIT = 1024
_CREDENTIALS = struct.Struct("iII")  # process, user, group


def peer_of(connected):
    credentials = connected.getsockopt(plain_socket.SOL_SOCKET, plain_socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, _ = _CREDENTIALS.unpack(credentials)
    return process, user


cdef class ZmtpListener:
    def __init__(self, other_fd, tell_lost):
        self.epoll = select.epoll()
        self.fd = self.epoll.fileno()
        self.other_fd = other_fd
        self.tell_lost = tell_lost
        self.listeners = {}
        self.connections = {}
        self.processes = {}
        self.peers = {}
        self.half_open = {}
        self.timer = Timer()
        self.user = os.geteuid()
        self.spare_fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self.epoll.register(other_fd, select.EPOLLIN)
        self.epoll.register(self.timer.fd, select.EPOLLIN)

    def listen(self, name):
        listener = plain_socket.socket(plain_socket.AF_UNIX, plain_socket.SOCK_STREAM | plain_socket.SOCK_NONBLOCK)
        try:
            listener.bind("\0" + name)
            listener.listen(_BACKLOG)
        except BaseException:
            listener.close()
            raise
        self.listeners[listener.fileno()] = listener
        self.epoll.register(listener.fileno(), select.EPOLLIN)

    def take_lost(self):
        count, self.lost_count = self.lost_count, 0
        return count

    def close(self, linger_milliseconds=0):
        if self.epoll.closed:
            return
        for listener in self.listeners.values():
            listener.close()
        for fd, connection in self.connections.items():
            if fd == connection.fd:
                connection.close(linger_milliseconds)
            else:
                os.close(fd)
        self.connections.clear()
        self.processes.clear()
        self.peers.clear()
        self.half_open.clear()
        self.timer.close()
        if self.spare_fd >= 0:
            os.close(self.spare_fd)
        self.epoll.close()

    # ---- messages ------------------------------------------------------------------------------------------------

    cdef list receive_many(self):
        """What one reading of each connection that has something gives: peer, frames, no user. More may wait, then ``fd``
        is readable still."""
        cdef int fds[READY_LIMIT]
        cdef int count = ready(self.fd, fds, READY_LIMIT)
        cdef int index
        cdef list messages = []
        self.other_is_ready = False
        for index in range(count):
            self.serve(fds[index], messages)
        for index in range(count):  # last: a new connection may have the descriptor of one that has just ended
            if fds[index] in self.listeners:
                self._accept(self.listeners[fds[index]])
        return messages

    cdef int serve(self, int fd, list messages) except -1:
        cdef ZmtpConnection connection
        if fd == self.other_fd:
            self.other_is_ready = True
            return 0
        if fd == self.timer.fd:
            self._end_half_open()
            return 0
        connection = self.connections.get(fd)
        if connection is not None:  # else it listens, or has ended just now
            self.take_from(connection, messages)
            if fd != connection.fd:
                self._on_process_ended(connection, messages)
            if connection.has_ended:
                self._lose(connection)
        return 0

    cdef int take_from(self, ZmtpConnection connection, list messages) except -1:
        """What one reading gives, so that no connection keeps the others waiting."""
        if not connection.is_ready:
            connection.look()
            if connection.is_ready:
                self._on_ready(connection)
            return 0
        if connection.waiting_bytes:
            connection.flush()
        connection.pull()
        self.add_messages(connection, messages)
        return 0

    cdef int add_messages(self, ZmtpConnection connection, list messages) except -1:
        """Those that have been read."""
        cdef list frames
        connection.is_drained = True
        while (frames := connection.next_message()) is not None:
            messages.append((connection.identity, frames, b""))
        return 0

    cdef object send(self, object peer, object frames):
        """"sent", or None: no such peer, or it is gone."""
        cdef ZmtpConnection connection = self.peers.get(peer)
        return "sent" if connection is not None and connection.send(frames) else None

    # ---- connections ---------------------------------------------------------------------------------------------

    def _accept(self, listener):
        for _ in range(_ACCEPT_LIMIT):
            try:
                accepted, _ = listener.accept()
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    self._turn_away(listener)
                return
            self._add(accepted)

    def _turn_away(self, listener):
        """This process has no descriptor left: who waits is to know, rather than wait, and wake this one, for ever."""
        if self.spare_fd >= 0:
            os.close(self.spare_fd)
        self.spare_fd = -1
        try:
            listener.accept()[0].close()
            self.spare_fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            pass  # another thread has taken it

    def _add(self, accepted):
        cdef ZmtpConnection connection
        process, user = peer_of(accepted)
        if user != self.user or not process:
            accepted.close()
            return
        try:
            connection = ZmtpConnection(accepted, "ROUTER")
            connection.watch_in(self.fd)
        except OSError:
            accepted.close()
            return
        self.connections[connection.fd] = connection
        self._watch_process(process, connection)
        self.half_open[connection.fd] = time.monotonic() + HANDSHAKE_SECONDS_LIMIT
        if len(self.half_open) == 1:
            self.timer.set(HANDSHAKE_SECONDS_LIMIT)
        elif len(self.half_open) > HALF_OPEN_LIMIT:
            self._lose(self.connections[next(iter(self.half_open))])

    def _end_half_open(self):
        """Those that have had their time to shake hands. The oldest come first."""
        if not self.timer.take():
            return
        now = time.monotonic()
        for fd, deadline in list(self.half_open.items()):
            if deadline > now:
                self.timer.set(deadline - now)
                return
            self._lose(self.connections[fd])

    def _watch_process(self, process, ZmtpConnection connection):
        """Without it the connection alone tells: the process is gone already, or no descriptor is left."""
        try:
            process_fd = os.pidfd_open(process)
        except OSError:
            return
        try:
            self.epoll.register(process_fd, select.EPOLLIN)
        except OSError:
            os.close(process_fd)
            return
        self.connections[process_fd] = connection
        self.processes[connection.fd] = process_fd

    def _on_ready(self, ZmtpConnection connection):
        del self.half_open[connection.fd]
        if not connection.identity:
            connection.identity = b"\0" + os.urandom(4)
        older = self.peers.get(connection.identity)
        self.peers[connection.identity] = connection
        if older is not None:
            self._lose(older)

    def _on_process_ended(self, ZmtpConnection connection, list messages):
        """What it has said before, and no more."""
        while connection.is_ready and connection.pull():
            pass
        self.add_messages(connection, messages)
        connection.end()

    def _lose(self, ZmtpConnection connection):
        del self.connections[connection.fd]
        self.half_open.pop(connection.fd, None)
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
