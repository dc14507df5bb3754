from libc.stdint cimport uint32_t, uint64_t

cdef class GraphNews:
    cdef readonly list ready
    cdef readonly dict cancels
    cdef readonly list cascaded
    cdef readonly list ended
    cdef readonly list died
    cdef readonly list delivered
    cdef readonly dict preferences

    cdef tell(self, uint32_t agent, uint64_t task, uint32_t attempt)
