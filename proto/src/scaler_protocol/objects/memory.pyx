# cython: language_level=3, boundscheck=False, wraparound=False
"""Mappings of memory files. See memory.pyi."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from libc.errno cimport errno
from libc.stdint cimport uint64_t
from libc.string cimport memcpy

import os

cdef extern from *:
    """
    #if defined(__linux__)
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <fcntl.h>
    #include <sys/mman.h>
    #include <linux/falloc.h>
    #include <errno.h>
    #define SCALER_MEMORY 1
    static void *scaler_map(int fd, uint64_t offset, uint64_t size, int is_private) {
        void *start = mmap(NULL, size, PROT_READ | PROT_WRITE, is_private ? MAP_PRIVATE : MAP_SHARED, fd, (off_t) offset);
        return start == MAP_FAILED ? NULL : start;
    }
    static void scaler_unmap(void *start, uint64_t size) { munmap(start, size); }
    static void scaler_populate(void *start, uint64_t size) { madvise(start, size, 23); /* MADV_POPULATE_WRITE */ }
    static int scaler_punch(int fd, uint64_t offset, uint64_t size) {
        return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t) offset, (off_t) size);
    }
    #else
    #include <errno.h>
    #define SCALER_MEMORY 0
    static void *scaler_map(int fd, uint64_t offset, uint64_t size, int is_private) { errno = ENOSYS; return NULL; }
    static void scaler_unmap(void *start, uint64_t size) {}
    static void scaler_populate(void *start, uint64_t size) {}
    static int scaler_punch(int fd, uint64_t offset, uint64_t size) { errno = ENOSYS; return -1; }
    #endif
    """
    int SCALER_MEMORY
    void* scaler_map(int fd, uint64_t offset, uint64_t size, int is_private) nogil
    void scaler_unmap(void* start, uint64_t size) nogil
    void scaler_populate(void* start, uint64_t size) nogil
    int scaler_punch(int fd, uint64_t offset, uint64_t size) nogil

cdef enum:
    PAGE = 4096
    COPY_ALONE = 262144  # bytes from which a copy takes longer than handing the interpreter over

AVAILABLE = bool(SCALER_MEMORY)


cdef int fail() except -1:
    raise OSError(errno, os.strerror(errno))


cdef class Mapping:
    cdef uint64_t _size
    cdef char* _start
    cdef object __weakref__

    def __cinit__(self, int fd, uint64_t offset, uint64_t size, bint private):
        if size == 0:
            raise ValueError("An empty mapping.")
        with nogil:
            self._start = <char*> scaler_map(fd, offset, size, private)
        if self._start == NULL:
            fail()
        self._size = size

    def __dealloc__(self):
        if self._start != NULL:
            with nogil:
                scaler_unmap(self._start, self._size)

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
