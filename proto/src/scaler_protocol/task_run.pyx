# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Columns of tasks.

A run keeps the bytes objects that hold its columns and its payload and points into them: slicing copies nothing.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memchr, memcmp, memcpy, memset

from scaler_protocol.columns cimport (
    ID_SIZE,
    MESSAGE_LIMIT,
    RUN_OVERHEAD,
    TASK_LIMIT,
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
from scaler_protocol.wire cimport load32, load64

from scaler_protocol.messages import DEFAULT_OPTIONS, ObjectKey


cdef class TaskRun:
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

    @property
    def names_bytes(self):
        return self.shape_bytes()

    cdef uint64_t shape_bytes(self) except? 0:
        cdef uint64_t cost = 4 * len(self.function_name)
        for keyword in self.keywords:
            cost += 16 + 4 * len(keyword)
        if self.options is not DEFAULT_OPTIONS:
            for capability in self.options.capabilities:
                cost += 32 + 4 * len(capability.name)
        return cost

    @property
    def frame_bytes(self):
        return PyBytes_GET_SIZE(self.columns_owner) + PyBytes_GET_SIZE(self.payload_owner)

    cdef object piece(self, uint64_t index):
        cdef uint32_t begin = piece_start(self.ends, self.start, index)
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
            begin = piece_start(self.ends, self.start, index)
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
            key_at(self.origin + piece_start(self.ends, self.start, index))
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
                place = self.origin + piece_start(self.ends, self.start, index)
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
                    place = self.origin + piece_start(self.ends, self.start, index)
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
        run.start = piece_start(self.ends, self.start, piece)
        run.ends = self.ends + 4 * piece
        run.payload_bytes = piece_start(self.ends, self.start, piece + pieces) - run.start
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
        return same_bytes(self.origin + self.start, other.origin + other.start, self.payload_bytes)

    def __repr__(self):
        tasks = f"{self.session.hex()[:8]}:{self.first_task}..{self.first_task + self.count - 1}"
        return f"TaskRun({self.function_name} {tasks} attempt {self.attempt})"


cdef object key_at(const uint8_t* place):
    return ObjectKey(PyBytes_FromStringAndSize(<char*> place, ID_SIZE), load64(place + ID_SIZE))


cdef class TaskRunBuilder:
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
        """Return whether a task of so many bytes may join and the message stays under its limit."""
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
        add_bytes(self, slot)
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
        return add_bytes(self, slot)

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
        copy_bytes(columns, self.ends.data, self.ends.size)
        copy_bytes(columns + self.ends.size, self.marks.data, self.marks.size)
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


cdef inline int add_bytes(TaskRunBuilder builder, object slot) except -1:
    cdef size_t size = PyBytes_GET_SIZE(slot)
    if builder.payload.size + size > 0xFFFFFFFF:
        raise ValueError("A run holds less than 4 GiB.")
    memcpy(column_extend(&builder.payload, size), PyBytes_AS_STRING(slot), size)
    column_add32(&builder.ends, <uint32_t> builder.payload.size)
    if builder.marks.size:
        column_extend(&builder.marks, 1)[0] = 0
    return 0
