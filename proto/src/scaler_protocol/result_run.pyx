# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Columns of results.

A run keeps the bytes objects that hold its columns and its payload and points into them: slicing copies nothing.
"""

import struct

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from scaler_protocol.columns cimport (
    AGE_SIZE,
    NO_WORKER,
    RESULT_COLUMNS_SIZE,
    Column,
    checked_id,
    column_add32,
    column_add64,
    column_bytes,
    column_extend,
    copy_bytes,
    ends_equal,
    piece_start,
    same_bytes,
)
from scaler_protocol.steps cimport pack_steps, unpack_steps
from scaler_protocol.wire cimport load32, load64

cdef enum:
    PARTS_SIZE = 16


cdef class ResultRun:
    def __cinit__(self):
        self.worker = NO_WORKER

    def __init__(self, session, rows):
        cdef ResultRunBuilder builder = ResultRunBuilder(session)
        for row in rows:
            builder.append(*row)
        builder.fill(self)

    cdef uint64_t checked(self, index) except? 0:
        cdef int64_t row = index
        if row < 0 or row >= self.count:
            raise IndexError(f"Result {index} of a run of {self.count}.")
        return <uint64_t> row

    cdef inline object piece(self, uint64_t row):
        if self.view is None:
            self.view = memoryview(self.payload_owner)
        cdef size_t offset = self.origin - <const uint8_t*> PyBytes_AS_STRING(self.payload_owner)
        return self.view[offset + piece_start(self.ends, self.start, row) : offset + load32(self.ends + 4 * row)]

    def task(self, index):
        return load64(self.tasks + 8 * self.checked(index))

    def attempt(self, index):
        return load32(self.attempts + 4 * self.checked(index))

    def status(self, index):
        return self.statuses[self.checked(index)]

    def payload(self, index):
        return self.piece(self.checked(index))

    def payload_copy(self, index):
        """The payload as bytes of its own."""
        cdef uint64_t row = self.checked(index)
        cdef uint32_t begin = piece_start(self.ends, self.start, row)
        return PyBytes_FromStringAndSize(<char*> self.origin + begin, load32(self.ends + 4 * row) - begin)

    def duration_us(self, index):
        return load64(self.durations + 8 * self.checked(index))

    def cpu_time_us(self, index):
        return load64(self.cpu_times + 8 * self.checked(index))

    def memory_peak(self, index):
        cdef uint64_t row = self.checked(index)
        return load64(self.peaks + 8 * row) if self.peaks != NULL else 0

    cdef object column(self, const uint8_t* place, size_t size, str code):
        if self.owner_view is None:
            self.owner_view = memoryview(self.columns_owner)
        cdef size_t offset = place - <const uint8_t*> PyBytes_AS_STRING(self.columns_owner)
        return self.owner_view[offset : offset + size].cast(code)

    @property
    def task_column(self):
        """All tasks, as a memoryview of format Q."""
        return self.column(self.tasks, 8 * <size_t> self.count, "Q")

    @property
    def attempt_column(self):
        """All attempts, as a memoryview of format I."""
        return self.column(self.attempts, 4 * <size_t> self.count, "I")

    @property
    def status_column(self):
        """All statuses, as a memoryview of format B."""
        return self.column(self.statuses, self.count, "B")

    @property
    def duration_column(self):
        """All durations in microseconds, as a memoryview of format Q."""
        return self.column(self.durations, 8 * <size_t> self.count, "Q")

    @property
    def cpu_time_column(self):
        """All processor times in microseconds, as a memoryview of format Q."""
        return self.column(self.cpu_times, 8 * <size_t> self.count, "Q")

    def set_place(self, worker, bytes ages):
        if len(ages) != AGE_SIZE * <size_t> self.count:
            raise ValueError(f"{len(ages)} bytes of ages for {self.count} results.")
        cdef bytes steps = None
        if self.is_alike():
            steps = pack_steps(self.durations, <const uint8_t*> PyBytes_AS_STRING(ages), self.count)
        self.worker = worker
        if steps is None:
            self.take_ages(ages)
        else:
            self.take_steps(steps)

    def set_parts(self, bytes parts):
        if not are_parts(parts, self.count):
            raise ValueError("The parts of durations name rows that the run does not have.")
        self.parts = parts

    cdef bytes parts_of(self, uint32_t first, uint32_t last):
        """Return the parts of the rows ``first`` up to ``last``, for a run of these rows; None: there are none."""
        cdef list kept = []
        if self.parts is None:
            return None
        for row, fetching, loading, storing in struct.iter_unpack("<4I", self.parts):
            if first <= <uint32_t> row < last:
                kept.append(struct.pack("<4I", row - first, fetching, loading, storing))
        return b"".join(kept) or None

    def forget_parts(self):
        self.parts = None

    def forget_place(self):
        self.worker = NO_WORKER
        self.ages_owner = None
        self.ages = self.steps = NULL

    cdef int take_ages(self, bytes ages) noexcept:
        self.ages_owner = ages
        self.ages = <const uint8_t*> PyBytes_AS_STRING(ages)
        self.steps = NULL
        return 0

    cdef int take_steps(self, bytes steps) noexcept:
        self.ages_owner = steps
        self.steps = <const uint8_t*> PyBytes_AS_STRING(steps)
        self.steps_bytes = <uint32_t> PyBytes_GET_SIZE(steps)
        self.ages = NULL
        return 0

    cdef int spell_out(self) except -1:
        """Have ages in place of steps; neither, when these cannot be."""
        cdef bytes durations, ages
        if self.steps == NULL:
            return 0
        durations = PyBytes_FromStringAndSize(NULL, 4 * <size_t> self.count)
        ages = PyBytes_FromStringAndSize(NULL, AGE_SIZE * <size_t> self.count)
        if unpack_steps(
            self.steps, self.steps_bytes, self.count,
            <uint32_t*> PyBytes_AS_STRING(durations), <uint32_t*> PyBytes_AS_STRING(ages),
        ):
            self.take_ages(ages)
        else:
            self.steps = NULL
        return 0

    cdef bint is_alike(self) noexcept nogil:
        """Return whether its tasks follow one another, and ended the same way in the same attempt."""
        cdef uint64_t row, first, differing = 0
        cdef uint64_t count = self.count
        cdef uint32_t attempt, others = 0
        cdef uint8_t ends = 0
        if count == 0:
            return False
        first, attempt = load64(self.tasks), load32(self.attempts)
        if load64(self.tasks + 8 * (count - 1)) != first + count - 1:
            return False
        for row in range(count):
            differing |= load64(self.tasks + 8 * row) ^ (first + row)
        for row in range(count):
            others |= load32(self.attempts + 4 * row) ^ attempt
        for row in range(count):
            ends |= self.statuses[row] ^ self.statuses[0]
        return not (differing or others or ends)

    @property
    def age_column(self):
        self.spell_out()
        if self.ages == NULL:
            return None
        return memoryview(PyBytes_FromStringAndSize(<char*> self.ages, AGE_SIZE * <size_t> self.count)).cast("I")

    cdef tuple row(self, uint64_t row):
        return (
            load64(self.tasks + 8 * row),
            load32(self.attempts + 4 * row),
            self.statuses[row],
            self.piece(row),
            load64(self.durations + 8 * row),
            load64(self.cpu_times + 8 * row),
            load64(self.peaks + 8 * row) if self.peaks != NULL else 0,
        )

    def rows(self):
        cdef uint64_t row
        for row in range(self.count):
            yield self.row(row)

    def copied_rows(self):
        """Like rows, without the attempt, and each payload as bytes of its own."""
        cdef uint64_t row
        cdef uint32_t begin
        for row in range(self.count):
            begin = piece_start(self.ends, self.start, row)
            yield (
                load64(self.tasks + 8 * row),
                self.statuses[row],
                PyBytes_FromStringAndSize(<char*> self.origin + begin, load32(self.ends + 4 * row) - begin),
                load64(self.durations + 8 * row),
                load64(self.cpu_times + 8 * row),
                load64(self.peaks + 8 * row) if self.peaks != NULL else 0,
            )

    def mark(self, uint64_t first_task, bytearray states):
        """Set ``states[task - first_task]`` to 1 for each result, if all of them succeeded and each was 0. Returns the
        number of results; 0: some task is not among these, had ended before or did not succeed, and nothing was set."""
        cdef uint8_t[::1] view = states
        cdef uint64_t size = view.shape[0]
        cdef uint64_t row, place
        for row in range(self.count):
            place = load64(self.tasks + 8 * row) - first_task
            if place >= size or view[place] or self.statuses[row]:
                while row:
                    row -= 1
                    view[load64(self.tasks + 8 * row) - first_task] = 0
                return 0
            view[place] = 1
        return self.count

    def load_into(self, list results, int64_t shift, loads):
        """``results[task - shift] = loads(payload)`` for each result."""
        cdef uint64_t row, task
        cdef uint32_t begin
        for row in range(self.count):
            begin = piece_start(self.ends, self.start, row)
            value = loads(PyBytes_FromStringAndSize(<char*> self.origin + begin, load32(self.ends + 4 * row) - begin))
            task = load64(self.tasks + 8 * row)
            if task - <uint64_t> shift >= <uint64_t> len(results):
                raise IndexError(f"Task {task} is not among {len(results)} results.")
            results[<Py_ssize_t> (task - <uint64_t> shift)] = value

    def slice(self, start, stop):
        """Results ``start`` up to ``stop``; shares columns and payload."""
        cdef int64_t first = start
        cdef int64_t last = stop
        if first < 0 or last > self.count or first >= last:
            raise IndexError(f"Results {start} to {stop} of a run of {self.count}.")
        cdef ResultRun run = ResultRun.__new__(ResultRun)
        self.spell_out()
        run.session = self.session
        run.count = <uint32_t> (last - first)
        run.tasks = self.tasks + 8 * first
        run.attempts = self.attempts + 4 * first
        run.statuses = self.statuses + first
        run.durations = self.durations + 8 * first
        run.cpu_times = self.cpu_times + 8 * first
        run.peaks = self.peaks + 8 * first if self.peaks != NULL else NULL
        run.ends = self.ends + 4 * first
        run.origin = self.origin
        run.start = piece_start(self.ends, self.start, first)
        run.payload_bytes = piece_start(self.ends, self.start, last) - run.start
        run.columns_owner = self.columns_owner
        run.payload_owner = self.payload_owner
        run.worker = self.worker
        run.ages_owner = self.ages_owner
        run.ages = self.ages + AGE_SIZE * first if self.ages != NULL else NULL
        run.parts = self.parts_of(first, last)
        return run

    def select(self, indices):
        cdef list chosen = list(indices)
        cdef ResultRunBuilder builder
        if chosen and chosen[len(chosen) - 1] - chosen[0] == len(chosen) - 1 and is_range(chosen):
            return self.slice(chosen[0], chosen[0] + len(chosen))
        builder = ResultRunBuilder(self.session)
        for index in chosen:
            builder.append_from(self, self.checked(index))
        return builder.build()

    def __reduce__(self):
        """Its columns are addresses: a copy made by pickle would crash."""
        raise TypeError(f"A {type(self).__name__} cannot be pickled.")

    def __eq__(self, other):
        if not isinstance(other, ResultRun):
            return NotImplemented
        return self.same(<ResultRun> other)

    cdef bint same(self, ResultRun other):
        cdef size_t n = self.count
        if self.session != other.session or n != other.count or self.payload_bytes != other.payload_bytes:
            return False
        if not same_bytes(self.tasks, other.tasks, 8 * n) or not same_bytes(self.attempts, other.attempts, 4 * n):
            return False
        if not same_bytes(self.statuses, other.statuses, n) or not same_bytes(self.durations, other.durations, 8 * n):
            return False
        if not same_bytes(self.cpu_times, other.cpu_times, 8 * n):
            return False
        if not ends_equal(self.ends, self.start, other.ends, other.start, n):
            return False
        if not same_bytes(self.origin + self.start, other.origin + other.start, self.payload_bytes):
            return False
        return all(self.memory_peak(index) == other.memory_peak(index) for index in range(n))

    def __repr__(self):
        return f"ResultRun({self.session.hex()[:8]} {self.count} results)"


cdef bint are_parts(bytes parts, uint32_t count):
    """Return whether this may say of so many rows what their durations consist of: rows ascend."""
    cdef const uint8_t* data = <const uint8_t*> PyBytes_AS_STRING(parts)
    cdef int64_t row, before = -1
    cdef Py_ssize_t place
    if PyBytes_GET_SIZE(parts) % PARTS_SIZE:
        return False
    for place in range(0, PyBytes_GET_SIZE(parts), PARTS_SIZE):
        row = load32(data + place)
        if row <= before or row >= count:
            return False
        before = row
    return True


cdef bint is_range(list indices):
    cdef int64_t expected = indices[0]
    cdef int64_t index
    for index in indices:
        if index != expected:
            return False
        expected += 1
    return True


cdef class ResultRunBuilder:
    def __init__(self, session):
        self.session = checked_id(session, "session")

    def __dealloc__(self):
        free(self.tasks.data)
        free(self.attempts.data)
        free(self.statuses.data)
        free(self.durations.data)
        free(self.cpu_times.data)
        free(self.peaks.data)
        free(self.ends.data)
        free(self.payload.data)

    @property
    def payload_bytes(self):
        return self.payload.size

    def append(self, uint64_t task, uint32_t attempt, uint8_t status, payload, uint64_t duration_us,
               uint64_t cpu_time_us, uint64_t memory_peak):
        cdef const uint8_t[::1] view
        if PyBytes_CheckExact(payload):
            self.add(
                task, attempt, status, <const uint8_t*> PyBytes_AS_STRING(payload), PyBytes_GET_SIZE(payload),
                duration_us, cpu_time_us, memory_peak,
            )
            return
        view = payload
        self.add(
            task, attempt, status, &view[0] if view.shape[0] else NULL, view.shape[0], duration_us, cpu_time_us,
            memory_peak,
        )

    cdef int append_from(self, ResultRun run, uint64_t row) except -1:
        cdef uint32_t begin = piece_start(run.ends, run.start, row)
        return self.add(
            load64(run.tasks + 8 * row),
            load32(run.attempts + 4 * row),
            run.statuses[row],
            run.origin + begin,
            load32(run.ends + 4 * row) - begin,
            load64(run.durations + 8 * row),
            load64(run.cpu_times + 8 * row),
            load64(run.peaks + 8 * row) if run.peaks != NULL else 0,
        )

    cdef int add(
        self, uint64_t task, uint32_t attempt, uint8_t status, const uint8_t* payload, size_t size,
        uint64_t duration_us, uint64_t cpu_time_us, uint64_t memory_peak,
    ) except -1:
        if self.payload.size + size > 0xFFFFFFFF:
            raise ValueError("A run holds less than 4 GiB.")
        if size:
            memcpy(column_extend(&self.payload, size), payload, size)
        column_add64(&self.tasks, task)
        column_add32(&self.attempts, attempt)
        column_extend(&self.statuses, 1)[0] = status
        column_add64(&self.durations, duration_us)
        column_add64(&self.cpu_times, cpu_time_us)
        column_add64(&self.peaks, memory_peak)
        column_add32(&self.ends, <uint32_t> self.payload.size)
        self.has_peaks |= memory_peak != 0
        self.count += 1
        return 0

    cdef int fill(self, ResultRun run) except -1:
        cdef uint8_t* place
        cdef size_t n = self.count
        run.columns_owner = PyBytes_FromStringAndSize(NULL, n * RESULT_COLUMNS_SIZE)
        run.payload_owner = column_bytes(&self.payload)
        place = <uint8_t*> PyBytes_AS_STRING(run.columns_owner)
        run.tasks = place_column(&place, &self.tasks)
        run.durations = place_column(&place, &self.durations)
        run.cpu_times = place_column(&place, &self.cpu_times)
        run.peaks = place_column(&place, &self.peaks) if self.has_peaks else NULL
        run.attempts = place_column(&place, &self.attempts)
        run.ends = place_column(&place, &self.ends)
        run.statuses = place_column(&place, &self.statuses)
        run.origin = <const uint8_t*> PyBytes_AS_STRING(run.payload_owner)
        run.start = 0
        run.payload_bytes = <uint32_t> self.payload.size
        run.session = self.session
        run.count = self.count
        return 0

    def build(self):
        """The results so far. The builder may go on."""
        cdef ResultRun run = ResultRun.__new__(ResultRun)
        self.fill(run)
        return run


cdef const uint8_t* place_column(uint8_t** place, Column* column) noexcept:
    cdef uint8_t* start = place[0]
    copy_bytes(start, column.data, column.size)
    place[0] = start + column.size
    return start
