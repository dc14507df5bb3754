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
        self.note_blocked()

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
            self.note_blocked()

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

    cdef object note_blocked(self):
        cdef WorkerProcess each
        self.deepest_blocked = self.blocked_actors = 0
        for each in self.blocked.values():
            self.deepest_blocked = max(self.deepest_blocked, each.blocked_depth)
            self.blocked_actors += each.actor is not None and each.actor.is_live

    def wrong_groups(self):
        cdef list misplaced, wrong = []
        for process in self.processes.values():
            misplaced = self.misplaced(process)
            if misplaced:
                wrong.append(f"{process.name} is wrongly in or not in: {', '.join(misplaced)}")
        return wrong

    def correct_groups(self):
        cdef list wrong = self.wrong_groups()
        for process in self.processes.values():
            if wrong and self.misplaced(process):
                self.forget(process)
                self.sort(process)
        return wrong

    cdef list misplaced(self, WorkerProcess process):
        """Return the names of the groups in which the process is and does not belong, or the other way round."""
        number = process.number
        cdef uint64_t held = process.unfinished()
        cdef bint is_shared = process.available and not process.is_dedicated
        is_over = process.is_worn and not process.dying and not process.is_dedicated
        places = (
            ("busy", self.busy, held > 0 or process.is_dedicated),
            ("full", self.full, held > 1),
            ("idle", self.idle, is_shared and held == 0),
            ("blocked", self.blocked, process.blocked),
            ("awaiting locks", self.awaiting_locks, process.blocked and process.waits_for_lock),
            ("worn", self.worn, is_over and held == 0),
            ("in environments", self.in_environments, bool(process.environment)),
        )
        return [name for name, group, belongs in places if (number in group) != belongs]

    def check(self):
        wrong = self.wrong_groups()
        assert not wrong, wrong
        slots = [each.slot for each in self.processes.values() if each.slot is not None]
        assert len(slots) == len(frozenset(slots)) and all([0 <= slot < self.slots for slot in slots])
        for process in self.processes.values():
            process.check()
            assert process.busy == (process.unfinished() > 0) and (process.busy or not process.blocked)
            is_shared = process.available and not process.is_dedicated
            assert process.number not in self.short_of_work or (is_shared and process.busy)


cdef int put(dict group, number, WorkerProcess process, bint belongs) except -1:
    if belongs:
        group[number] = process
    elif group:
        group.pop(number, None)
    return 0
