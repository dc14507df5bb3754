from libc.stdint cimport int64_t

cdef class MapLoad:
    cdef readonly int64_t number
    cdef readonly str function
    cdef readonly str module
    cdef readonly int64_t total
    cdef readonly int64_t failed
    cdef readonly int64_t canceled
    cdef readonly int64_t live_tasks
    cdef public int64_t expected
    cdef int64_t looked_at  # by the count of a snapshot, as are the next two
    cdef int64_t unfinished
    cdef int64_t running

cdef class MapTable:
    cdef readonly dict live
    cdef readonly dict ended

    cpdef MapLoad find(self, int64_t number, str function, str module=*)
    cdef begin(self, MapLoad load, int64_t tasks)
    cdef end(self, MapLoad load, int64_t tasks)
