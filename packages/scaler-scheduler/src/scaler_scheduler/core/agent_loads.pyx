# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The load of an agent, in counts and in estimated microseconds. See agent_loads.pyi for the contract."""

from cython cimport final
from libc.stdint cimport int64_t, uint32_t
from scaler_scheduler.core.priority_queues cimport QueueClass
from scaler_scheduler.core.run_records cimport RunRecord

cdef enum:
    LONGEST_AHEAD_US = 50000
    NEWS_US = 5000  # between messages with results of an agent whose workers are busy
    LONGEST_ROUND_TRIP_US = 250000
    MOST_TASKS = 1000000000


@final
cdef class AgentLoad:
    def __init__(self, uint32_t index, int slots, int ceiling, dict resources=None):
        self.index = index
        self.session = self.store = b""
        self.reserved = {}
        self.live_actors = {}
        self.slots = slots
        self.ceiling = ceiling
        self.deepest = -1
        self.horizon_us = HORIZON_US
        self.resources = dict(resources or {})
        self.deferred = []
        for depth in range(DEPTHS):
            self.by_depth[depth] = 0

    cdef int deep(self, int depth) noexcept:
        """Tasks here that are at least so deep: shallower ones never hold deeper ones up."""
        cdef int total = 0, level
        if depth <= 0:
            return self.outstanding
        for level in range(min(depth, DEPTHS - 1), DEPTHS):
            total += self.by_depth[level]
        return total

    cdef int usable(self, int depth) noexcept:
        return self.slots + (self.lent if depth > self.deepest else 0)

    cdef bint is_held(self, int depth) noexcept:
        """Return whether actors have all workers that such tasks could use. Tasks wait for long behind them. An actor
        that has not started does not keep deeper tasks from a lent slot."""
        if not self.lent or depth <= self.deepest:
            return self.actors >= self.slots
        return self.has_only_live_actors()

    cpdef bint has_only_live_actors(self) noexcept:
        return min(<int> len(self.live_actors), self.actors) - self.lent_by_actors >= self.slots

    cdef int limit(self) noexcept:
        """Return how many tasks it may have: in proportion to its horizon, as short tasks would not last for a round
        trip otherwise. Where all wait and some of them for locks, the next one must not be kept out."""
        cdef int64_t most = <int64_t> self.ceiling * (self.horizon_us - NEWS_US) // (HORIZON_US - NEWS_US)
        return <int> min(most, <int64_t> MOST_TASKS) + (self.lent if self.deepest < 0 else 0)

    cpdef bint has_room(self, int depth) except -1:
        cdef int here = self.deep(depth)
        if self.is_held(depth) or here >= self.limit() or (self.reserved_count and self.keeps_room(depth)):
            return False
        return here < self.usable(depth) or self.budget_us(depth) > 0

    def note_round_trip(self, double seconds):
        cdef int64_t us
        cdef int index
        cdef double shortest = seconds
        self.round_trips[self.round_trips_noted % ROUND_TRIPS] = seconds
        self.round_trips_noted += 1
        for index in range(<int> min(self.round_trips_noted, <int64_t> ROUND_TRIPS)):
            shortest = min(shortest, self.round_trips[index])
        us = <int64_t> min(1e6 * shortest, <double> LONGEST_ROUND_TRIP_US)
        self.horizon_us = max(HORIZON_US, us * 3 // 2 + NEWS_US)
        self.round_trip_us = us if self.horizon_us > HORIZON_US else 0

    @property
    def has_own(self):
        """Tasks that only it may have, or should have if it has room."""
        return self.reserved_count > 0 or len(self.deferred) > 0

    cdef bint keeps_room(self, int depth) except -1:
        """Return whether its room is kept for tasks that are reserved for it."""
        cdef QueueClass queue
        for queue in self.reserved:
            if queue.depth >= depth:
                return True
        return False

    cpdef int64_t queued_us(self) noexcept:
        """Return how long the queued tasks, without the running ones, would keep all slots busy, in
        slot-microseconds."""
        cdef int usable = self.slots + self.lent
        if self.outstanding <= usable:
            return 0
        return self.load_us * (self.outstanding - usable) // self.outstanding

    cpdef int64_t budget_us(self, int depth) noexcept:
        cdef int here = self.deep(depth)
        cdef int usable = self.usable(depth)
        cdef int64_t horizon = self.horizon_us * self.slots, budget
        if here <= usable:
            return horizon
        budget = horizon - self.load_us * (here - usable) // self.outstanding
        if budget <= 0 and here - usable < self.slots and self.are_tasks_short():
            return 1
        return budget

    cdef int64_t longest_ahead_us(self) noexcept:
        """Return how long a task may take that waits here although it exceeds the budget."""
        return max(2 * (self.horizon_us - NEWS_US), LONGEST_AHEAD_US if self.are_tasks_short() else 0)

    cdef bint are_tasks_short(self) noexcept:
        return self.load_us <= LONGEST_AHEAD_US * self.outstanding

    cpdef int queued(self) noexcept:
        return max(0, self.outstanding - self.slots - self.lent)

    cpdef double waiting_us(self, double now) noexcept:
        """Return how long a task that comes now would wait for a worker here: by estimate, or as long as nothing has
        ended."""
        cdef int usable = max(1, self.slots + self.lent)
        cdef int64_t here = self.outstanding + self.reserved_count
        if here < usable:
            return 0.0
        return max(
            <double> (self.load_us + self.reserved_us) * (here - usable + 1) / here / usable,
            (now - self.progress_at) * 1e6,
        )

    cdef bint can_hold(self, QueueClass source) except -1:
        """Return whether it may be given such tasks, if not at once."""
        if not self.is_available or self.is_held(source.depth):
            return False
        return self.deep(source.depth) < self.limit() and self.fits(source.demand) > 0

    def key(self, int depth, int64_t rarity=0):
        """Order of preference: free slots first, then the least rarity, then the least loaded."""
        cdef int here = self.outstanding
        return (here >= self.slots + self.lent, rarity, self.load_us / max(1, self.slots), here / max(1, self.slots))

    def fits(self, tuple demand):
        """Return how many more tasks that each need ``demand`` this agent has the resources for."""
        if not demand:
            return self.limit()
        return min([self.resources.get(name, 0) // max(1, amount) for name, amount in demand])

    cdef take(self, RunRecord record, int number, int64_t load_us, int64_t moving_us=0):
        number *= record.slots
        load_us *= record.slots
        self.outstanding += number
        self.actors += number if record.hosts_actor else 0
        self.load_us += load_us
        self.moving_us += moving_us
        self.by_depth[min(record.depth, DEPTHS - 1)] += number
        for name, amount in record.demand:
            self.resources[name] = self.resources.get(name, 0) - amount * number

    cpdef set_unclaimed(self, int tasks, int actors):
        self.outstanding += tasks - self.unclaimed
        self.by_depth[0] += tasks - self.unclaimed
        self.actors += actors - self.unclaimed_actors
        self.unclaimed, self.unclaimed_actors = tasks, actors

    def forget_reserved(self):
        """Tasks that are reserved for it wait for any agent again; the caller tells their queues."""
        self.reserved = {}
        self.reserved_count = self.reserved_us = 0

    cdef amend(self, int64_t outstanding, int actors, int64_t load_us, int64_t moving_us, int* by_depth, dict resources):
        """A count was wrong: these are the right numbers."""
        cdef int depth
        self.outstanding = <int> outstanding
        self.actors = actors
        self.load_us = load_us
        self.moving_us = moving_us
        self.resources = resources
        for depth in range(DEPTHS):
            self.by_depth[depth] = by_depth[depth]

    cdef give_back(self, RunRecord record, int number, int64_t load_us, int64_t moving_us):
        number *= record.slots
        load_us *= record.slots
        self.outstanding -= number
        self.actors -= number if record.hosts_actor else 0
        self.load_us -= load_us
        self.moving_us -= moving_us
        self.by_depth[min(record.depth, DEPTHS - 1)] -= number
        for name, amount in record.demand:
            self.resources[name] = self.resources.get(name, 0) + amount * number
