# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A ring of event records in shared memory. See ring.pyi for the contract."""

from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from scaler_protocol.columns cimport NO_WORKER
from scaler_protocol.result_run cimport ResultRun
from scaler_protocol.wire cimport load32, load64, store64

cdef extern from *:
    """
    #include <stdint.h>
    static inline uint64_t scaler_ring_load(uint8_t *p) { return __atomic_load_n((uint64_t *)p, __ATOMIC_ACQUIRE); }
    static inline void scaler_ring_store(uint8_t *p, uint64_t v) {
        __atomic_store_n((uint64_t *)p, v, __ATOMIC_RELEASE);
    }
    """
    uint64_t scaler_ring_load(uint8_t* p) noexcept nogil
    void scaler_ring_store(uint8_t* p, uint64_t v) noexcept nogil

cdef enum:
    HEAD = 64
    TAIL = 128
    PAGE = 4096
    HEADER = 48
    SKIP = 0
    NAME = 1
    LOG = 17
    ENDED = 4
    GAP = 11
    RAN = 12
    STEPPED = 13
    NONE = 0xFFFFFFFF
    FUNCTIONS = 1
    AGES = 2
    SHORT = 0x100
    SHORT_LIMIT = 0xFFFF
    LONG_LIMIT = 0xFFFFFFFF
    WARM = 1 << 20
    STRETCH_ROWS = 16
    LEFT_OUT = 0xFF
    SUCCESS_LARGE = 1
    CANCELLED = 4

RING_HEADER_BYTES = PAGE


