# cython: language_level=3, boundscheck=False, wraparound=False
"""Runs that wait on this host for a worker process. See queue.pyi for the contract."""

from collections import deque

from libc.stdint cimport int64_t


cdef class Level:
    """Runs of one depth and priority. Clients take turns, each with its oldest run, in the order in which they came."""

    def __init__(self, int64_t depth, int64_t priority):
        self.depth = depth
        self.priority = priority
        self.clients = {}
        self.turns = deque()

    cdef object append(self, object run):
        cdef object runs = self.clients.get(run.session)
        if runs is None:
            runs = self.clients[run.session] = deque()
            self.turns.append(runs)
        runs.append(run)

    cdef object appendleft(self, object run):
        """The run was taken from here: it goes back to where it was."""
        cdef object runs = self.clients.get(run.session)
        if runs is None:
            runs = self.clients[run.session] = deque()
            self.turns.appendleft(runs)
        elif self.turns[0] is not runs:
            self.turns.remove(runs)
            self.turns.appendleft(runs)
        runs.appendleft(run)

    cdef object end_turn(self, object run, Py_ssize_t index=0):
        """The run, or part of it, was taken from the front of this client's."""
        cdef object runs = self.turns[index]
        if not runs:
            del self.clients[run.session]
            del self.turns[index]
        elif index:
            del self.turns[index]
            self.turns.append(runs)
        elif len(self.turns) > 1:
            self.turns.rotate(-1)

    cdef object pop(self):
        """Take the newest run of the client whose turn is last."""
        cdef object runs = self.turns[len(self.turns) - 1], run = runs.pop()
        if not runs:
            self.turns.pop()
            del self.clients[run.session]
        return run

    cdef object remove(self, session, tasks, list removed):
        cdef object runs = self.clients.get(session)
        if runs is None:
            return
        kept = [part for run in runs for part in without_tasks(run, session, tasks, removed)]
        runs.clear()
        runs.extend(kept)
        if not runs:
            self.turns.remove(runs)
            del self.clients[session]

    cdef list all_runs(self):
        cdef object runs
        return [run for runs in self.turns for run in runs]

    cdef bint precedes(self, int64_t depth, int64_t priority) noexcept:
        return self.depth > depth or (self.depth == depth and self.priority > priority)


cdef class TaskQueue:
    def __init__(self):
        self._levels = []
        self.environments = {}

    cpdef object push(self, object run):
        self.level(run).append(run)
        self.count += run.count

    cpdef object push_front(self, object run):
        self.level(run).appendleft(run)
        self.count += run.count

    def head(self, deeper_than=None):
        return self.first(-1 if deeper_than is None else deeper_than)

    cdef object first(self, int64_t deeper_than):
        """Like ``head``; -1: of any depth."""
        if not self._levels:
            return None
        cdef Level level = <Level> self._levels[0]
        return level.turns[0][0] if level.depth > deeper_than else None

    cpdef object take(self, int64_t limit):
        return self.take_from(0, 0, limit)

    cdef object take_from(self, Py_ssize_t position, Py_ssize_t index, int64_t limit):
        """Take tasks from the first run of one client at one level."""
        cdef Level level = <Level> self._levels[position]
        cdef object runs = level.turns[index], run = runs[0]
        cdef int64_t count = run.count
        if count <= limit:
            runs.popleft()
        else:
            runs[0] = run.slice(limit, count)
            run = run.slice(0, limit)
            count = limit
        level.end_turn(run, index)
        if not level.turns:
            del self._levels[position]
        self.count -= count
        return run

    # ---- environments ----------------------------------------------------------------------------------------------

    cpdef str environment_of(self, object run):
        return self.environments.get(run.serializer, "") if run.serializer else ""

    def environments_waiting(self, int64_t deeper_than):
        cdef Level level
        cdef dict found = {}
        for level in self._levels:
            if level.depth <= deeper_than:
                break
            for runs in level.turns:
                found[self.environment_of(runs[0])] = None
        return list(found)

    def count_in(self, str environment, int64_t limit):
        cdef Level level
        cdef int64_t count = 0
        for level in self._levels:
            for runs in level.turns:
                for run in runs if self.environment_of(runs[0]) == environment else ():
                    count += run.count
                    if count >= limit:
                        return limit
        return count

    cpdef object first_in(self, str environment, int64_t deeper_than):
        cdef Level level
        cdef Py_ssize_t index
        for level in self._levels:
            if level.depth <= deeper_than:
                break
            index = self.place_in(level, environment)
            if index >= 0:
                return level.turns[index][0]
        return None

    cpdef object take_in(self, str environment, int64_t limit):
        cdef Py_ssize_t position, index
        for position in range(len(self._levels)):
            index = self.place_in(<Level> self._levels[position], environment)
            if index >= 0:
                return self.take_from(position, index, limit)
        raise IndexError(environment)

    cdef Py_ssize_t place_in(self, Level level, str environment):
        """Return the place of the first client whose tasks are in this environment: those of one client are all in
        one."""
        cdef Py_ssize_t index = 0
        for runs in level.turns:
            if self.environment_of(runs[0]) == environment:
                return index
            index += 1
        return -1

    # ---- taking out ------------------------------------------------------------------------------------------------

    def withdraw(self, int64_t count):
        cdef list taken = []
        while count > 0 and self._levels:
            run = self.take_last(count)
            taken.append(run)
            count -= run.count
        return taken

    cdef object take_last(self, int64_t limit):
        cdef Level level = <Level> self._levels[len(self._levels) - 1]
        run = level.pop()
        if run.count > limit:
            level.append(run.slice(0, run.count - limit))
            run = run.slice(run.count - limit, run.count)
        if not level.turns:
            self._levels.pop()
        self.count -= run.count
        return run

    def remove(self, session, tasks):
        cdef list removed = []
        cdef Level level
        for level in self._levels:
            level.remove(session, tasks, removed)
        self._levels = [level for level in self._levels if level.turns]
        self.count -= len(removed)
        return removed

    def runs(self):
        cdef Level level
        return [run for level in self._levels for run in level.all_runs()]

    def clear(self):
        runs = self.runs()
        self._levels.clear()
        self.count = 0
        return runs

    cdef int64_t counted(self) except -1:
        return sum([run.count for run in self.runs()])

    def wrong_counts(self):
        cdef int64_t counted = self.counted()
        return [] if self.count == counted else [f"{self.count} tasks queued, {counted} counted"]

    def correct_counts(self):
        cdef list wrong = self.wrong_counts()
        if wrong:
            self.count = self.counted()
        return wrong

    def check(self):
        cdef Level level, before = None
        wrong = self.wrong_counts()
        assert not wrong, wrong
        for level in self._levels:
            assert level.turns and all(level.turns) and len(level.turns) == len(level.clients)
            assert before is None or before.precedes(level.depth, level.priority)
            before = level

    cdef Level level(self, object run):
        """Return the level of this run's depth and priority; found by bisection."""
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
