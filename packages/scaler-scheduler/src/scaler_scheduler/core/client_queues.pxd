from libc.stdint cimport uint64_t
from scaler_scheduler.core.task_columns cimport TaskColumns

cdef class ClientQueue:
    cdef readonly TaskColumns table
    cdef public bint listed
    cdef object client
    cdef object ranges
    cdef uint64_t first
    cdef uint64_t stop

    cdef push(self, uint64_t first, uint64_t stop, bint front)
    cdef bint advance(self) except -1

cdef class Level:
    cdef readonly int priority
    cdef object rotation
    cdef dict clients

    cdef push(self, client, TaskColumns table, uint64_t first, uint64_t stop, bint front)
    cdef drop_first(self)