cdef class RingWriter:
    def __init__(self, memory):
        self.memory = memory
        self.view = memory
        self.base = &self.view[0]
        self.capacity = (self.view.shape[0] - PAGE) & ~<uint64_t> 7
        self.head = scaler_ring_load(self.base + HEAD)
        self.tail = scaler_ring_load(self.base + TAIL)

    cdef uint8_t* place(self, uint64_t size) noexcept nogil:
        """Return where a record of this size may be written, in one piece. NULL: nowhere."""
        cdef uint64_t offset, rest, needed
        self.begin_anew()
        offset = self.head % self.capacity
        rest = self.capacity - offset
        needed = size if size <= rest else size + rest
        if size > self.capacity:
            return NULL
        if self.capacity - (self.head - self.tail) < needed:
            self.tail = scaler_ring_load(self.base + TAIL)
            if self.capacity - (self.head - self.tail) < needed:
                return NULL
        if size > rest:
            self.skip(offset, rest)
            offset = 0
        self.pending = size
        return self.base + PAGE + offset

    cdef inline void begin_anew(self) noexcept nogil:
        """Continue at the start of the memory if all was taken: that part is in the processor's caches, the rest is
        not."""
        cdef uint64_t offset = self.head % self.capacity
        if offset < WARM:
            return
        self.tail = scaler_ring_load(self.base + TAIL)
        if self.tail == self.head:
            self.skip(offset, self.capacity - offset)

    cdef inline void skip(self, uint64_t offset, uint64_t rest) noexcept nogil:
        if rest >= HEADER:
            (<Header*> (self.base + PAGE + offset)).kind = SKIP
        self.head = self.head + rest

    cdef void note_gap(self) noexcept nogil:
        """Say, now that there is room again, how many records were dropped."""
        cdef Header* header = <Header*> self.place(HEADER)
        if header == NULL:
            return
        memset(header, 0, HEADER)
        header.kind = GAP
        header.size = HEADER
        header.first = self.missed
        header.session = header.agent = header.function = header.worker = NONE
        self.missed = 0
        self.head = self.head + HEADER
        scaler_ring_store(self.base + HEAD, self.head)

    cdef Header* begin(self, uint64_t size) noexcept nogil:
        """Room for a record, its header zeros but for ``size``, to be filled and committed. NULL: it is dropped."""
        cdef uint8_t* at
        if self.missed:
            self.note_gap()
        at = NULL if self.missed else self.place(size)
        if at == NULL:
            self.missed = self.missed + 1
            self.dropped = self.dropped + 1
            return NULL
        memset(at, 0, HEADER)
        (<Header*> at).size = <uint32_t> size
        return <Header*> at

    cdef void commit(self) noexcept nogil:
        self.recorded = self.recorded + 1
        self.head = self.head + self.pending
        scaler_ring_store(self.base + HEAD, self.head)

    def write(self, bytes record):
        cdef uint64_t size = PyBytes_GET_SIZE(record)
        cdef Header* header = self.begin(size)
        if header == NULL:
            return False
        memcpy(header, PyBytes_AS_STRING(record), size)
        self.commit()
        return True

    def write_plain(self, uint16_t kind, uint32_t count, uint64_t time, uint32_t session, uint64_t first,
                    uint32_t function, uint32_t agent, uint32_t attempt, uint32_t worker=NONE):
        cdef Header* header = self.begin(HEADER)
        if header == NULL:
            return False
        header.kind = kind
        header.count = count
        header.time = time
        header.session = session
        header.first = first
        header.function = function
        header.agent = agent
        header.attempt = attempt
        header.worker = worker
        self.commit()
        return True

    def write_ended(self, ResultRun run, uint64_t time, uint32_t session, uint32_t agent, list segments,
                    bytearray fates):
        cdef list parts
        cdef bint troubled = False
        if run.steps != NULL:
            if fates is None and len(segments) == 1 and is_row(run):
                return self.write_stepped(run, time, session, agent, segments[0][1])
            run.spell_out()
        if fates is not None or len(segments) > 1 or run.ages == NULL or run.count == 0:
            return self.write_columns_of(run, time, session, agent, segments, fates)
        if run.is_alike():
            return self.write_ran(run, time, session, agent, segments[0][1])
        parts = stretches(run)
        if parts is None:
            return self.write_columns_of(run, time, session, agent, segments, fates)
        for start, stop in parts:
            troubled |= self.write_ran(run.slice(start, stop), time, session, agent, segments[0][1])
        return troubled

    cdef bint write_ran(self, ResultRun run, uint64_t time, uint32_t session, uint32_t agent, uint32_t function):
        """Return whether some did not succeed."""
        cdef uint64_t longest = most64(run.durations, run.count)
        cdef bint short = (longest | most32(run.ages, run.count)) <= SHORT_LIMIT
        cdef bint well = run.statuses[0] <= SUCCESS_LARGE
        cdef Header* header
        if longest > LONG_LIMIT:
            return self.write_columns_of(run, time, session, agent, [(0, function)], None)
        header = self.begin((HEADER + run.count * <uint64_t> (4 if short else 8) + 7) & ~<uint64_t> 7)
        if header == NULL:
            return not well
        fill_alike(header, run, time, session, agent, function)
        header.kind = RAN
        header.flags |= SHORT if short else 0
        if short:
            write_short(header, run)
        else:
            write_long(header, run)
        self.commit()
        return not well

    cdef bint write_stepped(self, ResultRun run, uint64_t time, uint32_t session, uint32_t agent, uint32_t function):
        """The same, of a run that has steps."""
        cdef uint64_t size = (HEADER + <uint64_t> run.steps_bytes + 7) & ~<uint64_t> 7
        cdef Header* header = self.begin(size)
        if header == NULL:
            return run.statuses[0] > SUCCESS_LARGE
        store64(<uint8_t*> header + size - 8, 0)
        fill_alike(header, run, time, session, agent, function)
        header.kind = STEPPED
        memcpy(<uint8_t*> header + HEADER, run.steps, run.steps_bytes)
        self.commit()
        return run.statuses[0] > SUCCESS_LARGE

    cdef bint write_columns_of(self, ResultRun run, uint64_t time, uint32_t session, uint32_t agent, list segments,
                               bytearray fates):
        cdef const uint8_t* statuses = run.statuses if fates is None else <uint8_t*> PyByteArray_AS_STRING(fates)
        cdef uint32_t rows = kept_rows(statuses, run.count) if fates is not None else run.count
        cdef bint mixed = len(segments) > 1
        cdef bint aged = run.ages != NULL
        cdef uint64_t size = HEADER + rows * <uint64_t> (21 + 4 * mixed + 4 * aged)
        cdef Header* header
        cdef bint well = all_well(run.statuses, run.count)
        if rows == 0:
            return not well
        header = self.begin((size + 7) & ~<uint64_t> 7)
        if header == NULL:
            return not well
        header.kind = ENDED
        header.flags = (FUNCTIONS if mixed else 0) | (AGES if aged else 0)
        header.count = rows
        header.time = time
        header.session = session
        header.agent = agent
        header.function = NONE
        if not mixed:
            header.function = segments[0][1]
        header.worker = NONE
        if run.worker != NO_WORKER:
            header.worker = run.worker
        if rows == run.count:
            write_columns(header, run, statuses, segments if mixed else None)
        else:
            write_rows(header, run, statuses, segments if mixed else None)
        self.commit()
        return not well


