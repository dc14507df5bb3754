from libc.stdint cimport int64_t, uint32_t
from scaler_scheduler.core.priority_queues cimport QueueClass
from scaler_scheduler.core.run_records cimport RunRecord

cdef enum:
    DEPTHS = 64
    HORIZON_US = 10000
    ROUND_TRIPS = 4  # heartbeats; a busy machine delays some of them, but seldom all

cdef class AgentLoad:
    cdef readonly uint32_t index
    cdef public int slots
    cdef public int lent
    cdef public int lent_by_actors
    cdef public int deepest
    cdef public int ceiling
    cdef readonly int outstanding
    cdef readonly int actors
    cdef public dict live_actors
    cdef readonly int unclaimed
    cdef readonly int unclaimed_actors
    cdef readonly int64_t load_us
    cdef int by_depth[DEPTHS]
    cdef public dict resources
    cdef public list deferred
    cdef public bytes session
    cdef public bytes store
    cdef public bint is_available
    cdef public double progress_at
    cdef readonly int64_t moving_us
    cdef readonly dict reserved
    cdef readonly int64_t reserved_count
    cdef readonly int64_t reserved_us
    cdef int64_t reservations
    cdef readonly int64_t horizon_us
    cdef readonly int64_t round_trip_us
    cdef double round_trips[ROUND_TRIPS]  # the last ones
    cdef int64_t round_trips_noted

    cdef int deep(self, int depth) noexcept
    cdef int usable(self, int depth) noexcept
    cdef bint is_held(self, int depth) noexcept
    cpdef bint has_only_live_actors(self) noexcept
    cdef int limit(self) noexcept
    cpdef bint has_room(self, int depth) except -1
    cdef bint keeps_room(self, int depth) except -1
    cpdef int64_t queued_us(self) noexcept
    cpdef int64_t budget_us(self, int depth) noexcept
    cdef int64_t longest_ahead_us(self) noexcept
    cdef bint are_tasks_short(self) noexcept
    cpdef int queued(self) noexcept
    cpdef double waiting_us(self, double now) noexcept
    cdef bint can_hold(self, QueueClass source) except -1
    cpdef set_unclaimed(self, int tasks, int actors)
    cdef take(self, RunRecord record, int number, int64_t load_us, int64_t moving_us=*)
    cdef amend(self, int64_t outstanding, int actors, int64_t load_us, int64_t moving_us, int* by_depth, dict resources)
    cdef give_back(self, RunRecord record, int number, int64_t load_us, int64_t moving_us)
