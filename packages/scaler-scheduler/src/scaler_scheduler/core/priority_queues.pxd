from libc.stdint cimport int64_t, uint64_t

cdef class ClientQueue:
    cdef readonly object table
    cdef object client
    cdef object ranges
    cdef uint64_t first
    cdef uint64_t stop

    cdef push(self, uint64_t first, uint64_t stop, bint front)
    cdef bint advance(self) except -1

cdef class PriorityQueue:
    cdef readonly int priority
    cdef object rotation
    cdef dict clients

    cdef push(self, client, table, uint64_t first, uint64_t stop, bint front)
    cdef drop_first(self)

cdef class QueueClass:
    cdef readonly tuple demand
    cdef readonly int depth
    cdef public int64_t count
    cdef list by_priority
    cdef public list heap
    cdef public dict candidates
    cdef public dict served
    cdef readonly list reserving

    cpdef push(self, client, table, int priority, uint64_t first, uint64_t stop, bint front=*)
    cdef put_back(self, client, table, int priority, uint64_t task)
    cdef PriorityQueue queue_of(self, int priority)
