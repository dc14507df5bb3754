# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""See stream.pyi. Sending and receiving are one call each, with one system call."""

import os
import socket
from collections import deque

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.errno cimport EAGAIN, EINTR, EMFILE, errno
from libc.stdint cimport int64_t, uint64_t

from scaler_protocol.transport.framing cimport READ_SIZE, Incoming, pack

from scaler_protocol.transport.framing import SIZE_LIMIT_BYTES

__all__ = ["SIZE_LIMIT_BYTES", "StreamConnection"]

cdef extern from *:
    """
    #include <errno.h>
    #include <stdint.h>
    #if !defined(_WIN32)
    #include <poll.h>
    #include <string.h>
    #include <sys/socket.h>
    #include <sys/uio.h>
    #include <unistd.h>
    #ifndef MSG_NOSIGNAL
    #define MSG_NOSIGNAL 0
    #endif
    #ifndef MSG_CMSG_CLOEXEC
    #define MSG_CMSG_CLOEXEC 0
    #endif
    #define SCALER_DESCRIPTORS 64
    typedef union {
        char bytes[CMSG_SPACE(SCALER_DESCRIPTORS * sizeof(int))];
        struct cmsghdr aligned;
    } scaler_ancillary;
    static int64_t scaler_send(int fd, const char *data, size_t size) { return send(fd, data, size, MSG_NOSIGNAL); }
    static int64_t scaler_send_descriptors(int fd, const char *data, size_t size, const int *sent, int count) {
        scaler_ancillary ancillary;
        struct iovec part = {(void *) data, size};
        struct msghdr message = {0};
        struct cmsghdr *header;
        memset(&ancillary, 0, sizeof ancillary);
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = ancillary.bytes;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(header), sent, count * sizeof(int));
        return sendmsg(fd, &message, MSG_NOSIGNAL);
    }
    static int64_t scaler_receive(int fd, char *room, size_t size, int *received, int *count) {
        scaler_ancillary ancillary;
        struct iovec part = {room, size};
        struct msghdr message = {0};
        struct cmsghdr *header;
        int64_t result;
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = ancillary.bytes;
        message.msg_controllen = sizeof ancillary.bytes;
        *count = 0;
        result = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
        if (result < 0)
            return result;
        for (header = CMSG_FIRSTHDR(&message); header != NULL; header = CMSG_NXTHDR(&message, header)) {
            if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
                int more = (int) ((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
                memcpy(received + *count, CMSG_DATA(header), more * sizeof(int));
                *count += more;
            }
        }
        if (message.msg_flags & MSG_CTRUNC) { /* the system had no room for all: later ones would be taken for these */
            while (*count > 0)
                close(received[--*count]);
            errno = EMFILE;
            return -1;
        }
        return result;
    }
    static void scaler_wait(int fd, int milliseconds, int writes) {
        struct pollfd polled = {fd, POLLIN, 0};
        if (writes)
            polled.events |= POLLOUT;
        poll(&polled, 1, milliseconds);
    }
    #else
    /* Streams are between processes of one host that runs a server. */
    #define SCALER_DESCRIPTORS 64
    static int64_t scaler_send(int fd, const char *data, size_t size) { errno = ENOSYS; return -1; }
    static int64_t scaler_send_descriptors(int fd, const char *data, size_t size, const int *sent, int count) {
        errno = ENOSYS;
        return -1;
    }
    static int64_t scaler_receive(int fd, char *room, size_t size, int *received, int *count) {
        errno = ENOSYS;
        return -1;
    }
    static void scaler_wait(int fd, int milliseconds, int writes) {}
    #endif
    """
    enum:
        SCALER_DESCRIPTORS
    int64_t scaler_send(int fd, const char* data, size_t size) nogil
    int64_t scaler_send_descriptors(int fd, const char* data, size_t size, const int* sent, int count) nogil
    int64_t scaler_receive(int fd, char* room, size_t size, int* received, int* count) nogil
    void scaler_wait(int fd, int milliseconds, int writes) nogil


