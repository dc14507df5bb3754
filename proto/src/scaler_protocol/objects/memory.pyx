# cython: language_level=3, boundscheck=False, wraparound=False
"""Mappings of memory files. See memory.pyi."""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from libc.errno cimport errno
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memmove

import os

cdef extern from *:
    """
    #include <stdint.h>
    #if defined(__linux__)
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <fcntl.h>
    #include <sys/mman.h>
    #include <linux/falloc.h>
    #include <errno.h>
    #include <signal.h>
    #include <string.h>
    #include <sys/ioctl.h>
    #include <time.h>
    #include <unistd.h>
    #define SCALER_MEMORY 1
    /* Bytes written, or -1. A reader that is gone causes no signal, however this process handles SIGPIPE. */
    static int64_t scaler_tell(int fd, const void *data, uint64_t size) {
        sigset_t pipe, before, pending;
        struct timespec now = {0, 0};
        int64_t written;
        int error;
        sigemptyset(&pipe);
        sigaddset(&pipe, SIGPIPE);
        sigpending(&pending);
        pthread_sigmask(SIG_BLOCK, &pipe, &before);
        written = write(fd, data, size);
        error = errno;
        if (written < 0 && error == EPIPE && !sigismember(&pending, SIGPIPE))
            sigtimedwait(&pipe, NULL, &now);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        errno = error;
        return written;
    }
    static int scaler_process(void) { return (int) getpid(); }
    static void scaler_close(int fd) { close(fd); }
    static void *scaler_map(int fd, uint64_t offset, uint64_t size, int is_private) {
        void *start = mmap(NULL, size, PROT_READ | PROT_WRITE, is_private ? MAP_PRIVATE : MAP_SHARED, fd, (off_t) offset);
        return start == MAP_FAILED ? NULL : start;
    }
    static void scaler_unmap(void *start, uint64_t size) { munmap(start, size); }
    static void scaler_populate(void *start, uint64_t size) { madvise(start, size, 23); /* MADV_POPULATE_WRITE */ }
    /* PAGEMAP_SCAN of linux/fs.h, which older headers lack; older systems answer with an error. */
    struct scaler_scan {
        uint64_t size, flags, start, end, walk_end, regions, region_count, max_pages;
        uint64_t inverted, all_of, any_of, returned;
    };
    /* Whether no page of a private mapping has become this process's own by being written. */
    static int scaler_untouched(void *start, uint64_t size) {
        enum { FILE_PAGE = 1 << 2, PRESENT = 1 << 3, SWAPPED = 1 << 4 };
        uint64_t region[3];
        struct scaler_scan scan;
        int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC), found;
        if (fd < 0)
            return 0;
        memset(&scan, 0, sizeof scan);
        scan.size = sizeof scan;
        scan.start = (uint64_t) (uintptr_t) start;
        scan.end = scan.start + size;
        scan.regions = (uint64_t) (uintptr_t) region;
        scan.region_count = scan.max_pages = 1;
        scan.inverted = scan.all_of = FILE_PAGE;
        scan.any_of = PRESENT | SWAPPED;
        scan.returned = PRESENT | SWAPPED;
        found = ioctl(fd, _IOWR('f', 16, struct scaler_scan), &scan);
        close(fd);
        return found == 0;
    }
    static int scaler_punch(int fd, uint64_t offset, uint64_t size) {
        return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t) offset, (off_t) size);
    }
    #else
    #include <errno.h>
    #define SCALER_MEMORY 0
    static int64_t scaler_tell(int fd, const void *data, uint64_t size) { return -1; }
    static int scaler_process(void) { return 0; }
    static void scaler_close(int fd) {}
    static void *scaler_map(int fd, uint64_t offset, uint64_t size, int is_private) { errno = ENOSYS; return NULL; }
    static void scaler_unmap(void *start, uint64_t size) {}
    static void scaler_populate(void *start, uint64_t size) {}
    static int scaler_untouched(void *start, uint64_t size) { return 0; }
    static int scaler_punch(int fd, uint64_t offset, uint64_t size) { errno = ENOSYS; return -1; }
    #endif
    """
    int SCALER_MEMORY
    int64_t scaler_tell(int fd, const void* data, uint64_t size) nogil
    int scaler_process() nogil
    void scaler_close(int fd) nogil
    void* scaler_map(int fd, uint64_t offset, uint64_t size, int is_private) nogil
    void scaler_unmap(void* start, uint64_t size) nogil
    void scaler_populate(void* start, uint64_t size) nogil
    int scaler_untouched(void* start, uint64_t size) nogil
    int scaler_punch(int fd, uint64_t offset, uint64_t size) nogil

cdef enum:
    PAGE = 4096
    COPY_ALONE = 262144  # bytes from which a copy takes longer than handing the interpreter over
    KEPT = 16
    LEAST_KEPT = 1048576  # bytes: smaller ones are quickly mapped again

AVAILABLE = bool(SCALER_MEMORY)


cdef int fail() except -1:
    raise OSError(errno, os.strerror(errno))


cdef class Descriptor:
    cdef readonly int fd

    def __cinit__(self, int fd):
        self.fd = fd

    def __dealloc__(self):
        scaler_close(self.fd)


