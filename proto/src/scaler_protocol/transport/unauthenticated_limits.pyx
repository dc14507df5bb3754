# cython: language_level=3
"""See unauthenticated_limits.pyi."""

import os
import resource
import socket as plain_socket

from libc.stdint cimport int64_t

from scaler_protocol.transport.descriptors cimport received_bytes

BYTES_LIMIT = 4 * 1024 * 1024
TOTAL_BYTES_LIMIT = 16 * 1024 * 1024
SECONDS_LIMIT = 30.0
COUNT_LIMIT = 1024
GRACE_SECONDS = 2.0


cdef class UnauthenticatedLimits:
    cdef dict _found  # by descriptor: since when, inode
    cdef int _null_fd
    cdef int _spare_fd

    def __init__(self):
        self._found = {}
        self._null_fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._spare_fd = os.dup(self._null_fd)

    def __len__(self):
        return len(self._found)

    def add(self, int fd, double now):
        try:
            self._found[fd] = now, os.fstat(fd).st_ino
        except OSError:
            return  # it has ended already
        if len(self._found) > min(COUNT_LIMIT, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2):
            oldest = next(iter(self._found))
            self._end(oldest if now - self._found[oldest][0] > GRACE_SECONDS else fd)

    def remove(self, int fd):
        self._found.pop(fd, None)

    def cut(self, double now):
        cdef int64_t size
        cdef int64_t total = 0
        cdef list sizes = []
        cdef int before = len(self._found)
        for fd, (since, _) in list(self._found.items()):
            size = received_bytes(fd)
            if size < 0 or size > BYTES_LIMIT or now - since > SECONDS_LIMIT:
                self._end(fd)
            else:
                total += size
                sizes.append((size, fd))
        sizes.sort()
        while total > TOTAL_BYTES_LIMIT:
            size, fd = sizes.pop()
            total -= size
            self._end(fd)
        return before - len(self._found)

    def end(self, int fd):
        try:
            self._shut_down(fd, os.fstat(fd).st_ino)
        except OSError:
            pass  # it has ended
        self.remove(fd)

    cdef int _end(self, int fd) except -1:
        """Its number may belong to another one by now: that one is left alone."""
        _, inode = self._found.pop(fd)
        try:
            self._shut_down(fd, inode)
        except OSError:
            pass  # it has ended
        return 0

    cdef int _shut_down(self, int fd, object inode) except -1:
        """Through a descriptor that is there for it: there may be no other left."""
        os.dup2(fd, self._spare_fd, inheritable=False)
        try:
            if os.fstat(self._spare_fd).st_ino == inode:
                with plain_socket.socket(fileno=self._spare_fd) as connected:
                    try:
                        connected.shutdown(plain_socket.SHUT_RDWR)
                    finally:
                        connected.detach()
        finally:
            os.dup2(self._null_fd, self._spare_fd, inheritable=False)
        return 0

    def close(self):
        if self._spare_fd >= 0:
            os.close(self._spare_fd)
            os.close(self._null_fd)
        self._spare_fd = -1