cdef class StreamConnection:
    cdef object _socket
    cdef int _fd
    cdef object _outgoing  # a deque of (bytes, how many of them are written, descriptors)
    cdef uint64_t _outgoing_bytes
    cdef list _held  # messages that go with the next one
    cdef Incoming _incoming
    cdef bint _closed
    cdef bint _is_flushing
    cdef readonly object received_fds
    cdef readonly bint eof
    cdef readonly bint lacks_descriptors

    def __init__(self, connected):
        connected.setblocking(False)
        self._socket = connected
        self._fd = connected.fileno()
        self._outgoing = deque()
        self._held = []
        self._incoming = Incoming()
        self.received_fds = deque()

    @classmethod
    def pair(cls):
        one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        return cls(one), cls(other)

    @property
    def fd(self):
        return self._fd

    @property
    def plain_socket(self):
        return self._socket

    @property
    def limit_bytes(self):
        return self._incoming.limit_bytes

    @limit_bytes.setter
    def limit_bytes(self, uint64_t limit):
        self._incoming.limit_bytes = limit

    @property
    def broken(self):
        return self._incoming.broken

    @property
    def wants_write(self):
        return self._outgoing_bytes > 0

    @property
    def outgoing_bytes(self):
        return self._outgoing_bytes

    def send(self, frames, fds=()):
        cdef bytes data
        cdef uint64_t written = 0, size
        if self.eof or self._closed:
            return False
        data = pack(frames)
        size = PyBytes_GET_SIZE(data)
        if self._held:
            self.flush()
        if not self._outgoing_bytes:
            written = self.write(data, 0, fds)
        if written < size and not self.eof:
            waiting = () if written else tuple([os.dup(fd) for fd in fds])
            self._outgoing.append((data, written, waiting))
            self._outgoing_bytes += size - written
        return not self.eof

    def hold(self, frames):
        if not (self.eof or self._closed):
            self._held.append(pack(frames))

    def flush(self):
        if self._held:
            self.queue_held()
        if self._is_flushing:
            return False  # another thread does it, and is in a system call
        self._is_flushing = True
        try:
            self.flush_all()
        finally:
            self._is_flushing = False
        return not self._outgoing_bytes

    cdef flush_all(self):
        cdef bytes data
        cdef uint64_t start, written
        while self._outgoing_bytes and not self.eof:
            data, start, fds = self._outgoing[0]
            written = self.write(data, start, fds)
            if not written:
                break
            self._outgoing_bytes -= written
            _close_all(fds)
            if start + written < <uint64_t> PyBytes_GET_SIZE(data):
                self._outgoing[0] = (data, start + written, ())
                break
            self._outgoing.popleft()

    def receive(self):
        cdef list frames = self._incoming.take()
        while frames is None:
            if self.eof or not self.read():
                return None
            frames = self._incoming.take()
        return frames

    def wait(self, double seconds):
        cdef int milliseconds = <int> min(max(seconds * 1000.0, 1.0), 1e9)
        cdef bint writes = self._outgoing_bytes > 0
        with nogil:
            scaler_wait(self._fd, milliseconds, writes)
        if writes:
            self.flush()

    def shut_down(self):
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it has ended

    def close(self):
        if self._closed:
            return
        self._closed = True
        self.eof = True
        self._fd = -1
        self._socket.close()
        for _, _, fds in self._outgoing:
            _close_all(fds)
        self._outgoing.clear()
        self._outgoing_bytes = 0
        self._held.clear()
        _close_all(self.received_fds)
        self.received_fds.clear()

    cdef queue_held(self):
        data = b"".join(self._held)
        self._held = []
        self._outgoing.append((data, 0, ()))
        self._outgoing_bytes += len(data)

    cdef uint64_t write(self, bytes data, uint64_t start, object fds) except? 0:
        """Return how much the kernel took."""
        cdef const char* place = PyBytes_AS_STRING(data) + start
        cdef size_t size = PyBytes_GET_SIZE(data) - start
        cdef int descriptors[SCALER_DESCRIPTORS]
        cdef int count = len(fds), index, error
        cdef int64_t written
        if count > SCALER_DESCRIPTORS:
            raise ValueError(f"A message takes {SCALER_DESCRIPTORS} descriptors, not {count}.")
        for index in range(count):
            descriptors[index] = fds[index]
        with nogil:
            if count:
                written = scaler_send_descriptors(self._fd, place, size, descriptors, count)
            else:
                written = scaler_send(self._fd, place, size)
            error = errno
        if written >= 0:
            return written
        if error != EAGAIN and error != EINTR:
            self.eof = True
        return 0

    cdef bint read(self) except -1:
        """Return whether anything was read that can be a message."""
        cdef int descriptors[2 * SCALER_DESCRIPTORS]
        cdef int count = 0, index, error
        cdef int64_t received
        cdef char* room
        if self._incoming.broken:
            self.eof = True
            return False
        room = self._incoming.room()
        with nogil:
            received = scaler_receive(self._fd, room, READ_SIZE, descriptors, &count)
            error = errno
        if received < 0:
            self.eof = error != EAGAIN and error != EINTR
            self.lacks_descriptors = error == EMFILE
            return False
        for index in range(count):
            self.received_fds.append(descriptors[index])
        self._incoming.add(received)
        self.eof = received == 0
        return received > 0


cdef _close_all(descriptors):
    for descriptor in descriptors:
        os.close(descriptor)
