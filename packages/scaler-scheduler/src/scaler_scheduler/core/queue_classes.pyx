# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The run queue. See queue_classes.pyi for the contract."""

from cython cimport final
from libc.stdint cimport int64_t, uint64_t
from scaler_scheduler.core.client_queues cimport ClientQueue, Level
from scaler_scheduler.core.pages cimport PAGE_SIZE, Page
from scaler_scheduler.core.places cimport Places
from scaler_scheduler.core.run_records cimport RunRecord
from scaler_scheduler.core.states cimport QUEUED
from scaler_scheduler.core.task_columns cimport TaskColumns


@final
cdef class QueueClass:
    """The tasks that need the same capabilities and have the same depth, highest priority first. ``demand`` is a
    tuple of (name, amount)."""

    def __init__(self, tuple demand, int depth, Places places):
        self.demand = demand
        self.depth = depth
        self.places = places
        self.served = {}
        self.reserving = []
        self.levels = []
        self.heap = []
        self.candidates = {}

    @property
    def priority(self):
        return (<Level> self.levels[0]).priority if self.levels else 0

    cpdef push(self, client, table, int priority, uint64_t first, uint64_t stop, bint front=False):
        """Tasks first .. stop - 1 of the table, all QUEUED just now, wait here."""
        level_of(self, priority).push(client, table, first, stop, front)
        self.count += stop - first

    cdef put_back(self, client, table, int priority, uint64_t task):
        """A task of this class that waited for a certain agent waits for any, before the others."""
        level_of(self, priority).push(client, table, task, task + 1, True)

    def empty(self):
        """Forget what is queued."""
        self.levels = []
        self.reserving = []
        self.count = 0

    def take_reserving(self):
        """The agents for which something was reserved since the last call."""
        reserving, self.reserving = self.reserving, []
        return reserving

    def waiting(self, int64_t limit, int64_t reserved):
        """({(client, function): [how many, since when, one of them, its run]}, how many tasks were not looked at)."""
        cdef dict found = {}
        cdef Level level
        cdef ClientQueue queue
        cdef int64_t seen = 0
        cdef bint all_wait = self.all_wait(limit, reserved)
        for level in self.levels:
            for queue in level.rotation:
                seen += look_at(queue, queue.first, queue.stop, all_wait, found, &limit)
                for first, stop in queue.ranges:
                    if limit <= 0:
                        break
                    seen += look_at(queue, first, stop, all_wait, found, &limit)
        return found, max(0, self.count - seen)

    cdef bint all_wait(self, int64_t limit, int64_t reserved) except -1:
        """Whether every task in the ranges waits: none was cancelled since. Not known of more than ``limit`` ranges."""
        cdef Level level
        cdef ClientQueue queue
        cdef int64_t span = 0
        for level in self.levels:
            for queue in level.rotation:
                span += queue.stop - queue.first
                limit -= len(queue.ranges)
                if limit < 0:
                    return False
                for first, stop in queue.ranges:
                    span += stop - first
        return span + reserved == self.count


cdef int64_t look_at(
    ClientQueue queue, uint64_t first, uint64_t stop, bint all_wait, dict found, int64_t* limit
) except -1:
    """Adds what waits in a range to ``found``, of at most ``limit`` runs; how many tasks that are. ``all_wait``: every
    task in it does, and need not be looked at."""
    cdef TaskColumns table = queue.table
    cdef uint64_t task = first, end
    cdef int64_t number, seen = 0
    cdef RunRecord record
    cdef Page* page
    while task < stop and limit[0] > 0:
        page = table.find(task)
        if page == NULL:
            task = (task | (PAGE_SIZE - 1)) + 1
            continue
        if page.state[task & (PAGE_SIZE - 1)] != QUEUED:
            task += 1
            continue
        record = table.record_at(page, task & (PAGE_SIZE - 1))
        end = min(stop, record.stop)
        number = <int64_t> (end - task) if all_wait else table.count_queued(task, end)
        add_waiting(found, queue.client, record, number, task)
        seen += number
        limit[0] -= 1
        task = end
    return seen


cdef Level level_of(QueueClass source, int priority):
    cdef Level level
    cdef int index = 0
    for level in source.levels:
        if level.priority == priority:
            return level
        if level.priority < priority:
            break
        index += 1
    level = Level(priority)
    source.levels.insert(index, level)
    return level


cdef add_waiting(dict found, client, RunRecord record, int64_t number, uint64_t task):
    cdef tuple key = (client, record.function)
    cdef list entry = <list> found.get(key)
    if entry is None:
        found[key] = [number, record.entered_at, task, record]
        return
    entry[0] += number
    if record.entered_at < entry[1]:
        entry[1], entry[2] = record.entered_at, task