cdef inline void fill_alike(
    Header* header, ResultRun run, uint64_t time, uint32_t session, uint32_t agent, uint32_t function
) noexcept nogil:
    """The header of consecutive tasks that ended alike."""
    header.flags = run.statuses[0]
    header.count = run.count
    header.time = time
    header.session = session
    header.first = load64(run.tasks)
    header.agent = agent
    header.function = function
    header.attempt = load32(run.attempts)
    header.worker = run.worker if run.worker != NO_WORKER else <uint32_t> NONE


cdef inline bint is_row(ResultRun run) noexcept nogil:
    """Return whether its tasks follow one another, as they do where there are steps: its agent said so."""
    return load64(run.tasks + 8 * <uint64_t> (run.count - 1)) - load64(run.tasks) == run.count - 1


cdef list stretches(ResultRun run):
    """(first row, row behind the last) of each part whose tasks follow one another and ended alike. None: these are too
    short to be worth a record each."""
    cdef list found = []
    cdef uint32_t start = 0, row
    cdef uint32_t limit = run.count // STRETCH_ROWS
    for row in range(1, run.count + 1):
        if row < run.count and follows(run, row):
            continue
        if <uint32_t> len(found) == limit:
            return None
        found.append((start, row))
        start = row
    return found


cdef inline bint follows(ResultRun run, uint32_t row) noexcept nogil:
    return (
        load64(run.tasks + 8 * row) == load64(run.tasks + 8 * (row - 1)) + 1
        and load32(run.attempts + 4 * row) == load32(run.attempts + 4 * (row - 1))
        and run.statuses[row] == run.statuses[row - 1]
    )


cdef uint64_t most64(const uint8_t* column, uint64_t count) noexcept nogil:
    """No value in it is larger, and at most all bits that any of them has are set."""
    cdef uint64_t row, bits = 0
    for row in range(count):
        bits |= load64(column + 8 * row)
    return bits


cdef uint64_t most32(const uint8_t* column, uint64_t count) noexcept nogil:
    cdef uint64_t row
    cdef uint32_t bits = 0
    for row in range(count):
        bits |= load32(column + 4 * row)
    return bits


cdef void write_short(Header* header, ResultRun run) noexcept nogil:
    cdef uint16_t* durations = <uint16_t*> (<uint8_t*> header + HEADER)
    cdef uint64_t row, count = run.count
    cdef uint16_t* ages = durations + count
    for row in range(count):
        durations[row] = <uint16_t> load64(run.durations + 8 * row)
    for row in range(count):
        ages[row] = <uint16_t> load32(run.ages + 4 * row)


cdef void write_long(Header* header, ResultRun run) noexcept nogil:
    cdef uint32_t* durations = <uint32_t*> (<uint8_t*> header + HEADER)
    cdef uint64_t row, count = run.count
    for row in range(count):
        durations[row] = <uint32_t> load64(run.durations + 8 * row)
    memcpy(durations + count, run.ages, 4 * count)


def failed_rows(ResultRun run, bytes rooms):
    cdef list rows = []
    cdef bytearray left = bytearray(rooms)
    cdef uint8_t* room = <uint8_t*> PyByteArray_AS_STRING(left)
    cdef uint64_t kinds = len(left)
    cdef uint32_t row
    cdef uint8_t status
    for row in range(run.count):
        status = run.statuses[row]
        if status > SUCCESS_LARGE and status != CANCELLED and status < kinds and room[status]:
            room[status] -= 1
            rows.append(row)
    return rows


cdef bint all_well(const uint8_t* statuses, uint32_t count) noexcept nogil:
    cdef uint32_t row
    cdef uint8_t bad = 0
    for row in range(count):
        bad |= statuses[row] > SUCCESS_LARGE
    return not bad


def lasting_in(bytes data):
    cdef const uint8_t* base = <const uint8_t*> PyBytes_AS_STRING(data)
    cdef uint64_t at = 0, total = PyBytes_GET_SIZE(data)
    cdef const Header* header
    cdef list found = []
    while at + HEADER <= total:
        header = <const Header*> (base + at)
        if header.size < HEADER or header.size % 8 or header.size > total - at:
            break
        if header.kind == NAME or header.kind == LOG:
            found.append(data[at : at + header.size])
        at += header.size
    return found


