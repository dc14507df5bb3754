# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The memory that an agent shares with one of its worker processes; it survives the worker process.

Every task dispatched has a sequence number (0, 1, 2 ... per process, counted alike on both sides) and a claim cell:
DISPATCHED until either side claims it with one compare-and-swap, then STARTED (the process's) or WITHDRAWN (the agent's).
So a task that never started can be taken back without asking, and a task that a dying process had started is known.

Results go into a ring of records: the process moves the head, the agent the tail. A record is complete once the head has
passed it, so what a process finished before it died is there. ``running`` names the task under way, ``interrupt`` the
task that the agent wants ended, ``lease`` the time after which the worker process may start nothing.

The calls of an actor that runs several at a time start in order and end in any. Its board is ``unordered``: several
cells are STARTED, ``running`` names none of them, and ``endings`` names those that the agent wants ended. A call may run
while its cell is used again for another one. The agent has noted it as *long* then: it is open, and has started.

The process runs user code, which may write anything here. So the agent keeps outside of this memory what its own
counts rest on: which sequences are *open* (dispatched, neither ended nor taken back), how far it has read, where the
process was last seen. Every offset, size, status and sequence that it reads is checked against these. The first one
that cannot be true breaks the board: it says why in ``broken``, nothing more is read from it, and its process is ended.
"""

cimport cython
from cpython.array cimport array, resize_smart
from cpython.object cimport Py_SIZE
from libc.string cimport memcpy
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from scaler_protocol.codec import ResultRunBuilder


cdef extern from *:
    """
    #include <stdint.h>
    static inline uint64_t scaler_load(uint8_t *p) { return __atomic_load_n((uint64_t *)p, __ATOMIC_ACQUIRE); }
    static inline void scaler_store(uint8_t *p, uint64_t v) { __atomic_store_n((uint64_t *)p, v, __ATOMIC_RELEASE); }
    static inline int scaler_swap(uint8_t *p, uint8_t expected, uint8_t wanted) {
        return __atomic_compare_exchange_n(p, &expected, wanted, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    }
    static inline uint8_t scaler_load_cell(uint8_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
    static inline void scaler_store_cell(uint8_t *p, uint8_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
    """
    uint64_t scaler_load(uint8_t* p) noexcept nogil
    void scaler_store(uint8_t* p, uint64_t v) noexcept nogil
    bint scaler_swap(uint8_t* p, uint8_t expected, uint8_t wanted) noexcept nogil
    uint8_t scaler_load_cell(uint8_t* p) noexcept nogil
    void scaler_store_cell(uint8_t* p, uint8_t v) noexcept nogil

cdef enum:
    # offsets of words, each group on a cache line of its own, by who writes it
    RUNNING = 64  # worker process: sequence + 1 of the task under way, 0: none
    STARTED = 72  # worker process: when it started, monotonic nanoseconds
    POSITION = 80  # worker process: sequence it looks at next
    MARKS = 80  # worker process, plus 8 * stream: bytes that were written to it before the tasks that follow
    INTERRUPT = 128  # agent: sequence + 1 of the task to end
    LEASE = 192  # agent: nothing starts after this, monotonic nanoseconds; 0: no lease
    HARVESTED = 200  # agent: when it last took results, monotonic nanoseconds
    HEAD = 256  # worker process: bytes of records committed
    TAIL = 320  # agent: bytes of records taken
    READS = 320  # agent, plus 8 * stream: twice the bytes that it has read from it, plus 1 while it is reading
    ENDINGS = 512  # agent: how many sequences of calls to end follow, and these sequences
    CELLS = 4096
    CELL_COUNT = 16384
    ARENA = 4096 + 16384
    ARENA_SIZE = 1048576
    # sequence, duration, cpu, memory peak, size of payload (u32), status (u8), whether there is more (u8), whether parts
    # of the duration follow (u8), whether the task has printed (u8), end; else u64
    RECORD_BYTES = 48
    PARTS_BYTES = 16
    PRINTED_BYTES = 32
    AGE_LIMIT = 0xFFFFFFFF
    SKIP = 255  # status of a record that fills the end of the ring

cdef enum:
    CONCURRENCY_LIMIT = 400  # that of the protocol: as many calls of an actor may be long, or named by ``endings``

cdef enum:
    CELL_DISPATCHED = 0
    CELL_STARTED = 1
    CELL_WITHDRAWN = 2

cdef enum:
    STATUS_SUCCESS = 0
    STATUS_SUCCESS_LARGE = 1
    STATUS_EXCEPTION = 2
    STATUS_EXCEPTION_NOT_SERIALIZABLE = 3
    STATUS_CANCELLED = 4
    STATUS_DESERIALIZE_FAILED = 8
    STATUS_OBJECT_MISSING = 10
    STATUS_NO_WORKER = 11

cdef enum:
    LARGE_BYTES = 8  # of the payload that stands for a large result: its size
    LARGE_STORED_BYTES = 24  # and the store that has it

cdef uint64_t FIGURE_LIMIT = 1 << 62
"""More than any processor time in nanoseconds or size in bytes."""

DISPATCHED = CELL_DISPATCHED
STARTED_CELL = CELL_STARTED
WITHDRAWN = CELL_WITHDRAWN

WINDOW = CELL_COUNT
"""More tasks than this are never dispatched and unfinished at a time."""

BOARD_BYTES = ARENA + ARENA_SIZE


cdef inline uint64_t _padded(uint64_t size) noexcept nogil:
    return (size + 7) & ~(<uint64_t>7)


cdef inline uint64_t record_head(bint has_parts, bint has_printed) noexcept nogil:
    """The bytes of a record before its payload."""
    return RECORD_BYTES + (PARTS_BYTES if has_parts else 0) + (PRINTED_BYTES if has_printed else 0)


cdef class DispatchedRun:
    """A run dispatched to a worker process: its tasks have the sequences ``first_sequence`` and following."""

    def __init__(self, object run, uint64_t first_sequence):
        self.run = run
        self.session = run.session
        self.first_sequence = first_sequence
        self.count = run.count
        self.first_task = run.first_task
        self.attempt = run.attempt
        self.unfinished = self.count
        self.is_node = run.options.graph != 0
        self.is_intermediate = run.options.intermediate

    @property
    def end_sequence(self):
        return self.first_sequence + self.count


@cython.final
cdef class Harvest:
    """The results that a worker process has written since the last harvest, sorted by what the agent does with them.

    ``runs``: list[ResultRun]. ``totals``: list of (DispatchedRun, tasks finished, seconds they took). ``interrupted``:
    list of (DispatchedRun, sequence, duration in microseconds) of the tasks that ended because they were interrupted;
    these are not in ``runs``. ``large``: list of (DispatchedRun, sequence) of the results whose bytes do not travel
    through the board. ``kept``: list of (run, task, status, payload) of graph nodes. ``has_more``: some of these tasks
    have also sent something that does not travel through the board.
    """

    def __init__(self):
        self.runs = []
        self.totals = []
        self.interrupted = []
        self.large = []
        self.kept = []

    cdef int begin(self, list dispatched, object worker, double now, object output) except -1:
        self._dispatched = dispatched
        self._output = output
        self._worker = worker
        self._is_placed = worker is not None
        self._now_ns = <uint64_t> (now * 1e9)
        return 0

    cdef int find_entry(self, uint64_t sequence) except -1:
        """Make the run that contains ``sequence`` the current one. Sequences only grow."""
        cdef DispatchedRun entry
        if sequence < self._end_sequence:
            return 0
        self.finish_entry()
        entry = self._dispatched[self._index]
        while sequence >= entry.first_sequence + entry.count:
            self._index += 1
            entry = self._dispatched[self._index]
        self._entry = entry
        self._end_sequence = entry.first_sequence + entry.count
        if self._append is None or entry.session != self._session:
            self.begin_run()
        return 0

    cdef int find_any_entry(self, uint64_t sequence) except -1:
        """Like ``find_entry``, where sequences may also become smaller."""
        if self._entry is not None and sequence < self._entry.first_sequence:
            self._index = self._end_sequence = 0
        return self.find_entry(sequence)

    cdef int account(self, Record* record) except -1:
        self._entry.unfinished -= 1
        self._finished += 1
        self._total_ns += record.duration_ns
        self.has_more |= record.has_more != 0 and record.status != STATUS_CANCELLED
        return 0

    cdef int add(self, Record* record) except -1:
        """Put the result where its kind belongs."""
        cdef DispatchedRun entry = self._entry
        cdef uint64_t task = entry.first_task + (record.sequence - entry.first_sequence)
        cdef uint32_t payload_bytes = record.payload_bytes
        cdef bytes payload = None
        if record.has_printed and self._output is not None:
            payload = self.take_output(record)
        if record.status == STATUS_CANCELLED:
            self.interrupted.append((entry, record.sequence, record.duration_ns // 1000))
            return 0
        if record.status == STATUS_SUCCESS_LARGE:
            self.large.append((entry, record.sequence))
        if entry.is_node:
            self.kept.append((entry.run, task, record.status, record.payload[:payload_bytes]))  # without its output
            if entry.is_intermediate and record.status == STATUS_SUCCESS:
                payload_bytes = 0  # its value stays on this host
        self._append(
            task, entry.attempt, record.status, record.payload[:payload_bytes] if payload is None else payload,
            record.duration_ns // 1000, record.cpu_ns // 1000, record.memory_peak,
        )
        if self._is_placed:
            self.add_age(age_us(record.ended_ns, self._now_ns))
        if record.has_parts:
            self.add_parts(&record.parts)
        return 0

    cdef bytes take_output(self, Record* record):
        """The task has printed. Returns the payload that takes the place of the record's, or None."""
        cdef Printed* printed = &record.printed
        words = self._output.on_task_ended(
            self._entry, record.sequence,
            (printed.stdout_start, printed.stdout_end), (printed.stderr_start, printed.stderr_end),
        )
        return record.payload[:record.payload_bytes] + words if words and is_exception(record.status) else None

    cdef int add_age(self, uint32_t age) except -1:
        """Append without a Python number: there is one for each task while a monitor watches."""
        cdef Py_ssize_t place = Py_SIZE(self._ages)
        resize_smart(self._ages, place + 1)
        self._ages.data.as_uints[place] = age
        return 0

    cdef int add_parts(self, Parts* parts) except -1:
        """Add the parts of the result that was added last."""
        if self._parts is None:
            self._parts = array("I")
        self._parts.extend((self._builder.count - 1, parts.fetching_us, parts.loading_us, parts.storing_us))
        return 0

    cdef int begin_run(self) except -1:
        """Start a result run for the session of the current entry."""
        self.finish_run()
        self._session = self._entry.session
        self._builder = ResultRunBuilder(self._session)
        self._append = self._builder.append
        self._ages = array("I") if self._is_placed else None
        return 0

    cdef int finish_entry(self) except -1:
        if self._finished:
            self.totals.append((self._entry, self._finished, self._total_ns / 1e9))
        self._finished = self._total_ns = 0
        return 0

    cdef int finish_run(self) except -1:
        if self._builder is None or not self._builder.count:
            return 0
        run = self._builder.build()
        if self._is_placed:
            run.set_place(self._worker, self._ages.tobytes())
        if self._parts is not None:
            run.set_parts(self._parts.tobytes())
            self._parts = None
        self.runs.append(run)
        return 0

    cdef int finish(self) except -1:
        """No more results follow."""
        self.finish_entry()
        self.finish_run()
        self._dispatched = self._entry = self._builder = self._append = self._ages = self._output = None
        return 0


cdef class Board:
    def __init__(self, memory):
        """``memory``: a writable buffer of BOARD_BYTES, zero when new (an mmap of a memfd; in tests a bytearray)."""
        self._memory = memory
        self._view = memory
        if self._view.shape[0] < BOARD_BYTES:
            raise ValueError("A board needs BOARD_BYTES of memory")
        self._base = &self._view[0]
        self._cells = self._base + CELLS
        self._arena = self._base + ARENA
        self._arena_bytes = ARENA_SIZE
        self._endings = []
        self._head = scaler_load(self._base + HEAD)
        self._tail = scaler_load(self._base + TAIL)

    # ---- the agent's side ------------------------------------------------------------------------------------

    def room(self):
        """Return how many tasks may be dispatched now."""
        cdef uint64_t position = scaler_load(self._base + POSITION)
        cdef uint64_t first
        if position < self._position or position > self._next:
            self.break_off("it says that it looks at a task that was not dispatched to it")
        if self._broken is not None:
            return 0
        self._position = position
        self.find_oldest()
        while self.unordered and self._next - self._oldest > CELL_COUNT // 2 and self._oldest < position:
            if not self.note_long():
                break
            self.find_oldest()
        first = min(self._oldest, position)
        return CELL_COUNT - (self._next - first)

    cdef void find_oldest(self) noexcept:
        while self._oldest < self._next and not self._open[self._oldest & (CELL_COUNT - 1)]:
            self._oldest += 1

    cdef bint note_long(self) noexcept:
        """The oldest call has started, and its cell is needed. False: there are too many such calls, or the process is
        just about to claim this one: it moves its position first."""
        if scaler_load_cell(self._cells + (self._oldest & (CELL_COUNT - 1))) != CELL_STARTED:
            return False
        if self._long_count == CONCURRENCY_LIMIT:
            return False
        self._long[self._long_count] = self._oldest
        self._long_count += 1
        self._open[self._oldest & (CELL_COUNT - 1)] = 0
        self._oldest += 1
        return True

    cdef int find_long(self, uint64_t sequence) noexcept nogil:
        """Return the index of a long call; -1: it is none."""
        cdef int index
        for index in range(self._long_count):
            if self._long[index] == sequence:
                return index
        return -1

    def dispatch(self, uint64_t first_sequence, uint64_t count):
        """Make the cells of tasks about to be dispatched claimable."""
        cdef uint64_t sequence
        for sequence in range(first_sequence, first_sequence + count):
            self._open[sequence & (CELL_COUNT - 1)] = 1
            scaler_store_cell(self._cells + (sequence & (CELL_COUNT - 1)), CELL_DISPATCHED)
        self._next = first_sequence + count

    cdef bint has_open(self, uint64_t sequence) noexcept nogil:
        if sequence < self._next and sequence + CELL_COUNT >= self._next and self._open[sequence & (CELL_COUNT - 1)]:
            return True
        return self._long_count != 0 and self.find_long(sequence) >= 0

    def is_open(self, uint64_t sequence):
        """Return whether the task was dispatched and, as far as is known here, has neither ended nor been taken
        back."""
        return self.has_open(sequence)

    cdef bint take_back(self, uint64_t sequence) noexcept nogil:
        if not self.has_open(sequence) or self.find_long(sequence) >= 0:
            return False
        if not scaler_swap(self._cells + (sequence & (CELL_COUNT - 1)), CELL_DISPATCHED, CELL_WITHDRAWN):
            return False
        self._open[sequence & (CELL_COUNT - 1)] = 0
        return True

    def withdraw(self, uint64_t sequence):
        """Take a task back. False: it has started, or was taken back before."""
        return self.take_back(sequence)

    def withdraw_newest(self, uint64_t first_sequence, uint64_t end_sequence, uint64_t limit):
        """Take back up to ``limit`` tasks of a range, newest first. Returns their sequences, newest first."""
        cdef list taken = []
        cdef uint64_t sequence = end_sequence
        cdef uint8_t cell
        while sequence > first_sequence and <uint64_t>len(taken) < limit:
            sequence -= 1
            if self.take_back(sequence):
                taken.append(sequence)
            else:
                cell = scaler_load_cell(self._cells + (sequence & (CELL_COUNT - 1)))
                if cell == CELL_STARTED:
                    break
        return taken

    def cell(self, uint64_t sequence):
        if self.find_long(sequence) >= 0:
            return STARTED_CELL
        return scaler_load_cell(self._cells + (sequence & (CELL_COUNT - 1)))

    def is_started(self, uint64_t sequence):
        """Return whether the process has claimed the task, which has not ended as far as is known here."""
        return self.has_open(sequence) and self.cell(sequence) != CELL_DISPATCHED

    @property
    def running(self):
        """The sequence under way, or None."""
        cdef uint64_t word = scaler_load(self._base + RUNNING)
        return word - 1 if word and self.has_open(word - 1) else None

    @property
    def started(self):
        """The time at which the task under way started, in monotonic seconds."""
        return scaler_load(self._base + STARTED) / 1e9

    @property
    def position(self):
        """The sequence that the worker process looks at next."""
        return scaler_load(self._base + POSITION)

    def begin_read(self, int stream):
        """The agent is about to read what the worker process wrote to this stream."""
        scaler_store(self._base + READS + 8 * stream, 2 * self._read_bytes[stream] + 1)

    def end_read(self, int stream, uint64_t count):
        """It has read ``count`` bytes."""
        self._read_bytes[stream] += count
        scaler_store(self._base + READS + 8 * stream, 2 * self._read_bytes[stream])

    def read_bytes(self, int stream):
        """Return how much the agent has read from this stream."""
        return self._read_bytes[stream]

    def output_mark(self, int stream):
        """Return how much had been written to this stream before the tasks that follow."""
        return scaler_load(self._base + MARKS + 8 * stream)

    def interrupt(self, uint64_t sequence):
        """The process shall end this task, which has started, when it gets the signal."""
        if not self.unordered:
            scaler_store(self._base + INTERRUPT, sequence + 1)
        elif sequence not in self._endings and len(self._endings) < CONCURRENCY_LIMIT:
            self._endings.append(sequence)
            self.write_endings()

    cdef int write_endings(self) except -1:
        cdef uint64_t index
        for index in range(len(self._endings)):
            scaler_store(self._base + ENDINGS + 8 + 8 * index, self._endings[index])
        scaler_store(self._base + ENDINGS, len(self._endings))

    def set_lease(self, double until):
        """Nothing starts after ``until`` (monotonic seconds)."""
        scaler_store(self._base + LEASE, <uint64_t>(until * 1e9) if until > 0 else 1)

    @property
    def harvested(self):
        """Everything below this sequence has ended, and its result was harvested, or was withdrawn."""
        return self._harvested

    @property
    def broken(self):
        """The reason why nothing is read from here any more, or None."""
        return self._broken

    cdef void break_off(self, str why):
        if self._broken is None:
            self._broken = why

    def has_results(self):
        return self._broken is None and scaler_load(self._base + HEAD) != self._tail

    cdef int read_record(self, uint64_t head, Record* record) except -1:
        """The record at the tail. 0: there cannot be such a record."""
        cdef uint64_t offset = self._tail & (ARENA_SIZE - 1), rest = ARENA_SIZE - offset, size
        cdef uint8_t* place = self._arena + offset
        if head - self._tail < rest:
            rest = head - self._tail
        if rest < RECORD_BYTES:
            self.break_off("its results end in the middle of one")
            return 0
        record.payload_bytes = (<uint32_t*>(place + 32))[0]
        record.status = place[36]
        record.has_more = place[37]
        record.sequence = (<uint64_t*>place)[0]
        record.duration_ns = (<uint64_t*>(place + 8))[0]
        record.cpu_ns = (<uint64_t*>(place + 16))[0]
        record.memory_peak = (<uint64_t*>(place + 24))[0]
        record.ended_ns = (<uint64_t*>(place + 40))[0]
        record.has_parts = record.status != SKIP and place[38] != 0
        record.has_printed = record.status != SKIP and place[39] != 0
        size = _padded(record_head(record.has_parts, record.has_printed) + <uint64_t> record.payload_bytes)
        if size > rest:
            self.break_off("a result is longer than the memory for results")
            return 0
        record.payload = <char*> (place + record_head(record.has_parts, record.has_printed))
        if record.has_parts:
            memcpy(&record.parts, place + RECORD_BYTES, PARTS_BYTES)
        if record.has_printed:
            memcpy(&record.printed, record.payload - PRINTED_BYTES, PRINTED_BYTES)
        if record.status != SKIP and not self.is_credible(record):
            return 0
        self._tail += size
        return 1

    cdef bint is_credible(self, Record* record) except -1:
        if record.sequence < self._harvested or not self.has_open(record.sequence):
            self.break_off("it has a result of a task that it does not have")
        elif not is_result(record.status):
            self.break_off(f"a result has the status {record.status}")
        elif record.status == STATUS_SUCCESS_LARGE and record.payload_bytes not in (LARGE_BYTES, LARGE_STORED_BYTES):
            self.break_off("a large result has no size")
        elif record.duration_ns > FIGURE_LIMIT or record.cpu_ns > FIGURE_LIMIT or record.memory_peak > FIGURE_LIMIT:
            self.break_off("a result has figures that nothing can have")
        return self._broken is None

    def harvest(self, list dispatched, double now, worker=None):
        """Take the results that the worker process has written. ``dispatched``: the runs dispatched to it, oldest
        first, at least the unfinished ones; their ``unfinished`` goes down. With ``worker``, each result run names that
        worker and states how long before ``now`` (monotonic seconds) each task ended."""
        cdef Harvest harvest = Harvest()
        cdef Record record
        cdef uint64_t position = scaler_load(self._base + POSITION)  # before the results that came until then
        cdef uint64_t head = scaler_load(self._base + HEAD)
        harvest.begin(dispatched, worker, now, self.output)
        if head - self._tail > ARENA_SIZE or head & 7:
            self.break_off("it has more results than there is memory for")
        while self._broken is None and self._tail != head and self.read_record(head, &record):
            if record.status != SKIP:
                if self.unordered:
                    harvest.find_any_entry(record.sequence)
                    self.close_any(record.sequence)
                else:
                    harvest.find_entry(record.sequence)
                    self.close(record.sequence)
                harvest.account(&record)
                harvest.add(&record)
        harvest.finish()
        scaler_store(self._base + TAIL, self._tail)
        scaler_store(self._base + HARVESTED, <uint64_t> (now * 1e9))
        if not self.unordered:
            self.check_order(position)
        return harvest

    def has_left_out_tasks(self):
        cdef uint64_t position = scaler_load(self._base + POSITION)
        if not self.unordered and scaler_load(self._base + HEAD) == self._tail:
            self.check_order(position)
        return self._broken is not None

    cdef void check_order(self, uint64_t position) noexcept:
        """Break off if a task is open that precedes the one under way: such a task has ended, or was taken back."""
        self.find_oldest()
        if self._oldest < position <= self._next and (
            self._oldest + 1 < position
            or scaler_load_cell(self._cells + (self._oldest & (CELL_COUNT - 1))) not in (CELL_DISPATCHED, CELL_STARTED)
        ):
            self.break_off("it has left out a task")

    cdef void close(self, uint64_t sequence) noexcept nogil:
        """The task has ended, and so has everything before it, unless it was withdrawn."""
        self._open[sequence & (CELL_COUNT - 1)] = 0
        self._harvested = sequence + 1

    cdef int close_any(self, uint64_t sequence) except -1:
        """The call has ended. Others that started before it may run."""
        cdef int index = self.find_long(sequence)
        if index >= 0:
            self._long_count -= 1
            self._long[index] = self._long[self._long_count]
        else:
            self._open[sequence & (CELL_COUNT - 1)] = 0
        if sequence in self._endings:
            self._endings.remove(sequence)
            self.write_endings()

    # ---- the worker process's side --------------------------------------------------------------------------------

    cdef bint claim(self, uint64_t sequence) noexcept nogil:
        scaler_store(self._base + POSITION, sequence + 1)
        return scaler_swap(self._cells + (sequence & (CELL_COUNT - 1)), CELL_DISPATCHED, CELL_STARTED)

    cdef bint is_ending(self, uint64_t sequence) noexcept nogil:
        """Return whether the agent wants this call ended."""
        cdef uint64_t index
        for index in range(min(scaler_load(self._base + ENDINGS), <uint64_t> CONCURRENCY_LIMIT)):
            if scaler_load(self._base + ENDINGS + 8 + 8 * index) == sequence:
                return True
        return False

    cdef void begin(self, uint64_t sequence, uint64_t now_ns) noexcept nogil:
        scaler_store(self._base + STARTED, now_ns)
        scaler_store(self._base + RUNNING, sequence + 1)

    cdef void finish(self) noexcept nogil:
        scaler_store(self._base + RUNNING, 0)

    cdef uint64_t reading(self, int stream) noexcept nogil:
        """Twice the bytes of this stream that the agent has read, plus 1 while it is reading."""
        return scaler_load(self._base + READS + 8 * stream)

    cdef uint64_t mark(self, int stream) noexcept nogil:
        return scaler_load(self._base + MARKS + 8 * stream)

    cdef void set_mark(self, int stream, uint64_t count) noexcept nogil:
        """The first ``count`` bytes of this stream were not written by the tasks that follow."""
        scaler_store(self._base + MARKS + 8 * stream, count)

    cdef bint lease_ended(self, uint64_t now_ns) noexcept nogil:
        cdef uint64_t lease = scaler_load(self._base + LEASE)
        return lease != 0 and now_ns > lease

    cdef uint64_t harvested_ns(self) noexcept nogil:
        return scaler_load(self._base + HARVESTED)

    cdef bint has_room(self, uint64_t payload_bytes) noexcept nogil:
        cdef uint64_t used = self._head - scaler_load(self._base + TAIL)
        return used + 2 * _padded(record_head(True, True) + payload_bytes) + RECORD_BYTES <= ARENA_SIZE

    cdef void append(
        self, uint64_t sequence, uint8_t status, const char* payload, uint32_t payload_bytes,
        uint64_t duration_ns, uint64_t cpu_ns, uint64_t memory_peak, uint64_t ended_ns, bint has_more, Parts* parts,
        Printed* printed,
    ) noexcept nogil:
        """Only after ``has_room``. ``has_more``: something about the task was sent outside the board, before.
        ``parts``: of the duration; NULL: all of it was spent running. ``printed``: NULL: the task has printed nothing."""
        cdef uint64_t head = record_head(parts != NULL, printed != NULL)
        cdef uint64_t size = _padded(head + payload_bytes)
        cdef uint64_t offset = self._head & (ARENA_SIZE - 1)
        cdef uint8_t* record
        if offset + size + RECORD_BYTES > ARENA_SIZE:
            record = self._arena + offset
            (<uint32_t*>(record + 32))[0] = <uint32_t>(ARENA_SIZE - offset - RECORD_BYTES)
            record[36] = SKIP
            self._head = self._head + ARENA_SIZE - offset
            offset = 0
        record = self._arena + offset
        (<uint64_t*>record)[0] = sequence
        (<uint64_t*>(record + 8))[0] = duration_ns
        (<uint64_t*>(record + 16))[0] = cpu_ns
        (<uint64_t*>(record + 24))[0] = memory_peak
        (<uint32_t*>(record + 32))[0] = payload_bytes
        record[36] = status
        record[37] = has_more
        record[38] = parts != NULL
        record[39] = printed != NULL
        (<uint64_t*>(record + 40))[0] = ended_ns
        if parts != NULL:
            memcpy(record + RECORD_BYTES, parts, PARTS_BYTES)
        if printed != NULL:
            memcpy(record + head - PRINTED_BYTES, printed, PRINTED_BYTES)
        memcpy(record + head, payload, payload_bytes)
        self._head = self._head + size
        scaler_store(self._base + HEAD, self._head)

    def interrupted(self):
        """Return whether the agent wants the task under way ended."""
        cdef uint64_t running = scaler_load(self._base + RUNNING)
        return running != 0 and running == scaler_load(self._base + INTERRUPT)

    def used_bytes(self):
        return self._head - scaler_load(self._base + TAIL)


cdef bint is_result(uint8_t status) noexcept nogil:
    """Return whether a worker process may say that a task ended so."""
    if status == STATUS_OBJECT_MISSING or status == STATUS_NO_WORKER:
        return True
    return status <= STATUS_CANCELLED or status == STATUS_DESERIALIZE_FAILED


cdef bint is_exception(uint8_t status) noexcept nogil:
    """Whether the payload is a pickled exception, which what the task wrote to stderr may follow."""
    return (
        status == STATUS_EXCEPTION or status == STATUS_EXCEPTION_NOT_SERIALIZABLE
        or status == STATUS_DESERIALIZE_FAILED
    )


cdef uint32_t age_us(uint64_t then_ns, uint64_t now_ns) noexcept nogil:
    """Return how long ago, as far as 32 bits reach."""
    cdef uint64_t age = (now_ns - then_ns) // 1000 if now_ns > then_ns else 0
    return <uint32_t> (age if age < AGE_LIMIT else AGE_LIMIT)
