# cython: language_level=3
"""One worker process, as the core sees it. See worker_process.pyi for the contract."""

from libc.stdint cimport int64_t, uint64_t
from scaler_worker.board cimport DispatchedRun


cdef class WorkerProcess:
    def __init__(self, int64_t number, slot, str name):
        self.number = number
        self.slot = slot
        self.name = name
        self.pid = 0
        self.state = ASKED
        self.dispatched = []
        self.functions = set()
        self.objects = set()
        self.ending = {}
        self.polled_position = -1

    def fork(self, board, pid):
        if self.board is not None:
            return False
        self.board = board
        self.pid = pid
        if self.state == ASKED:
            self.state = FORKED
        return True

    def make_ready(self):
        if self.state != FORKED:
            return False
        self.state = READY
        return True

    def end(self):
        if self.state == ENDING:
            return False
        self.state = ENDING
        return True

    @property
    def ready(self):
        return self.state == READY

    @property
    def dying(self):
        return self.state == ENDING

    @property
    def busy(self):
        return len(self.dispatched) > 0

    @property
    def blocked(self):
        return self.blocked_sequence is not None

    @property
    def available(self):
        return self.is_available()

    cdef bint is_available(self) noexcept:
        return self.state == READY and self.blocked_sequence is None and not self.is_worn

    cpdef uint64_t unfinished(self) except? 0:
        cdef DispatchedRun entry
        cdef uint64_t count = 0
        for entry in self.dispatched:
            count += entry.unfinished
        return count

    cdef int forget_finished(self) except -1:
        cdef DispatchedRun entry
        for entry in self.dispatched:
            if not entry.unfinished:
                self.dispatched = [entry for entry in self.dispatched if entry.unfinished]
                break
        return 0

    def entry_of(self, uint64_t sequence):
        cdef DispatchedRun entry
        for entry in self.dispatched:
            if entry.first_sequence <= sequence < entry.first_sequence + entry.count:
                return entry
        return None

    def find(self, session, uint64_t task, attempt):
        cdef DispatchedRun entry
        cdef uint64_t sequence
        for entry in self.dispatched:
            if entry.session != session or (attempt and entry.attempt != attempt):
                continue
            if entry.first_task <= task < entry.first_task + entry.count:
                sequence = entry.first_sequence + task - entry.first_task
                return (entry, sequence) if self.board.is_open(sequence) else None
        return None

    def open_sequences(self):
        cdef list found = []
        cdef DispatchedRun entry
        cdef uint64_t sequence
        for entry in self.dispatched:
            for sequence in range(entry.first_sequence, entry.first_sequence + entry.count):
                if self.board.is_open(sequence):
                    found.append((entry, sequence, self.board.cell(sequence)))
        return found

    def check(self):
        cdef DispatchedRun entry
        assert (self.board is None) == (self.pid == 0)
        assert self.board is not None or (self.state != FORKED and self.state != READY)
        assert not self.dispatched or self.board is not None
        for entry in self.dispatched:
            assert 0 < entry.unfinished <= entry.count
        assert len(self.dispatched) == 0 or self.unfinished() == <uint64_t> len(self.open_sequences())