cdef uint32_t kept_rows(const uint8_t* statuses, uint32_t count) noexcept nogil:
    cdef uint32_t row, kept = 0
    for row in range(count):
        kept += statuses[row] != LEFT_OUT
    return kept


cdef void write_columns(Header* header, ResultRun run, const uint8_t* statuses, list segments):
    """All rows of the run, column by column."""
    cdef uint8_t* at = <uint8_t*> header + HEADER
    cdef uint64_t rows = run.count
    cdef uint64_t row, stop, index
    memcpy(at, run.tasks, 8 * rows)
    memcpy(at + 8 * rows, run.durations, 8 * rows)
    memcpy(at + 16 * rows, run.attempts, 4 * rows)
    at += 20 * rows
    if segments is not None:
        for index in range(len(segments)):
            stop = segments[index + 1][0] if index + 1 < <uint64_t> len(segments) else rows
            for row in range(segments[index][0], stop):
                (<uint32_t*> at)[row] = segments[index][1]
        at += 4 * rows
    if run.ages != NULL:
        memcpy(at, run.ages, 4 * rows)
        at += 4 * rows
    memcpy(at, statuses, rows)


cdef void write_rows(Header* header, ResultRun run, const uint8_t* statuses, list segments):
    """The rows that are not left out, one by one."""
    cdef uint64_t rows = header.count
    cdef uint64_t* tasks = <uint64_t*> (<uint8_t*> header + HEADER)
    cdef uint64_t* durations = tasks + rows
    cdef uint32_t* attempts = <uint32_t*> (durations + rows)
    cdef uint32_t* functions = attempts + rows
    cdef uint32_t* ages = functions + (rows if segments is not None else 0)
    cdef uint8_t* ends = <uint8_t*> (ages + (rows if run.ages != NULL else 0))
    cdef uint64_t row, to = 0, segment = 0
    for row in range(run.count):
        while segments is not None and segment + 1 < <uint64_t> len(segments) and segments[segment + 1][0] <= row:
            segment += 1
        if statuses[row] == LEFT_OUT:
            continue
        tasks[to] = load64(run.tasks + 8 * row)
        durations[to] = load64(run.durations + 8 * row)
        attempts[to] = load32(run.attempts + 4 * row)
        if segments is not None:
            functions[to] = segments[segment][1]
        if run.ages != NULL:
            ages[to] = load32(run.ages + 4 * row)
        ends[to] = statuses[row]
        to += 1


cdef class RingReader:
    def __init__(self, memory):
        self.memory = memory
        self.view = memory
        self.base = &self.view[0]
        self.capacity = (self.view.shape[0] - PAGE) & ~<uint64_t> 7

    def take(self, uint64_t limit_bytes):
        cdef uint64_t head = scaler_ring_load(self.base + HEAD)
        cdef uint64_t start = scaler_ring_load(self.base + TAIL)
        cdef uint64_t at = start, first = self.read + self.dropped, offset
        cdef uint64_t count = 0, size
        cdef Header* header
        if head < start or head - start > self.capacity or head >> 63:  # ``at`` must not pass the end of 64 bits
            raise ValueError("The ring of event records is damaged.")
        while at < head:
            offset = at % self.capacity
            if offset == 0 and at > start:
                break  # a batch is copied in one piece, and the one before ended just where the memory does
            header = <Header*> (self.base + PAGE + offset)
            if self.capacity - offset < HEADER or header.kind == SKIP:
                if at > start:
                    break
                at += self.capacity - offset
                start = at
                continue
            size = header.size
            if size < HEADER or size % 8 or size > self.capacity - offset or size > head - at:
                raise ValueError("The ring of event records is damaged.")
            if at > start and at - start + size > limit_bytes:
                break
            if header.kind == GAP:
                if at > start:
                    break  # a batch is numbered without gaps
                self.dropped += header.first
                first += header.first
                start = at + size
            else:
                self.read += 1
                count += 1
            at += size
        data = PyBytes_FromStringAndSize(<char*> self.base + PAGE + start % self.capacity, at - start)
        scaler_ring_store(self.base + TAIL, at)
        return data, count, first
