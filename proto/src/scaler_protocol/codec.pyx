# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Columns of tasks and results, and the codec of messages.

Tasks, Results and bodies without fields are written and read here, in the layout of message.capnp; all others by
``bodies``. A run keeps the bytes objects that hold its columns and its payload and points into them: slicing and
decoding copy nothing, encoding copies each byte once.
"""

import sys

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memchr, memcmp, memcpy, memset

from scaler_protocol.wire cimport (
    BytesView,
    ListView,
    Reader,
    StructView,
    Writer,
    element,
    field32,
    field64,
    field_bit,
    load32,
    load64,
    open_message,
    put_bytes,
    put_message,
    put_pointers,
    put_struct,
    put_structs,
    read_bytes,
    read_bytes_at,
    read_field,
    read_pointers,
    read_struct,
    read_structs,
    store32,
    store64,
    word,
    words_for,
)

from scaler_protocol import bodies
from scaler_protocol.messages import (
    MESSAGE_LIMIT_BYTES as _MESSAGE_LIMIT_BYTES,
    Capability,
    Envelope,
    FunctionDefinition,
    ObjectKey,
    Results,
    TaskOptions,
    Tasks,
)

if sys.byteorder != "little":
    raise ImportError("scaler_protocol needs a little-endian machine.")

cdef enum:
    ID_SIZE = 16
    REFERENCE_SIZE = 24  # of an object key in the payload: owner, number
    RESULT_COLUMNS_SIZE = 41  # of one result in all columns
    TASKS_TAG = 0  # of the union of Message
    RESULTS_TAG = 1
    # Sections of the structs of message.capnp, in words.
    ROOT_WORDS = 5  # the root pointer and Message
    ROOT_POINTER = 4  # the pointer of Message
    TASKS_DATA = 1
    TASKS_POINTERS = 3
    TASK_RUN_DATA = 5
    TASK_RUN_POINTERS = 8
    OPTIONS_DATA = 5
    FUNCTION_DATA = 1
    FUNCTION_POINTERS = 3
    RESULT_RUN_DATA = 3
    RESULT_RUN_POINTERS = 8
    RUN_OVERHEAD = 512  # what a run costs beside its columns, payload and names, at most
    TASK_LIMIT = 1048576
    MESSAGE_LIMIT = 1048576

TASKS_LIMIT = TASK_LIMIT
"""No message has more tasks: a task without arguments costs no bytes."""

HARD_LIMIT_BYTES = 2 * _MESSAGE_LIMIT_BYTES
"""``encode`` refuses more. Messages are planned for MESSAGE_LIMIT_BYTES; the rest is room for functions that ride
along, and for a relayed message inside another."""

_DEFAULT_OPTIONS = TaskOptions()
_options_cache: dict = {}
_OPTIONS_CACHE_SIZE = 256


class MalformedMessage(ValueError):
    """What was received is not a message of this protocol."""


# ---- growing columns ------------------------------------------------------------------------------------------------


cdef struct Column:
    uint8_t* data
    size_t size
    size_t capacity


cdef int column_grow(Column* column, size_t extra) except -1:
    cdef size_t capacity = max(column.capacity * 2, column.size + extra, 256)
    cdef uint8_t* data = <uint8_t*> realloc(column.data, capacity)
    if data == NULL:
        raise MemoryError()
    column.data = data
    column.capacity = capacity
    return 0


cdef inline uint8_t* column_extend(Column* column, size_t extra) except NULL:
    """Room for ``extra`` more bytes, which now belong to the column."""
    if column.capacity - column.size < extra or column.data == NULL:
        column_grow(column, extra)
    cdef uint8_t* place = column.data + column.size
    column.size += extra
    return place


cdef inline int column_add32(Column* column, uint32_t value) except -1:
    store32(column_extend(column, 4), value)
    return 0


cdef inline int column_add64(Column* column, uint64_t value) except -1:
    store64(column_extend(column, 8), value)
    return 0


cdef inline bytes column_bytes(Column* column):
    return PyBytes_FromStringAndSize(<char*> column.data, column.size)


cdef inline void rebase(uint8_t* to, const uint8_t* ends, uint64_t count, uint32_t start) noexcept nogil:
    """Copy an ends column so that it counts from ``start``."""
    cdef uint64_t index
    if start == 0:
        memcpy(to, ends, 4 * count)
        return
    for index in range(count):
        store32(to + 4 * index, load32(ends + 4 * index) - start)


cdef inline bint ends_equal(
    const uint8_t* one, uint32_t one_start, const uint8_t* other, uint32_t other_start, uint64_t count
) noexcept nogil:
    cdef uint64_t index
    for index in range(count):
        if load32(one + 4 * index) - one_start != load32(other + 4 * index) - other_start:
            return False
    return True


cdef inline bint ends_in_order(const uint8_t* ends, uint64_t count, uint64_t size) noexcept nogil:
    """Whether the pieces follow one another and fill ``size`` bytes exactly."""
    cdef uint64_t index
    cdef uint32_t end, previous = 0
    cdef bint bad = False
    for index in range(count):
        end = load32(ends + 4 * index)
        bad |= end < previous
        previous = end
    return not bad and previous == size


cdef bytes checked_id(object value, str name):
    if not isinstance(value, bytes) or len(value) != ID_SIZE:
        raise ValueError(f"{name} must be {ID_SIZE} bytes, not {value!r}.")
    return value


# ---- tasks ----------------------------------------------------------------------------------------------------------


cdef class TaskRun:
    cdef readonly bytes session
    cdef readonly bytes function
    cdef readonly str function_name
    cdef readonly bytes serializer
    cdef readonly tuple keywords
    cdef readonly object options
    cdef readonly uint64_t first_task
    cdef readonly uint32_t count
    cdef readonly uint32_t attempt
    cdef readonly uint32_t arity
    cdef readonly uint32_t payload_bytes
    cdef const uint8_t* ends
    cdef const uint8_t* marks  # one byte per slot, 1: a reference; NULL: none
    cdef const uint8_t* origin  # what ends count from
    cdef uint32_t start  # of the first slot, from the origin
    cdef bytes columns_owner
    cdef bytes payload_owner
    cdef object view

    def __init__(
        self, session, function, function_name, serializer, first_task, attempt, keywords, options, tasks
    ):
        tasks = list(tasks)
        if not tasks:
            raise ValueError("A run has at least one task.")
        cdef TaskRunBuilder builder = TaskRunBuilder(
            session, function, function_name, serializer, first_task, len(tasks[0]), keywords, options
        )
        for slots in tasks:
            builder.append(slots)
        builder.fill(self)
        self.attempt = attempt

    @property
    def has_references(self):
        return self.marks != NULL

    cdef inline uint32_t piece_start(self, uint64_t piece) noexcept:
        return load32(self.ends + 4 * (piece - 1)) if piece else self.start

    cdef object piece(self, uint64_t index):
        cdef uint32_t begin = self.piece_start(index)
        cdef uint32_t end = load32(self.ends + 4 * index)
        if self.marks != NULL and self.marks[index]:
            return key_at(self.origin + begin)
        if self.view is None:
            self.view = memoryview(self.payload_owner)
        cdef size_t offset = self.origin - <const uint8_t*> PyBytes_AS_STRING(self.payload_owner)
        return self.view[offset + begin : offset + end]

    cdef uint64_t checked_task(self, task_index) except? 0:
        cdef int64_t task = task_index
        if task < 0 or task >= self.count:
            raise IndexError(f"Task {task_index} of a run of {self.count}.")
        return <uint64_t> task * self.arity

    def slot(self, task_index, slot_index):
        cdef int64_t slot = slot_index
        cdef uint64_t first = self.checked_task(task_index)
        if slot < 0 or slot >= self.arity:
            raise IndexError(f"Slot {slot_index} of {self.arity}.")
        return self.piece(first + <uint64_t> slot)

    def slots(self, task_index):
        cdef uint64_t first = self.checked_task(task_index)
        cdef uint64_t index
        return [self.piece(index) for index in range(first, first + self.arity)]

    def slot_bytes(self, task_index):
        """The slots of one task as bytes of their own; references as ObjectKey."""
        cdef uint64_t first = self.checked_task(task_index)
        cdef uint64_t index
        cdef uint32_t begin
        cdef list slots = []
        for index in range(first, first + self.arity):
            begin = self.piece_start(index)
            if self.marks != NULL and self.marks[index]:
                slots.append(key_at(self.origin + begin))
            else:
                slots.append(
                    PyBytes_FromStringAndSize(<char*> self.origin + begin, load32(self.ends + 4 * index) - begin)
                )
        return slots

    def references(self):
        cdef uint64_t index
        if self.marks == NULL:
            return []
        return [
            key_at(self.origin + self.piece_start(index))
            for index in range(<uint64_t> self.count * self.arity)
            if self.marks[index]
        ]

    def uploads(self):
        """The references that name no task of the session."""
        cdef uint64_t index
        cdef const uint8_t* place
        cdef list found = []
        if self.marks == NULL:
            return found
        for index in range(<uint64_t> self.count * self.arity):
            if self.marks[index]:
                place = self.origin + self.piece_start(index)
                if load64(place + ID_SIZE) >> 63 or memcmp(place, PyBytes_AS_STRING(self.session), ID_SIZE):
                    found.append(key_at(place))
        return found

    def inputs(self):
        """Pairs (task, task whose result it needs), flat, in the order of slots; a memoryview of format Q."""
        cdef Column pairs
        cdef uint64_t index
        cdef const uint8_t* place
        cdef bytes found
        memset(&pairs, 0, sizeof(Column))
        if self.marks != NULL:
            for index in range(<uint64_t> self.count * self.arity):
                if self.marks[index]:
                    place = self.origin + self.piece_start(index)
                    if load64(place + ID_SIZE) >> 63 == 0 and memcmp(place, PyBytes_AS_STRING(self.session), ID_SIZE) == 0:
                        column_add64(&pairs, self.first_task + index // self.arity)
                        column_add64(&pairs, load64(place + ID_SIZE))
        found = column_bytes(&pairs)
        free(pairs.data)
        return memoryview(found).cast("Q")

    cdef TaskRun copy(self):
        cdef TaskRun run = TaskRun.__new__(TaskRun)
        run.session = self.session
        run.function = self.function
        run.function_name = self.function_name
        run.serializer = self.serializer
        run.keywords = self.keywords
        run.options = self.options
        run.first_task = self.first_task
        run.count = self.count
        run.attempt = self.attempt
        run.arity = self.arity
        run.payload_bytes = self.payload_bytes
        run.ends = self.ends
        run.marks = self.marks
        run.origin = self.origin
        run.start = self.start
        run.columns_owner = self.columns_owner
        run.payload_owner = self.payload_owner
        return run

    def slice(self, start, stop):
        cdef int64_t first = start
        cdef int64_t last = stop
        if first < 0 or last > self.count or first >= last:
            raise IndexError(f"Tasks {start} to {stop} of a run of {self.count}.")
        cdef uint64_t piece = <uint64_t> first * self.arity
        cdef uint64_t pieces = <uint64_t> (last - first) * self.arity
        cdef TaskRun run = self.copy()
        run.first_task = self.first_task + <uint64_t> first
        run.count = <uint32_t> (last - first)
        run.start = self.piece_start(piece)
        run.ends = self.ends + 4 * piece
        run.payload_bytes = self.piece_start(piece + pieces) - run.start
        if self.marks != NULL:
            run.marks = self.marks + piece
            if memchr(run.marks, 1, pieces) == NULL:
                run.marks = NULL
        return run

    def with_attempt(self, attempt):
        cdef TaskRun run = self.copy()
        run.attempt = attempt
        return run

    def with_options(self, options):
        cdef TaskRun run = self.copy()
        run.options = options
        return run

    def __reduce__(self):
        """Its columns are addresses: a copy made by pickle would crash."""
        raise TypeError(f"A {type(self).__name__} cannot be pickled.")

    def __eq__(self, other):
        if not isinstance(other, TaskRun):
            return NotImplemented
        return self.same_shape(<TaskRun> other) and self.same_columns(<TaskRun> other)

    cdef bint same_shape(self, TaskRun other):
        return (
            self.first_task == other.first_task
            and self.count == other.count
            and self.attempt == other.attempt
            and self.arity == other.arity
            and self.session == other.session
            and self.function == other.function
            and self.function_name == other.function_name
            and self.serializer == other.serializer
            and self.keywords == other.keywords
            and self.options == other.options
        )

    cdef bint same_columns(self, TaskRun other):
        cdef uint64_t pieces = <uint64_t> self.count * self.arity
        if self.payload_bytes != other.payload_bytes or (self.marks == NULL) != (other.marks == NULL):
            return False
        if self.marks != NULL and memcmp(self.marks, other.marks, pieces):
            return False
        if not ends_equal(self.ends, self.start, other.ends, other.start, pieces):
            return False
        return memcmp(self.origin + self.start, other.origin + other.start, self.payload_bytes) == 0

    def __repr__(self):
        tasks = f"{self.session.hex()[:8]}:{self.first_task}..{self.first_task + self.count - 1}"
        return f"TaskRun({self.function_name} {tasks} attempt {self.attempt})"


cdef object key_at(const uint8_t* place):
    return ObjectKey(PyBytes_FromStringAndSize(<char*> place, ID_SIZE), load64(place + ID_SIZE))


cdef class TaskRunBuilder:
    cdef bytes session
    cdef bytes function
    cdef str function_name
    cdef bytes serializer
    cdef tuple keywords
    cdef object options
    cdef public uint64_t first_task  # may be set until build: a client numbers its tasks when a batch leaves
    cdef uint32_t arity
    cdef readonly uint32_t count
    cdef Column ends
    cdef Column marks  # empty until the first reference
    cdef Column payload

    def __init__(self, session, function, function_name, serializer, first_task, arity, keywords, options):
        self.session = checked_id(session, "session")
        self.function = checked_id(function, "function")
        self.function_name = function_name
        self.serializer = serializer if serializer == b"" else checked_id(serializer, "serializer")
        self.first_task = first_task
        self.arity = arity
        self.keywords = tuple(keywords)
        self.options = options
        if len(self.keywords) > self.arity:
            raise ValueError(f"{len(self.keywords)} keywords do not fit {arity} slots.")

    def __dealloc__(self):
        free(self.ends.data)
        free(self.marks.data)
        free(self.payload.data)

    @property
    def payload_bytes(self):
        return self.payload.size

    def fits(self, size):
        """Whether a task of so many bytes may join and the message stays under its limit."""
        cdef uint64_t total = self.payload.size + self.ends.size + self.marks.size + 5 * self.arity + RUN_OVERHEAD
        return total + <uint64_t> size <= MESSAGE_LIMIT and self.count < TASK_LIMIT

    def append(self, slots):
        if len(slots) != self.arity:
            raise ValueError(f"A task of this run has {self.arity} slots, not {len(slots)}.")
        cdef size_t payload = self.payload.size
        cdef size_t ends = self.ends.size
        cdef size_t marks = self.marks.size
        try:
            for slot in slots:
                self.add(slot)
            self.check_room()
        except BaseException:
            self.payload.size = payload
            self.ends.size = ends
            self.marks.size = marks
            raise
        self.count += 1

    def append_one(self, slot):
        if self.arity != 1:
            raise ValueError(f"A task of this run has {self.arity} slots, not 1.")
        if not PyBytes_CheckExact(slot) or self.count >= TASK_LIMIT:
            self.append((slot,))
            return
        self.add_bytes(slot)
        self.count += 1

    def append_all(self, list slots):
        """One task of one slot for each of these bytes objects."""
        for slot in slots:
            self.append_one(slot)

    def append_nodes(
        self,
        const int64_t[::1] calls,
        const int64_t[::1] ends,
        const int64_t[::1] slots,
        const int64_t[::1] tasks,
        list data,
        size_t limit_bytes,
    ):
        """Nodes of a graph that is given as columns. Returns how many of ``calls`` joined."""
        cdef Py_ssize_t index
        cdef int64_t call
        for index in range(calls.shape[0]):
            if self.payload.size >= limit_bytes or self.count >= TASK_LIMIT:
                return index
            call = calls[index]
            if call < 0 or call >= ends.shape[0] or ends[call] > slots.shape[0]:
                raise IndexError(f"Call {call} of {ends.shape[0]}.")
            self.append_node(slots, ends[call - 1] if call else 0, ends[call], tasks, data)
        return calls.shape[0]

    cdef int append_node(
        self, const int64_t[::1] slots, int64_t start, int64_t stop, const int64_t[::1] tasks, list data
    ) except -1:
        cdef int64_t index, slot
        cdef const uint8_t* session = <const uint8_t*> PyBytes_AS_STRING(self.session)
        if start < 0 or stop - start != self.arity:
            raise ValueError(f"A task of this run has {self.arity} slots, not {stop - start}.")
        for index in range(start, stop):
            slot = slots[index]
            if slot >= 0 and slot < tasks.shape[0]:
                self.add_key(session, <uint64_t> tasks[slot])
            elif slot < 0 and ~slot < len(data):
                self.add(data[~slot])
            else:
                raise IndexError(f"Slot {slot} names nothing.")
        self.count += 1
        return 0

    cdef int check_room(self) except -1:
        if self.count >= TASK_LIMIT:
            raise ValueError(f"A run has at most {TASK_LIMIT} tasks.")
        return 0

    cdef int add(self, object slot) except -1:
        if isinstance(slot, tuple):
            return self.add_reference(slot)
        if not isinstance(slot, bytes):
            if not isinstance(slot, (bytearray, memoryview)):
                raise TypeError(f"A slot is bytes or an ObjectKey, not {type(slot).__name__}.")
            slot = bytes(slot)
        return self.add_bytes(slot)

    cdef inline int add_bytes(self, object slot) except -1:
        cdef size_t size = PyBytes_GET_SIZE(slot)
        if self.payload.size + size > 0xFFFFFFFF:
            raise ValueError("A run holds less than 4 GiB.")
        memcpy(column_extend(&self.payload, size), PyBytes_AS_STRING(slot), size)
        column_add32(&self.ends, <uint32_t> self.payload.size)
        if self.marks.size:
            column_extend(&self.marks, 1)[0] = 0
        return 0

    cdef int add_reference(self, object key) except -1:
        cdef bytes owner = checked_id(key[0], "owner")
        return self.add_key(<const uint8_t*> PyBytes_AS_STRING(owner), key[1])

    cdef int add_key(self, const uint8_t* owner, uint64_t number) except -1:
        cdef size_t before = self.ends.size // 4
        if self.marks.size == 0 and before:
            memset(column_extend(&self.marks, before), 0, before)
        column_extend(&self.marks, 1)[0] = 1
        memcpy(column_extend(&self.payload, ID_SIZE), owner, ID_SIZE)
        column_add64(&self.payload, number)
        return column_add32(&self.ends, <uint32_t> self.payload.size)

    cdef int fill(self, TaskRun run) except -1:
        cdef uint8_t* columns
        run.columns_owner = PyBytes_FromStringAndSize(NULL, self.ends.size + self.marks.size)
        run.payload_owner = column_bytes(&self.payload)
        columns = <uint8_t*> PyBytes_AS_STRING(run.columns_owner)
        memcpy(columns, self.ends.data, self.ends.size)
        memcpy(columns + self.ends.size, self.marks.data, self.marks.size)
        run.ends = columns
        run.marks = columns + self.ends.size if self.marks.size else NULL
        run.origin = <const uint8_t*> PyBytes_AS_STRING(run.payload_owner)
        run.start = 0
        run.payload_bytes = <uint32_t> self.payload.size
        run.session = self.session
        run.function = self.function
        run.function_name = self.function_name
        run.serializer = self.serializer
        run.keywords = self.keywords
        run.options = self.options
        run.first_task = self.first_task
        run.arity = self.arity
        run.count = self.count
        run.attempt = 1
        return 0

    def build(self):
        """The tasks so far, as attempt 1. The builder may go on."""
        if self.count == 0:
            raise ValueError("A run has at least one task.")
        cdef TaskRun run = TaskRun.__new__(TaskRun)
        self.fill(run)
        return run


# ---- results --------------------------------------------------------------------------------------------------------


cdef class ResultRun:
    cdef readonly bytes session
    cdef readonly uint32_t count
    cdef readonly uint32_t payload_bytes
    cdef const uint8_t* tasks
    cdef const uint8_t* attempts
    cdef const uint8_t* statuses
    cdef const uint8_t* durations
    cdef const uint8_t* cpu_times
    cdef const uint8_t* peaks  # NULL: all 0
    cdef const uint8_t* ends
    cdef const uint8_t* origin
    cdef uint32_t start
    cdef bytes columns_owner
    cdef bytes payload_owner
    cdef object view
    cdef object owner_view

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

    cdef inline uint32_t piece_start(self, uint64_t row) noexcept:
        return load32(self.ends + 4 * (row - 1)) if row else self.start

    cdef inline object piece(self, uint64_t row):
        if self.view is None:
            self.view = memoryview(self.payload_owner)
        cdef size_t offset = self.origin - <const uint8_t*> PyBytes_AS_STRING(self.payload_owner)
        return self.view[offset + self.piece_start(row) : offset + load32(self.ends + 4 * row)]

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
        cdef uint32_t begin = self.piece_start(row)
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
        """As rows, without the attempt, and each payload as bytes of its own."""
        cdef uint64_t row
        cdef uint32_t begin
        for row in range(self.count):
            begin = self.piece_start(row)
            yield (
                load64(self.tasks + 8 * row),
                self.statuses[row],
                PyBytes_FromStringAndSize(<char*> self.origin + begin, load32(self.ends + 4 * row) - begin),
                load64(self.durations + 8 * row),
                load64(self.cpu_times + 8 * row),
                load64(self.peaks + 8 * row) if self.peaks != NULL else 0,
            )

    @property
    def all_succeeded(self):
        """Whether every status is SUCCESS (0), so that the payloads are the results."""
        cdef uint64_t row
        for row in range(self.count):
            if self.statuses[row]:
                return False
        return True

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
        cdef uint64_t row
        cdef uint32_t begin
        cdef int64_t place
        for row in range(self.count):
            begin = self.piece_start(row)
            place = <int64_t> load64(self.tasks + 8 * row) - shift
            results[place] = loads(
                PyBytes_FromStringAndSize(<char*> self.origin + begin, load32(self.ends + 4 * row) - begin)
            )

    def slice(self, start, stop):
        """Results ``start`` up to ``stop``; shares columns and payload."""
        cdef int64_t first = start
        cdef int64_t last = stop
        if first < 0 or last > self.count or first >= last:
            raise IndexError(f"Results {start} to {stop} of a run of {self.count}.")
        cdef ResultRun run = ResultRun.__new__(ResultRun)
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
        run.start = self.piece_start(first)
        run.payload_bytes = self.piece_start(last) - run.start
        run.columns_owner = self.columns_owner
        run.payload_owner = self.payload_owner
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
        if memcmp(self.tasks, other.tasks, 8 * n) or memcmp(self.attempts, other.attempts, 4 * n):
            return False
        if memcmp(self.statuses, other.statuses, n) or memcmp(self.durations, other.durations, 8 * n):
            return False
        if memcmp(self.cpu_times, other.cpu_times, 8 * n):
            return False
        if not ends_equal(self.ends, self.start, other.ends, other.start, n):
            return False
        if memcmp(self.origin + self.start, other.origin + other.start, self.payload_bytes):
            return False
        return all(self.memory_peak(index) == other.memory_peak(index) for index in range(n))

    def __repr__(self):
        return f"ResultRun({self.session.hex()[:8]} {self.count} results)"


cdef bint is_range(list indices):
    cdef int64_t expected = indices[0]
    cdef int64_t index
    for index in indices:
        if index != expected:
            return False
        expected += 1
    return True


cdef class ResultRunBuilder:
    cdef bytes session
    cdef readonly uint32_t count
    cdef Column tasks
    cdef Column attempts
    cdef Column statuses
    cdef Column durations
    cdef Column cpu_times
    cdef Column peaks
    cdef Column ends
    cdef Column payload
    cdef bint has_peaks

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
        cdef uint32_t begin = run.piece_start(row)
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
    memcpy(start, column.data, column.size)
    place[0] = start + column.size
    return start


# ---- writing --------------------------------------------------------------------------------------------------------


cdef dict _empty_tags = {body: tag for tag, body in enumerate(bodies.BODIES) if not body.__dataclass_fields__}


def encode(envelope):
    body = envelope.body
    kind = type(body)
    try:
        if kind is Tasks:
            frames = encode_tasks(envelope, body)
        elif kind is Results:
            frames = encode_results(envelope, body)
        elif kind in _empty_tags:
            return [encode_empty(envelope.sequence, envelope.acknowledged, _empty_tags[kind])]
        else:
            frames = bodies.write(envelope)
    except OverflowError as error:
        raise ValueError(f"{kind.__name__} holds a number that is out of range: {error}") from error
    size = sum(map(len, frames))
    if size > HARD_LIMIT_BYTES:
        raise ValueError(f"A message of {size} bytes is over the limit of {HARD_LIMIT_BYTES}.")
    return frames


cdef bytes encode_empty(uint64_t sequence, uint64_t acknowledged, uint16_t tag):
    cdef Writer writer
    return put_message(&writer, ROOT_WORDS, sequence, acknowledged, tag)


cdef inline uint64_t bytes_words(object data):
    return words_for(PyBytes_GET_SIZE(data))


cdef inline uint64_t text_words(bytes text):
    return words_for(PyBytes_GET_SIZE(text) + 1) if text else 0


cdef int write_bytes(Writer* writer, uint64_t pointer, bytes data) except -1:
    cdef uint64_t size = PyBytes_GET_SIZE(data)
    return write_memory(writer, pointer, <const uint8_t*> PyBytes_AS_STRING(data), size)


cdef int write_memory(Writer* writer, uint64_t pointer, const uint8_t* data, uint64_t size) except -1:
    if size == 0:
        return 0
    memcpy(column_room(writer, pointer, size), data, size)
    return 0


cdef int write_text(Writer* writer, uint64_t pointer, bytes text) except -1:
    """The terminating zero is there already: new words are zeroed."""
    cdef uint64_t size = PyBytes_GET_SIZE(text)
    if size == 0:
        return 0
    memcpy(column_room(writer, pointer, size + 1), PyBytes_AS_STRING(text), size)
    return 0


cdef inline uint8_t* column_room(Writer* writer, uint64_t pointer, uint64_t size) except NULL:
    cdef uint8_t* place = put_bytes(writer, pointer, size)
    if place == NULL:
        raise SystemError("A message is larger than was reckoned.")
    return place


cdef inline int64_t sure(int64_t start) except -1:
    if start < 0:
        raise SystemError("A message is larger than was reckoned.")
    return start


cdef int finish(Writer* writer) except -1:
    if writer.used != writer.size:
        raise SystemError("A message is smaller than was reckoned.")
    return 0


cdef class Payload:
    """The payload frame to be: where the bytes of each run are, until ``join`` brings them together."""

    cdef list places  # (owner, offset, size)
    cdef uint64_t size

    def __cinit__(self):
        self.places = []

    cdef int add(self, bytes owner, const uint8_t* start, uint64_t size) except -1:
        self.places.append((owner, <size_t> (start - <const uint8_t*> PyBytes_AS_STRING(owner)), size))
        self.size += size
        return 0

    cdef bytes join(self):
        """One run that is all of its owner is not copied."""
        cdef bytes owner, frame
        cdef size_t offset, size
        cdef uint8_t* to
        if len(self.places) == 1:
            owner, offset, size = self.places[0]
            if offset == 0 and size == <size_t> PyBytes_GET_SIZE(owner):
                return owner
        frame = PyBytes_FromStringAndSize(NULL, self.size)
        to = <uint8_t*> PyBytes_AS_STRING(frame)
        for owner, offset, size in self.places:
            memcpy(to, PyBytes_AS_STRING(owner) + offset, size)
            to += size
        return frame


cdef bint is_default(object options):
    return options is _DEFAULT_OPTIONS or options == _DEFAULT_OPTIONS


cdef list capability_texts(object options):
    return [(capability.name.encode(), capability.amount) for capability in options.capabilities]


cdef uint64_t options_words(list capabilities):
    cdef uint64_t words = OPTIONS_DATA + 1
    if capabilities:
        words += 1
        for name, _ in capabilities:
            words += 2 + text_words(name)
    return words


cdef int write_options(Writer* writer, uint64_t pointer, object options, list capabilities) except -1:
    cdef int64_t start = sure(put_struct(writer, pointer, OPTIONS_DATA, 1))
    cdef uint8_t* data = word(writer, start)
    cdef int64_t priority = options.priority
    cdef double timeout = options.timeout_seconds
    cdef int64_t at
    store64(data, <uint64_t> priority)
    store32(data + 8, options.depth)
    store32(data + 12, options.retries)
    memcpy(data + 16, &timeout, 8)
    store64(data + 24, options.memory_bytes)
    data[32] = (not options.rerun) | (bool(options.profiling) << 1) | (bool(options.stream_output) << 2)
    data[32] |= bool(options.intermediate) << 3
    store32(data + 36, options.graph)
    if capabilities:
        at = sure(put_structs(writer, start + OPTIONS_DATA, len(capabilities), 1, 1))
        for name, amount in capabilities:
            store64(word(writer, at), amount)
            write_text(writer, at + 1, name)
            at += 2
    return 0


cdef class RunText:
    """The names of a run in UTF-8, encoded once."""

    cdef bytes function_name
    cdef list keywords
    cdef list capabilities
    cdef bint default_options
    cdef uint64_t words


cdef RunText run_text(TaskRun run):
    cdef RunText text = RunText.__new__(RunText)
    cdef uint64_t pieces = <uint64_t> run.count * run.arity
    text.function_name = run.function_name.encode()
    text.keywords = [keyword.encode() for keyword in run.keywords]
    text.default_options = is_default(run.options)
    text.words = TASK_RUN_DATA + TASK_RUN_POINTERS + 2 * words_for(ID_SIZE) + bytes_words(run.serializer)
    text.words += text_words(text.function_name) + words_for(4 * pieces) + len(text.keywords)
    for keyword in text.keywords:
        text.words += text_words(keyword)
    if run.marks != NULL:
        text.words += words_for(pieces)
    if not text.default_options:
        text.capabilities = capability_texts(run.options)
        text.words += options_words(text.capabilities)
    return text


cdef int write_task_run(Writer* writer, uint64_t start, TaskRun run, RunText text, uint64_t offset) except -1:
    cdef uint8_t* data = word(writer, start)
    cdef uint64_t pointers = start + TASK_RUN_DATA
    cdef uint64_t pieces = <uint64_t> run.count * run.arity
    cdef int64_t at
    store64(data, run.first_task)
    store32(data + 8, run.count)
    store32(data + 12, run.attempt)
    store32(data + 16, run.arity)
    store64(data + 24, offset)
    store64(data + 32, run.payload_bytes)
    write_bytes(writer, pointers, run.session)
    write_bytes(writer, pointers + 1, run.function)
    write_text(writer, pointers + 2, text.function_name)
    write_bytes(writer, pointers + 3, run.serializer)
    if text.keywords:
        at = sure(put_pointers(writer, pointers + 4, len(text.keywords)))
        for keyword in text.keywords:
            write_text(writer, at, keyword)
            at += 1
    if not text.default_options:
        write_options(writer, pointers + 5, run.options, text.capabilities)
    if pieces:
        rebase(column_room(writer, pointers + 6, 4 * pieces), run.ends, pieces, run.start)
    if run.marks != NULL:
        write_memory(writer, pointers + 7, run.marks, pieces)
    return 0


cdef list function_texts(list functions):
    cdef list texts = []
    for function in functions:
        texts.append((function.digest, function.name.encode(), bytes(function.payload), function.size))
    return texts


cdef uint64_t functions_words(list texts):
    cdef uint64_t words = 1 if texts else 0
    for digest, name, payload, _ in texts:
        words += FUNCTION_DATA + FUNCTION_POINTERS + bytes_words(digest) + text_words(name) + bytes_words(payload)
    return words


cdef int write_functions(Writer* writer, uint64_t pointer, list texts) except -1:
    cdef int64_t at
    if not texts:
        return 0
    at = sure(put_structs(writer, pointer, len(texts), FUNCTION_DATA, FUNCTION_POINTERS))
    for digest, name, payload, size in texts:
        store64(word(writer, at), size)
        write_bytes(writer, at + 1, digest)
        write_text(writer, at + 2, name)
        write_bytes(writer, at + 3, payload)
        at += FUNCTION_DATA + FUNCTION_POINTERS
    return 0


cdef list encode_tasks(object envelope, object body):
    cdef list runs = list(body.runs)
    cdef list texts = [run_text(run) for run in runs]
    cdef list functions = function_texts(list(body.functions))
    cdef list serializers = function_texts(list(body.serializers))
    cdef Payload payload = Payload()
    cdef Writer writer
    cdef uint64_t words = tasks_words(texts) + functions_words(functions) + functions_words(serializers)
    cdef uint64_t count = add_task_payloads(payload, runs)
    cdef int64_t start
    check_size(words, payload.size, count)
    head = put_message(&writer, words, envelope.sequence, envelope.acknowledged, TASKS_TAG)
    start = sure(put_struct(&writer, ROOT_POINTER, TASKS_DATA, TASKS_POINTERS))
    word(&writer, start)[0] = 1 if body.resubmitted else 0
    write_task_runs(&writer, start + TASKS_DATA, runs, texts)
    write_functions(&writer, start + TASKS_DATA + 1, functions)
    write_functions(&writer, start + TASKS_DATA + 2, serializers)
    finish(&writer)
    return [head, payload.join()]


cdef uint64_t tasks_words(list texts):
    cdef uint64_t words = ROOT_WORDS + TASKS_DATA + TASKS_POINTERS + (1 if texts else 0)
    cdef RunText text
    for text in texts:
        words += text.words
    return words


cdef uint64_t add_task_payloads(Payload payload, list runs) except? 0:
    """The number of tasks."""
    cdef uint64_t count = 0
    cdef TaskRun run
    for run in runs:
        payload.add(run.payload_owner, run.origin + run.start, run.payload_bytes)
        count += run.count
    return count


cdef int write_task_runs(Writer* writer, uint64_t pointer, list runs, list texts) except -1:
    cdef uint64_t offset = 0
    cdef int64_t at
    cdef TaskRun run
    if not runs:
        return 0
    at = sure(put_structs(writer, pointer, len(runs), TASK_RUN_DATA, TASK_RUN_POINTERS))
    for run, text in zip(runs, texts):
        write_task_run(writer, at, run, text, offset)
        offset += run.payload_bytes
        at += TASK_RUN_DATA + TASK_RUN_POINTERS
    return 0


cdef int check_size(uint64_t words, uint64_t payload, uint64_t count) except -1:
    """Before anything is allocated."""
    if 8 * words + payload > 2 * MESSAGE_LIMIT:
        raise ValueError(f"A message of {8 * words + payload} bytes is over the limit of {HARD_LIMIT_BYTES}.")
    if count > TASK_LIMIT:
        raise ValueError(f"A message of {count} tasks is over the limit of {TASK_LIMIT}.")
    return 0


cdef uint64_t result_run_words(ResultRun run):
    cdef uint64_t n = run.count
    cdef uint64_t words = RESULT_RUN_DATA + RESULT_RUN_POINTERS + words_for(ID_SIZE) + 3 * n
    words += 2 * words_for(4 * n) + words_for(n)
    return words + n if run.peaks != NULL else words


cdef int write_result_run(Writer* writer, uint64_t start, ResultRun run, uint64_t offset) except -1:
    cdef uint8_t* data = word(writer, start)
    cdef uint64_t pointers = start + RESULT_RUN_DATA
    cdef uint64_t n = run.count
    store32(data, run.count)
    store64(data + 8, offset)
    store64(data + 16, run.payload_bytes)
    write_bytes(writer, pointers, run.session)
    if n == 0:
        return 0
    write_memory(writer, pointers + 1, run.tasks, 8 * n)
    write_memory(writer, pointers + 2, run.attempts, 4 * n)
    write_memory(writer, pointers + 3, run.statuses, n)
    write_memory(writer, pointers + 4, run.durations, 8 * n)
    write_memory(writer, pointers + 5, run.cpu_times, 8 * n)
    if run.peaks != NULL:
        write_memory(writer, pointers + 6, run.peaks, 8 * n)
    rebase(column_room(writer, pointers + 7, 4 * n), run.ends, n, run.start)
    return 0


cdef list encode_results(object envelope, object body):
    cdef list runs = list(body.runs)
    cdef Payload payload = Payload()
    cdef Writer writer
    cdef uint64_t words = ROOT_WORDS + 1 + (1 if runs else 0)
    cdef uint64_t count = 0
    cdef int64_t start
    cdef ResultRun run
    for run in runs:
        words += result_run_words(run)
        count += run.count
        payload.add(run.payload_owner, run.origin + run.start, run.payload_bytes)
    check_size(words, payload.size, count)
    head = put_message(&writer, words, envelope.sequence, envelope.acknowledged, RESULTS_TAG)
    start = sure(put_struct(&writer, ROOT_POINTER, 0, 1))
    write_result_runs(&writer, start, runs)
    finish(&writer)
    return [head, payload.join()]


cdef int write_result_runs(Writer* writer, uint64_t pointer, list runs) except -1:
    cdef uint64_t offset = 0
    cdef int64_t at
    cdef ResultRun run
    if not runs:
        return 0
    at = sure(put_structs(writer, pointer, len(runs), RESULT_RUN_DATA, RESULT_RUN_POINTERS))
    for run in runs:
        write_result_run(writer, at, run, offset)
        offset += run.payload_bytes
        at += RESULT_RUN_DATA + RESULT_RUN_POINTERS
    return 0


# ---- reading --------------------------------------------------------------------------------------------------------


cdef tuple _bodies = bodies.BODIES


def decode(frames):
    frames = [frame if type(frame) is bytes else bytes(frame) for frame in frames]
    if not frames:
        raise MalformedMessage("A message has at least one frame.")
    cdef bytes head = frames[0]
    cdef Reader reader
    cdef StructView root
    if not open_message(&reader, <const uint8_t*> PyBytes_AS_STRING(head), PyBytes_GET_SIZE(head)):
        raise MalformedMessage("The first frame is not a Cap'n Proto message.")
    if reader.segments[0].words == 0 or not read_struct(&reader, 0, 0, &root):
        raise MalformedMessage("The root of the message is out of bounds.")
    cdef uint32_t tag = field32(&root, 4) & 0xFFFF
    if tag >= <uint32_t> len(_bodies):
        raise MalformedMessage(f"Unknown body {tag}.")
    kind = _bodies[tag]
    if kind is Tasks:
        body = decode_tasks(&reader, &root, head, payload_frame(frames))
    elif kind is Results:
        body = decode_results(&reader, &root, head, payload_frame(frames))
    elif kind in _empty_tags:
        if len(frames) != 1:
            raise MalformedMessage(f"{kind.__name__} has {len(frames)} frames instead of 1.")
        body = kind()
    else:
        return decode_cold(kind, frames)
    return Envelope(body, field64(&root, 0), field64(&root, 1))


cdef object decode_cold(object kind, list frames):
    try:
        return bodies.read(kind, frames)
    except bodies.Unreadable as error:
        raise MalformedMessage(str(error)) from error


cdef bytes payload_frame(list frames):
    if len(frames) == 1:
        return b""
    if len(frames) == 2:
        return frames[1]
    raise MalformedMessage(f"A message of tasks or results has {len(frames)} frames instead of 2.")


cdef int out_of_bounds(str what) except -1:
    raise MalformedMessage(f"{what} is out of bounds.")


cdef bytes take_bytes(Reader* reader, StructView* view, uint32_t field, str what):
    cdef BytesView data
    if not read_bytes(reader, view, field, &data):
        out_of_bounds(what)
    return PyBytes_FromStringAndSize(<char*> data.data, data.size) if data.size else b""


cdef bytes take_id(Reader* reader, StructView* view, uint32_t field, str what):
    cdef bytes data = take_bytes(reader, view, field, what)
    if len(data) != ID_SIZE:
        raise MalformedMessage(f"{what} has {len(data)} bytes instead of {ID_SIZE}.")
    return data


cdef str text_of(BytesView* data, str what):
    if data.size == 0:
        return ""
    if data.data[data.size - 1] != 0:
        raise MalformedMessage(f"{what} does not end.")
    try:
        return PyUnicode_DecodeUTF8(<char*> data.data, data.size - 1, NULL)
    except UnicodeDecodeError:
        raise MalformedMessage(f"{what} is not UTF-8.") from None


cdef str take_text(Reader* reader, StructView* view, uint32_t field, str what):
    cdef BytesView data
    if not read_bytes(reader, view, field, &data):
        out_of_bounds(what)
    return text_of(&data, what)


cdef const uint8_t* take_column(Reader* reader, StructView* view, uint32_t field, uint64_t size, str what) except? NULL:
    """A column of exactly ``size`` bytes."""
    cdef BytesView data
    if not read_bytes(reader, view, field, &data):
        out_of_bounds(what)
    if data.size != size:
        raise MalformedMessage(f"{what} has {data.size} bytes instead of {size}.")
    return data.data


cdef tuple take_texts(Reader* reader, StructView* view, uint32_t field, str what):
    cdef ListView texts
    cdef BytesView data
    cdef uint32_t index
    cdef list values = []
    if not read_pointers(reader, view, field, &texts):
        out_of_bounds(what)
    for index in range(texts.count):
        if not read_bytes_at(reader, texts.segment, texts.start + index, &data):
            out_of_bounds(what)
        values.append(text_of(&data, what))
    return tuple(values)


cdef const uint8_t* payload_of(bytes frame, uint64_t offset, uint64_t size) except NULL:
    cdef uint64_t total = PyBytes_GET_SIZE(frame)
    if offset > total or size > total - offset or size > 0xFFFFFFFF:
        raise MalformedMessage("The payload of a run is out of bounds.")
    return <const uint8_t*> PyBytes_AS_STRING(frame) + offset


cdef object decode_tasks(Reader* reader, StructView* root, bytes head, bytes payload):
    cdef StructView tasks, item
    cdef ListView items
    cdef uint32_t index
    cdef uint64_t count = 0
    cdef list runs = []
    cdef TaskRun run
    if not read_field(reader, root, 0, &tasks) or not read_structs(reader, &tasks, 0, &items):
        out_of_bounds("The list of runs")
    for index in range(items.count):
        element(reader, &items, index, &item)
        run = decode_task_run(reader, &item, head, payload)
        count += run.count
        if count > TASK_LIMIT:
            raise MalformedMessage(f"A message has at most {TASK_LIMIT} tasks.")
        runs.append(run)
    functions = decode_functions(reader, &tasks, 1)
    return Tasks(runs, functions, decode_functions(reader, &tasks, 2), field_bit(&tasks, 0))


cdef TaskRun decode_task_run(Reader* reader, StructView* view, bytes head, bytes payload):
    cdef TaskRun run = TaskRun.__new__(TaskRun)
    cdef uint64_t size = field64(view, 4)
    cdef uint64_t pieces
    run.first_task = field64(view, 0)
    run.count = field32(view, 2)
    run.attempt = field32(view, 3)
    run.arity = field32(view, 4)
    if run.count == 0 or run.count > TASK_LIMIT or run.first_task > 0x7FFFFFFFFFFFFFFF - run.count:
        raise MalformedMessage(f"A run of {run.count} tasks from {run.first_task} on.")
    pieces = <uint64_t> run.count * run.arity
    run.session = take_id(reader, view, 0, "session")
    run.function = take_id(reader, view, 1, "function")
    run.function_name = take_text(reader, view, 2, "functionName")
    run.serializer = take_bytes(reader, view, 3, "serializer")
    run.keywords = take_texts(reader, view, 4, "keywords")
    run.options = decode_options(reader, view, 5)
    run.ends = take_column(reader, view, 6, 4 * pieces, "ends")
    run.origin = payload_of(payload, field64(view, 3), size)
    run.payload_bytes = <uint32_t> size
    run.columns_owner = head
    run.payload_owner = payload
    if not ends_in_order(run.ends, pieces, size):
        raise MalformedMessage("The ends of a run do not fill its payload in order.")
    if len(run.serializer) not in (0, ID_SIZE) or <uint32_t> len(run.keywords) > run.arity:
        raise MalformedMessage("A run has a serializer or keywords that cannot be.")
    decode_marks(reader, view, run, pieces)
    return run


cdef int decode_marks(Reader* reader, StructView* view, TaskRun run, uint64_t pieces) except -1:
    cdef BytesView data
    cdef uint64_t index
    if not read_bytes(reader, view, 7, &data):
        out_of_bounds("references")
    if data.size == 0:
        return 0
    if data.size != pieces:
        raise MalformedMessage(f"references has {data.size} bytes instead of {pieces}.")
    for index in range(pieces):
        if data.data[index] > 1:
            raise MalformedMessage("A reference mark is neither 0 nor 1.")
        if data.data[index] and load32(run.ends + 4 * index) - run.piece_start(index) != REFERENCE_SIZE:
            raise MalformedMessage("A reference has the wrong size.")
    if memchr(data.data, 1, pieces) != NULL:
        run.marks = data.data
    return 0


cdef object decode_options(Reader* reader, StructView* view, uint32_t field):
    """Options without capabilities are few: they are made once per value."""
    cdef StructView options
    cdef ListView items
    if not read_field(reader, view, field, &options) or not read_structs(reader, &options, 0, &items):
        out_of_bounds("options")
    if options.data_words == 0 and items.count == 0:
        return _DEFAULT_OPTIONS
    if items.count:
        return make_options(&options, decode_capabilities(reader, &items))
    key = PyBytes_FromStringAndSize(<char*> options.data, min(8 * options.data_words, 8 * OPTIONS_DATA))
    known = _options_cache.get(key)
    if known is None:
        known = make_options(&options, ())
        if len(_options_cache) >= _OPTIONS_CACHE_SIZE:
            _options_cache.clear()
        _options_cache[key] = known
    return known


cdef object make_options(StructView* view, tuple capabilities):
    cdef uint64_t bits = field64(view, 2)
    cdef double timeout
    memcpy(&timeout, &bits, 8)
    return TaskOptions(
        priority=<int64_t> field64(view, 0),
        depth=field32(view, 2),
        retries=field32(view, 3),
        rerun=not field_bit(view, 256),
        timeout_seconds=timeout,
        memory_bytes=field64(view, 3),
        profiling=field_bit(view, 257),
        stream_output=field_bit(view, 258),
        capabilities=capabilities,
        intermediate=field_bit(view, 259),
        graph=field32(view, 9),
    )


cdef tuple decode_capabilities(Reader* reader, ListView* items):
    cdef StructView item
    cdef uint32_t index
    cdef list capabilities = []
    for index in range(items.count):
        element(reader, items, index, &item)
        capabilities.append(Capability(take_text(reader, &item, 0, "capability"), field64(&item, 0)))
    return tuple(capabilities)


cdef list decode_functions(Reader* reader, StructView* tasks, uint32_t field):
    cdef ListView items
    cdef StructView item
    cdef uint32_t index
    cdef list functions = []
    if not read_structs(reader, tasks, field, &items):
        out_of_bounds("The list of functions")
    for index in range(items.count):
        element(reader, &items, index, &item)
        digest = take_id(reader, &item, 0, "digest")
        name = take_text(reader, &item, 1, "name")
        functions.append(FunctionDefinition(digest, name, take_bytes(reader, &item, 2, "payload"), field64(&item, 0)))
    return functions


cdef object decode_results(Reader* reader, StructView* root, bytes head, bytes payload):
    cdef StructView results, item
    cdef ListView items
    cdef uint32_t index
    cdef list runs = []
    if not read_field(reader, root, 0, &results) or not read_structs(reader, &results, 0, &items):
        out_of_bounds("The list of runs")
    for index in range(items.count):
        element(reader, &items, index, &item)
        runs.append(decode_result_run(reader, &item, head, payload))
    return Results(runs)


cdef ResultRun decode_result_run(Reader* reader, StructView* view, bytes head, bytes payload):
    cdef ResultRun run = ResultRun.__new__(ResultRun)
    cdef uint64_t size = field64(view, 2)
    cdef uint64_t n = field32(view, 0)
    cdef BytesView peaks
    run.count = <uint32_t> n
    run.session = take_id(reader, view, 0, "session")
    run.tasks = take_column(reader, view, 1, 8 * n, "tasks")
    run.attempts = take_column(reader, view, 2, 4 * n, "attempts")
    run.statuses = take_column(reader, view, 3, n, "statuses")
    run.durations = take_column(reader, view, 4, 8 * n, "durations")
    run.cpu_times = take_column(reader, view, 5, 8 * n, "cpuTimes")
    if not read_bytes(reader, view, 6, &peaks):
        out_of_bounds("memoryPeaks")
    if peaks.size:
        run.peaks = take_column(reader, view, 6, 8 * n, "memoryPeaks")
    run.ends = take_column(reader, view, 7, 4 * n, "ends")
    run.origin = payload_of(payload, field64(view, 1), size)
    run.payload_bytes = <uint32_t> size
    run.columns_owner = head
    run.payload_owner = payload
    if not ends_in_order(run.ends, n, size):
        raise MalformedMessage("The ends of a run do not fill its payload in order.")
    return run


# ---- fitting messages -----------------------------------------------------------------------------------------------


cdef uint64_t task_run_cost(TaskRun run, uint64_t start, uint64_t stop):
    """Bytes of a message that these tasks of a run take, at most."""
    cdef uint64_t piece = start * run.arity
    cdef uint64_t last = stop * run.arity
    cdef uint64_t payload = run.piece_start(last) - run.piece_start(piece)
    cdef uint64_t columns = (last - piece) * (5 if run.marks != NULL else 4)
    return payload + columns + RUN_OVERHEAD


cdef uint64_t shape_cost(TaskRun run):
    """What the names and options of a run take, once per slice."""
    cdef uint64_t cost = 4 * len(run.function_name)
    for keyword in run.keywords:
        cost += 16 + 4 * len(keyword)
    for capability in run.options.capabilities:
        cost += 32 + 4 * len(capability.name)
    return cost


cdef uint64_t result_run_cost(ResultRun run, uint64_t start, uint64_t stop):
    return run.piece_start(stop) - run.piece_start(start) + (stop - start) * RESULT_COLUMNS_SIZE + RUN_OVERHEAD


def split(runs, limit_bytes=MESSAGE_LIMIT):
    """A task that is over the limit alone makes a message of its own."""
    cdef TaskRun run
    cdef uint64_t limit = limit_bytes
    cdef uint64_t used = 0, tasks = 0, start, stop, room, extra
    cdef list group = []
    for run in runs:
        start = 0
        extra = shape_cost(run)
        while start < run.count:
            room = limit - used - extra if limit > used + extra else 0
            stop = fitting_tasks(run, start, min(<uint64_t> run.count, start + TASK_LIMIT - tasks), room)
            if stop == start and group:
                yield group
                group, used, tasks = [], 0, 0
                continue
            stop = max(stop, start + 1)
            group.append(run if stop - start == run.count else run.slice(start, stop))
            used += task_run_cost(run, start, stop) + extra
            tasks += stop - start
            start = stop
    if group:
        yield group


cdef uint64_t fitting_tasks(TaskRun run, uint64_t start, uint64_t last, uint64_t room):
    """The largest ``stop`` up to ``last`` such that the tasks from ``start`` to it take at most ``room``."""
    cdef uint64_t low = start
    cdef uint64_t high = last
    cdef uint64_t middle
    while low < high:
        middle = high - (high - low) // 2
        if task_run_cost(run, start, middle) <= room:
            low = middle
        else:
            high = middle - 1
    return low


def split_results(runs, limit_bytes=MESSAGE_LIMIT):
    """A result that is over the limit alone makes a message of its own."""
    cdef ResultRun run
    cdef uint64_t limit = limit_bytes
    cdef uint64_t used = 0, start, stop, room
    cdef list group = []
    for run in runs:
        start = 0
        while start < run.count:
            room = limit - used if limit > used else 0
            stop = fitting_results(run, start, run.count, room)
            if stop == start and group:
                yield group
                group, used = [], 0
                continue
            stop = max(stop, start + 1)
            group.append(run if stop - start == run.count else run.slice(start, stop))
            used += result_run_cost(run, start, stop)
            start = stop
    if group:
        yield group


cdef uint64_t fitting_results(ResultRun run, uint64_t start, uint64_t last, uint64_t room):
    cdef uint64_t low = start
    cdef uint64_t high = last
    cdef uint64_t middle
    while low < high:
        middle = high - (high - low) // 2
        if result_run_cost(run, start, middle) <= room:
            low = middle
        else:
            high = middle - 1
    return low
