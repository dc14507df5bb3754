# cython: language_level=3
"""The worker processes of a host, and which of them can take what. See roster.pyi for the contract."""

from libc.stdint cimport int64_t, uint64_t

from scaler_worker.core.worker_process cimport ENDING, WorkerProcess


cdef enum:
    LOCK_WAITERS = 4
    LOCK_WAITERS_PER_SLOT = 4


cdef class Roster:
    def __init__(self, int64_t slots):
        self.slots = slots
        self.processes = {}
        self.idle = {}
        self.busy = {}
        self.full = {}
        self.blocked = {}
        self.awaiting_locks = {}
        self.short_of_work = {}
        self.worn = {}
        self.in_environments = {}

    def add(self, WorkerProcess process):
        self.processes[process.number] = process

    def remove(self, number):
        process = self.processes.pop(number, None)
        if process is not None:
            self.forget(process)
        return process

    def forget(self, WorkerProcess process):
        for group in (
            self.busy, self.full, self.blocked, self.awaiting_locks, self.idle, self.short_of_work, self.worn,
            self.in_environments,
        ):
            group.pop(process.number, None)
        self.note_depth()

    cpdef object sort(self, WorkerProcess process):
        number = process.number
        cdef uint64_t held = process.unfinished()
        cdef bint is_available = process.is_available() and not process.is_dedicated, is_blocked = process.blocked_sequence is not None
        put(self.busy, number, process, held > 0 or process.is_dedicated)
        put(self.idle, number, process, held == 0 and is_available)
        put(self.full, number, process, held > 1)
        put(self.short_of_work, number, process, held > 0 and is_available)  # until a look shows that it has enough
        if process.environment:
            self.in_environments[number] = process
        if process.is_worn:
            put(self.worn, number, process, held == 0 and not process.is_dedicated and process.state != ENDING)
        if is_blocked or self.blocked:
            put(self.blocked, number, process, is_blocked)
            put(self.awaiting_locks, number, process, is_blocked and process.waits_for_lock)
            self.note_depth()

    cpdef object settle(self, WorkerProcess process):
        process.forget_finished()
        self.sort(process)

    cdef bint has_capacity(self) noexcept:
        """Return whether one more may become busy."""
        return len(self.busy) < self.slots + len(self.blocked)

    @property
    def is_crowded(self):
        return not self.has_capacity()

    cpdef int64_t depth_needed(self, int64_t more) noexcept:
        """The depth that a task must exceed to be started when ``more`` processes become busy. -1: any will do."""
        return -1 if len(self.busy) + more <= self.slots or self.stuck() else self.deepest_blocked

    cdef bint stuck(self) noexcept:
        """Nothing runs, and a task waits for a lock: what must end before it gets the lock may be of any depth."""
        cdef int64_t waiting = len(self.awaiting_locks)
        if waiting == 0 or len(self.busy) > len(self.blocked):
            return False
        return waiting <= LOCK_WAITERS + LOCK_WAITERS_PER_SLOT * self.slots

    @property
    def is_stuck(self):
        return self.stuck()

    def depth_to_start(self):
        cdef int64_t depth = self.depth_needed(1)
        return None if depth < 0 else depth

    cdef object note_depth(self):
        cdef WorkerProcess each
        self.deepest_blocked = 0
        for each in self.blocked.values():
            self.deepest_blocked = max(self.deepest_blocked, each.blocked_depth)

    def check(self):
        slots = [each.slot for each in self.processes.values() if each.slot is not None]
        assert len(slots) == len(frozenset(slots)) and all([0 <= slot < self.slots for slot in slots])
        for process in self.processes.values():
            process.check()
            self.check_groups(process)

    cdef object check_groups(self, WorkerProcess process):
        number = process.number
        cdef uint64_t held = process.unfinished()
        assert process.busy == (held > 0)
        assert (number in self.busy) == (process.busy or process.is_dedicated)
        assert (number in self.full) == (held > 1)
        assert (number in self.blocked) == process.blocked and (process.busy or not process.blocked)
        assert (number in self.awaiting_locks) == (process.blocked and process.waits_for_lock)
        cdef bint is_shared = process.available and not process.is_dedicated
        assert (number in self.idle) == (is_shared and not process.busy)
        is_over = process.is_worn and not process.dying and not process.is_dedicated
        assert (number in self.worn) == (is_over and not process.busy)
        assert (number in self.in_environments) == bool(process.environment)
        assert number not in self.short_of_work or (is_shared and process.busy)


cdef int put(dict group, number, WorkerProcess process, bint belongs) except -1:
    if belongs:
        group[number] = process
    elif group:
        group.pop(number, None)
    return 0