@cython.no_gc
cdef class Releases:
    cdef int _fd
    cdef int _process
    cdef uint64_t* _waiting  # what the pipe did not take
    cdef uint64_t _count
    cdef readonly long mapped
    cdef readonly bint silent
    cdef bint _left

    def __cinit__(self, int fd):
        self._fd = fd
        self._process = scaler_process()

    def __dealloc__(self):
        self._left = True
        self.end()
        free(self._waiting)

    def leave(self):
        self._left = True
        self.end()

    def begin_copy(self):
        cdef Copy copy
        if self._left:
            return None
        copy = Copy.__new__(Copy)
        copy._releases = self
        self.mapped += 1
        return copy

    cdef void end(self) noexcept:
        if self._left and not self.mapped and self._fd >= 0:
            scaler_close(self._fd)
            self._fd = -1

    def release(self, uint64_t pin):
        self.push(pin)

    def silence(self):
        self.silent = True

    cdef void push(self, uint64_t pin) noexcept:
        cdef uint64_t* more
        cdef int64_t written
        if self._fd < 0 or self.silent or scaler_process() != self._process:
            return
        more = <uint64_t*> realloc(self._waiting, (self._count + 1) * sizeof(uint64_t))
        if more == NULL:
            return
        self._waiting = more
        self._waiting[self._count] = pin
        self._count += 1
        written = scaler_tell(self._fd, self._waiting, self._count * sizeof(uint64_t))
        if written > 0:
            self._count -= written // sizeof(uint64_t)
            memmove(self._waiting, <char*> self._waiting + written, self._count * sizeof(uint64_t))


@cython.no_gc
cdef class Copy:
    cdef Releases _releases

    def __dealloc__(self):
        if self._releases is not None:
            self._releases.mapped -= 1
            self._releases.end()


cdef struct Unused:
    uint64_t segment
    uint64_t offset
    uint64_t size
    char* start


@cython.no_gc
cdef class Kept:
    cdef Unused _unused[KEPT]
    cdef int _next
    cdef bint _closed

    def __dealloc__(self):
        self.close()

    def close(self):
        self._closed = True
        self.clear()

    def clear(self):
        cdef int index
        for index in range(KEPT):
            self.unmap(index)

    def forget(self, uint64_t segment):
        cdef int index
        for index in range(KEPT):
            if self._unused[index].segment == segment:
                self.unmap(index)

    cdef void unmap(self, int index) noexcept:
        cdef char* start = self._unused[index].start
        cdef uint64_t size = self._unused[index].size
        self._unused[index].start = NULL
        if start != NULL:
            with nogil:
                scaler_unmap(start, size)

    cdef char* take(self, uint64_t segment, uint64_t offset, uint64_t size) noexcept:
        """A mapping of just that, or NULL."""
        cdef int index
        cdef Unused* each
        cdef char* start
        for index in range(KEPT):
            each = &self._unused[index]
            if each.start != NULL and each.segment == segment and each.offset == offset and each.size == size:
                start = each.start
                each.start = NULL
                return start
        return NULL

    cdef bint put(self, uint64_t segment, uint64_t offset, uint64_t size, char* start) noexcept:
        """False: the caller still has it."""
        cdef bint untouched
        cdef int index
        if self._closed or size < LEAST_KEPT:
            return False
        with nogil:
            untouched = scaler_untouched(start, size)
        if not untouched or self._closed:
            return False
        index = self._next = (self._next + 1) % KEPT
        self.unmap(index)
        if self._closed or self._unused[index].start != NULL:  # another thread came meanwhile
            return False
        self._unused[index] = Unused(segment, offset, size, start)
        return True


@cython.no_gc
cdef class Mapping:
    cdef uint64_t _size
    cdef char* _start
    cdef Releases _releases
    cdef uint64_t _pin
    cdef Kept _kept
    cdef uint64_t _segment
    cdef uint64_t _offset

    def __cinit__(
        self, int fd, uint64_t offset, uint64_t size, bint private, Releases releases=None, uint64_t pin=0,
        Kept kept=None, uint64_t segment=0,
    ):
        if size == 0:
            raise ValueError("An empty mapping.")
        if kept is not None:
            self._start = kept.take(segment, offset, size)
        if self._start == NULL:
            with nogil:
                self._start = <char*> scaler_map(fd, offset, size, private)
        if self._start == NULL:
            fail()
        self._kept = kept
        self._segment = segment
        self._offset = offset
        self._size = size
        self._pin = pin
        self._releases = releases
        if releases is not None:
            releases.mapped += 1

    def __dealloc__(self):
        if self._start == NULL:
            return
        if self._kept is None or not self._kept.put(self._segment, self._offset, self._size, self._start):
            with nogil:
                scaler_unmap(self._start, self._size)
        if self._releases is not None:
            self._releases.mapped -= 1
            self._releases.push(self._pin)
            self._releases.end()

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self._start, self._size, 0, flags)

    @property
    def size(self):
        return self._size

    def write(self, uint64_t offset, data):
        cdef Py_buffer view
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            if offset > self._size or <uint64_t> view.len > self._size - offset:
                raise ValueError("This does not fit into the mapping.")
            if view.len < COPY_ALONE:
                memcpy(self._start + offset, view.buf, view.len)
            else:
                with nogil:
                    memcpy(self._start + offset, view.buf, view.len)
        finally:
            PyBuffer_Release(&view)

    def populate(self, uint64_t offset, uint64_t size):
        """Whole pages."""
        if offset % PAGE or offset > self._size or size > self._size - offset:
            raise ValueError("This is not in the mapping.")
        with nogil:
            scaler_populate(self._start + offset, size)


def punch(int fd, uint64_t offset, uint64_t size):
    cdef int failed
    with nogil:
        failed = scaler_punch(fd, offset, size)
    if failed:
        fail()
