# cython: language_level=3
"""The processors of a host, and which of them can take what. See roster.pyi for the contract."""

from libc.stdint cimport int64_t, uint64_t

from scaler_worker.core.processor cimport Processor


cdef enum:
    LOCK_WAITERS = 4
    LOCK_WAITERS_PER_SLOT = 4


cdef class Roster:
    def __init__(self, int64_t slots):
        self.slots = slots
        self.processors = {}
        self.idle = {}
        self.busy = {}
        self.full = {}
        self.blocked = {}
        self.awaiting_locks = {}
        self.short_of_work = {}

    def add(self, Processor processor):
        self.processors[processor.number] = processor

    def remove(self, number):
        processor = self.processors.pop(number, None)
        if processor is not None:
            self.forget(processor)
        return processor

    def forget(self, Processor processor):
        for group in (self.busy, self.full, self.blocked, self.awaiting_locks, self.idle, self.short_of_work):
            group.pop(processor.number, None)
        self.note_depth()

    cpdef object sort(self, Processor processor):
        number = processor.number
        cdef uint64_t held = processor.unfinished()
        cdef bint is_available = processor.is_available(), is_blocked = processor.blocked_sequence is not None
        put(self.busy, number, processor, held > 0)
        put(self.idle, number, processor, held == 0 and is_available)
        put(self.full, number, processor, held > 1)
        put(self.short_of_work, number, processor, held > 0 and is_available)  # until a look shows that it has enough
        if is_blocked or self.blocked:
            put(self.blocked, number, processor, is_blocked)
            put(self.awaiting_locks, number, processor, is_blocked and processor.waits_for_lock)
            self.note_depth()

    cpdef object settle(self, Processor processor):
        processor.forget_finished()
        self.sort(processor)

    cdef bint has_capacity(self) noexcept:
        """Whether one more may become busy."""
        return len(self.busy) < self.slots + len(self.blocked)

    @property
    def is_crowded(self):
        return not self.has_capacity()

    cdef int64_t depth_needed(self, int64_t more) noexcept:
        """The depth that a task must exceed to be started when ``more`` processors become busy. -1: any will do."""
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
        cdef Processor each
        self.deepest_blocked = 0
        for each in self.blocked.values():
            self.deepest_blocked = max(self.deepest_blocked, each.blocked_depth)

    def check(self):
        slots = [each.slot for each in self.processors.values() if each.slot is not None]
        assert len(slots) == len(frozenset(slots)) and all([0 <= slot < self.slots for slot in slots])
        for processor in self.processors.values():
            processor.check()
            self.check_groups(processor)

    cdef object check_groups(self, Processor processor):
        number = processor.number
        cdef uint64_t held = processor.unfinished()
        assert (number in self.busy) == processor.busy == (held > 0)
        assert (number in self.full) == (held > 1)
        assert (number in self.blocked) == processor.blocked and (processor.busy or not processor.blocked)
        assert (number in self.awaiting_locks) == (processor.blocked and processor.waits_for_lock)
        assert (number in self.idle) == (processor.available and not processor.busy)
        assert number not in self.short_of_work or (processor.available and processor.busy)


cdef int put(dict group, number, Processor processor, bint belongs) except -1:
    if belongs:
        group[number] = processor
    elif group:
        group.pop(number, None)
    return 0
