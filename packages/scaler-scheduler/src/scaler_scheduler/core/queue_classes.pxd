from libc.stdint cimport int64_t, uint64_t
from scaler_scheduler.core.places cimport Places

cdef class QueueClass:
    cdef readonly tuple demand
    cdef readonly int depth
    cdef public int64_t count
    cdef list levels
    cdef public list heap
    cdef public dict candidates
    cdef readonly Places places
    cdef public dict served
    cdef readonly list reserving

    cpdef push(self, client, table, int priority, uint64_t first, uint64_t stop, bint front=*)
    cdef bint all_wait(self, int64_t limit, int64_t reserved) except -1
    cdef put_back(self, client, table, int priority, uint64_t task)
