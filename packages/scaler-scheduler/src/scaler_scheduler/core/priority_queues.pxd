from libc.stdint cimport int64_t, uint64_t
from scaler_scheduler.core.fair_shares cimport Share

cdef class ClientQueue:
    cdef readonly object table
    cdef readonly object client
    cdef readonly Share share
    cdef int64_t priority
    cdef int64_t rank
    cdef double since
    cdef bint was_blocked
    cdef bint is_alone
    cdef int64_t last_turn
    cdef object ranges
    cdef uint64_t first
    cdef uint64_t stop

    cdef bint precedes(self, ClientQueue other) except -1
    cdef bint is_empty(self) except -1
    cdef bint has(self, uint64_t task) except -1
    cdef int64_t count_before(self, uint64_t task) except -1
    cdef begin_turn(self)
    cdef end_turn(self, double now, double aging_seconds)
    cdef push(self, uint64_t first, uint64_t stop)
    cdef push_front(self, uint64_t first, uint64_t stop)
    cdef bint advance(self) except -1
    cdef sort(self)

cdef class PriorityQueue:
    cdef readonly int priority
    cdef readonly list queues
    cdef dict clients

    cdef ClientQueue awake_queue_of(self, client, table)
    cdef wake(self, ClientQueue queue)
    cdef ClientQueue next_queue(self, double now, double aging_seconds)
    cdef bint may_serve(self, ClientQueue queue) except -1
    cdef age(self, ClientQueue queue, double now, double aging_seconds)
    cdef drop(self, ClientQueue queue)

cdef class QueueClass:
    cdef readonly tuple demand
    cdef readonly int depth
    cdef readonly dict admitted
    cdef public int64_t count
    cdef public int64_t workers
    cdef list by_priority
    cdef public list heap
    cdef public dict candidates
    cdef public dict served
    cdef readonly list reserving

    cpdef push(self, client, table, int priority, uint64_t first, uint64_t stop)
    cpdef push_front(self, client, table, int priority, uint64_t first, uint64_t stop)
    cdef put_back(self, client, table, int priority, uint64_t task)
    cdef ClientQueue next_queue(self, double now, double aging_seconds)
    cdef PriorityQueue queue_of(self, int priority)
    cdef bint is_eligible(self) except -1
    cdef list take_queues(self)

    cdef inline bint admits(self, bytes session) except -1:
        """Return whether an agent may be given its tasks."""
        return self.admitted is None or session in self.admitted

    cdef inline bint is_scarcer(self, QueueClass other) noexcept:
        """Return whether at most half as many workers can run its tasks: others remain for those of the other class."""
        return 2 * self.workers <= other.workers
