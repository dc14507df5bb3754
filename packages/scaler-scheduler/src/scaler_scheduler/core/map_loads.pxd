from libc.stdint cimport int64_t, uint64_t

cdef class MapLoad:
    cdef readonly str function
    cdef readonly int64_t total
    cdef readonly list ranges
    cdef readonly bint is_over
    cdef int64_t failures

    cpdef bint add(self, uint64_t first, uint64_t stop) except -1
    cdef settle(self, list ranges)
