from libc.stdint cimport uint8_t, uint64_t

cdef enum:
    READ_SIZE = 262144

cpdef bytes pack(object frames)

cdef class Incoming:
    cdef readonly bint broken
    cdef public uint64_t limit_bytes
    cdef bytearray _fresh  # what was read last
    cdef bytearray _pending  # the beginning of a message that was not complete in one reading
    cdef size_t _start
    cdef size_t _end

    cdef char* room(self) except NULL
    cdef int add(self, size_t count) except -1
    cpdef list take(self)
    cdef list take_fresh(self)
    cdef list take_pending(self)
    cdef int keep(self) except -1
    cdef int restore(self, size_t used) except -1
    cdef list parse(self, const uint8_t* data, size_t available, size_t* used)
    cdef list refuse(self)
