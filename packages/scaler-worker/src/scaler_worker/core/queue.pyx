# cython: language_level=3, boundscheck=False, wraparound=False
"""Runs that wait on this host for a worker process. See queue.pyi for the contract."""

from collections import deque

from libc.stdint cimport int64_t


cdef class Level:
    """Runs of one depth and priority."""

    def __init__(self, int64_t depth, int64_t priority):
        self.depth = depth
        self.priority = priority
        self.runs = deque()

    cdef bint precedes(self, int64_t depth, int64_t priority) noexcept:
        return self.depth > depth or (self.depth == depth and self.priority > priority)


cdef class TaskQueue:
    def __init__(self):
        self._levels = []

    cpdef object push(self, object run):
        self.level(run).runs.append(run)
        self.count += run.count

    cpdef object push_front(self, object run):
        self.level(run).runs.appendleft(run)
        self.count += run.count

    def head(self, deeper_than=None):
        return self.first(-1 if deeper_than is None else deeper_than)

    cdef object first(self, int64_t deeper_than):
        """As ``head``; -1: of any depth."""
        if not self._levels:
            return None
        cdef Level level = <Level> self._levels[0]
        return level.runs[0] if level.depth > deeper_than else None

    cpdef object take(self, int64_t limit):
        cdef Level level = <Level> self._levels[0]
        run = level.runs[0]
        cdef int64_t count = run.count
        if count <= limit:
            level.runs.popleft()
            if not level.runs:
                del self._levels[0]
            self.count -= count
            return run
        level.runs[0] = run.slice(limit, count)
        self.count -= limit
        return run.slice(0, limit)

    def withdraw(self, int64_t count):
        cdef list taken = []
        while count > 0 and self._levels:
            run = self.take_last(count)
            taken.append(run)
            count -= run.count
        return taken

    cdef object take_last(self, int64_t limit):
        cdef Level level = <Level> self._levels[len(self._levels) - 1]
        run = level.runs.pop()
        if run.count > limit:
            level.runs.append(run.slice(0, run.count - limit))
            run = run.slice(run.count - limit, run.count)
        if not level.runs:
            self._levels.pop()
        self.count -= run.count
        return run

    def remove(self, session, tasks):
        cdef list removed = []
        cdef Level level
        for level in self._levels:
            level.runs = deque([part for run in level.runs for part in without_tasks(run, session, tasks, removed)])
        self._levels = [level for level in self._levels if level.runs]
        self.count -= len(removed)
        return removed

    def runs(self):
        cdef Level level
        return [run for level in self._levels for run in level.runs]

    def clear(self):
        runs = self.runs()
        self._levels.clear()
        self.count = 0
        return runs

    def check(self):
        cdef Level level, before = None
        assert self.count == sum([run.count for run in self.runs()])
        for level in self._levels:
            assert level.runs and (before is None or before.precedes(level.depth, level.priority))
            before = level

    cdef Level level(self, object run):
        """Of this run's depth and priority; found by bisection."""
        options = run.options
        cdef int64_t depth = options.depth, priority = options.priority
        cdef Py_ssize_t low = 0, high = len(self._levels), middle
        cdef Level level
        while low < high:
            middle = (low + high) // 2
            if (<Level> self._levels[middle]).precedes(depth, priority):
                low = middle + 1
            else:
                high = middle
        if low < len(self._levels):
            level = <Level> self._levels[low]
            if level.depth == depth and level.priority == priority:
                return level
        level = Level(depth, priority)
        self._levels.insert(low, level)
        return level


def without_tasks(run, session, tasks, removed):
    if run.session != session:
        return [run]
    cdef list parts = []
    cdef int64_t start = 0, index, count = run.count, first = run.first_task
    attempt = run.attempt
    for index in range(count):
        if (first + index, attempt) in tasks or (first + index, 0) in tasks:
            removed.append((first + index, attempt))
            if index > start:
                parts.append(run.slice(start, index))
            start = index + 1
    if start == 0:
        parts.append(run)
    elif start < count:
        parts.append(run.slice(start, count))
    return parts
