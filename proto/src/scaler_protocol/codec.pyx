# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The codec of messages.

Tasks, Results and bodies without fields are written and read here, in the layout of message.capnp; all others by
``bodies``. Decoding copies nothing, encoding copies each byte once.
"""

import sys
from dataclasses import fields
from operator import attrgetter

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcpy

from scaler_protocol.columns cimport (
    AGE_SIZE,
    ID_SIZE,
    MESSAGE_LIMIT,
    NO_WORKER,
    REFERENCE_SIZE,
    RESULT_COLUMNS_SIZE,
    RUN_OVERHEAD,
    TASK_LIMIT,
    ends_in_order,
    piece_start,
    rebase,
)
from scaler_protocol.envelope cimport Envelope, Results, Tasks, envelope_of
from scaler_protocol.fields cimport (
    check_count,
    open_root,
    out_of_bounds,
    take_bytes,
    take_column,
    take_id,
    take_text,
    take_texts,
)
from scaler_protocol.result_run cimport ResultRun, are_parts
from scaler_protocol.steps cimport is_whole
from scaler_protocol.task_run cimport TaskRun
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
    put_bytes,
    put_message,
    put_pointers,
    put_struct,
    put_structs,
    read_bytes,
    read_field,
    read_structs,
    store32,
    store64,
    sure,
    word,
    words_for,
)

from scaler_protocol import bodies, limits
from scaler_protocol.fields import MalformedMessage
from scaler_protocol.messages import (
    DEFAULT_OPTIONS,
    HELLO_LIMIT_BYTES,
    MESSAGE_LIMIT_BYTES as _MESSAGE_LIMIT_BYTES,
    Capability,
    FunctionDefinition,
    Hello,
    Status,
    TaskName,
    TaskOptions,
)
from scaler_protocol.result_run import ResultRunBuilder
from scaler_protocol.task_run import TaskRunBuilder

__all__ = [
    "HARD_LIMIT_BYTES",
    "TASKS_LIMIT",
    "MalformedMessage",
    "ResultRun",
    "ResultRunBuilder",
    "TaskRun",
    "TaskRunBuilder",
    "decode",
    "decode_hello",
    "encode",
    "split",
    "split_results",
]
globals().update(ResultRun=ResultRun, TaskRun=TaskRun)  # a cimport alone makes no attribute of the module

if sys.byteorder != "little":
    raise ImportError("scaler_protocol needs a little-endian machine.")

cdef enum:
    TASKS_TAG = 0  # of the union of Message
    RESULTS_TAG = 1
    # Sections of the structs of message.capnp, in words.
    ROOT_WORDS = 5  # the root pointer and Message
    ROOT_POINTER = 4  # the pointer of Message
    TASKS_DATA = 1
    TASKS_POINTERS = 3
    TASKS_POINTERS_WITH_PARENT = 4
    NAME_DATA = 2
    NAME_POINTERS = 1
    TASK_RUN_DATA = 5
    TASK_RUN_POINTERS = 8
    OPTIONS_DATA = 11
    OPTIONS_DATA_WITHOUT_TIMES = 9
    OPTIONS_DATA_OF_FOREIGN_CALLS = 8  # of an actor of another session
    OPTIONS_DATA_OF_CALLS = 6  # of an actor of their own session
    OPTIONS_DATA_OF_TASKS = 5
    CAPABILITY_DATA = 2
    FUNCTION_DATA = 1
    FUNCTION_POINTERS = 5
    RESULT_RUN_DATA = 3
    RESULT_RUN_POINTERS = 8

TASKS_LIMIT = TASK_LIMIT
"""No message has more tasks: a task without arguments costs no bytes."""

HARD_LIMIT_BYTES = 2 * _MESSAGE_LIMIT_BYTES
"""``encode`` refuses more. Messages are planned for MESSAGE_LIMIT_BYTES; the rest is room for functions that ride
along, and for a relayed message inside another."""

cdef double REAL_LIMIT = limits.REAL_LIMIT
cdef uint64_t NAME_LIMIT = limits.NAME_LIMIT_BYTES
cdef uint64_t ENVIRONMENT_LIMIT = limits.ENVIRONMENT_LIMIT_BYTES
cdef uint64_t CAPABILITIES_LIMIT = limits.CAPABILITIES_LIMIT
cdef uint64_t KEYWORDS_LIMIT = limits.KEYWORDS_LIMIT
cdef uint64_t SHAPE_LIMIT = limits.SHAPE_LIMIT_BYTES

_options_cache: dict = {}
_OPTIONS_CACHE_SIZE = 256


# ---- writing --------------------------------------------------------------------------------------------------------


cdef dict _empty_tags = {
    body: tag
    for tag, body in enumerate(bodies.BODIES)
    if body is not Tasks and body is not Results and not body.__dataclass_fields__
}


def encode(Envelope envelope not None):
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
        raise ValueError(f"{kind.__name__} contains a number that is out of range: {error}") from error
    size = bytes_in(frames)
    if size > HARD_LIMIT_BYTES:
        raise ValueError(f"A message of {size} bytes is over the limit of {HARD_LIMIT_BYTES}.")
    return frames


cdef Py_ssize_t bytes_in(list frames) except -1:
    cdef Py_ssize_t size = 0
    for frame in frames:
        size += len(frame)
    return size


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
        raise SystemError("A message is larger than was calculated.")
    return place


cdef int finish(Writer* writer) except -1:
    if writer.used != writer.size:
        raise SystemError("A message is smaller than was calculated.")
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


cdef object _last_special = None
"""Options that are not the default. Most often the next ones are the same object, and to compare options takes long."""


cdef bint is_default(object options) except -1:
    global _last_special
    if options is _last_special:
        return False
    if options is DEFAULT_OPTIONS or options == DEFAULT_OPTIONS:
        return True
    _last_special = options
    return False


cdef list capability_texts(object options):
    return [(each.name.encode(), each.amount, each.millionths) for each in options.capabilities]


cdef uint16_t capability_data(list capabilities) except 0:
    """The words of data that each capability takes. Without fractions, the second word is not written."""
    for _, _, millionths in capabilities:
        if millionths:
            return CAPABILITY_DATA
    return CAPABILITY_DATA - 1


cdef uint16_t options_data(object options) except 0:
    if options.submitted_at or options.ready_at:
        return OPTIONS_DATA
    if options.map_number or options.map_tasks:
        return OPTIONS_DATA_WITHOUT_TIMES
    if options.actor_session:
        return OPTIONS_DATA_OF_FOREIGN_CALLS
    return OPTIONS_DATA_OF_CALLS if options.actor else OPTIONS_DATA_OF_TASKS


cdef inline uint16_t options_pointers(bytes actor_name):
    """The name of an actor, which few tasks have, is behind the capabilities."""
    return 2 if actor_name else 1


cdef uint64_t options_words(object options, list capabilities) except 0:
    cdef bytes actor_name = options.actor_name.encode()
    cdef uint64_t words = options_data(options) + options_pointers(actor_name) + text_words(actor_name)
    if capabilities:
        words += 1
        for name, _, _ in capabilities:
            words += capability_data(capabilities) + 1 + text_words(name)
    return words


cdef int write_options(Writer* writer, uint64_t pointer, object options, list capabilities) except -1:
    cdef uint16_t own_words = options_data(options)
    cdef bytes actor_name = options.actor_name.encode()
    cdef int64_t start = sure(put_struct(writer, pointer, own_words, options_pointers(actor_name)))
    cdef uint8_t* data = word(writer, start)
    cdef int64_t priority = options.priority
    cdef double timeout = options.timeout_seconds
    cdef uint16_t concurrency = options.max_concurrency
    cdef int64_t at
    cdef uint16_t data_words
    cdef bytes session
    if not 0 <= timeout <= REAL_LIMIT:
        raise ValueError(f"timeout_seconds is not a number between 0 and {REAL_LIMIT:g}: {timeout}.")
    store64(data, <uint64_t> priority)
    store32(data + 8, options.depth)
    store32(data + 12, options.retries)
    memcpy(data + 16, &timeout, 8)
    store64(data + 24, options.memory_bytes)
    store32(data + 32, <uint32_t> concurrency << 16)
    data[32] = (not options.rerun) | (bool(options.profiling) << 1) | (bool(options.stream_output) << 2)
    data[32] |= (bool(options.intermediate) << 3) | (bool(options.shares_values) << 4) | (bool(options.grows) << 5)
    data[32] |= bool(options.hosts_actor) << 6
    store32(data + 36, options.graph)
    if own_words >= OPTIONS_DATA_OF_CALLS:
        store64(data + 40, options.actor)
    if own_words >= OPTIONS_DATA_WITHOUT_TIMES:
        store32(data + 64, options.map_number)
        store32(data + 68, options.map_tasks)
    if own_words == OPTIONS_DATA:
        write_times(data + 72, options)
    if own_words >= OPTIONS_DATA_OF_FOREIGN_CALLS and options.actor_session:
        session = options.actor_session
        if len(session) != ID_SIZE:
            raise ValueError(f"actor_session has {len(session)} bytes instead of {ID_SIZE}.")
        memcpy(data + 48, PyBytes_AS_STRING(session), ID_SIZE)
    write_text(writer, start + own_words + 1, actor_name)
    if capabilities:
        data_words = capability_data(capabilities)
        at = sure(put_structs(writer, start + own_words, len(capabilities), data_words, 1))
        for name, amount, millionths in capabilities:
            store64(word(writer, at), amount)
            if data_words == CAPABILITY_DATA:
                store32(word(writer, at + 1), millionths)
            write_text(writer, at + data_words, name)
            at += data_words + 1
    return 0


cdef int write_times(uint8_t* place, object options) except -1:
    cdef double submitted_at = options.submitted_at
    cdef double ready_at = options.ready_at
    if not 0 <= submitted_at <= REAL_LIMIT or not 0 <= ready_at <= REAL_LIMIT:
        raise ValueError(f"A time is not a number between 0 and {REAL_LIMIT:g}: {submitted_at}, {ready_at}.")
    memcpy(place, &submitted_at, 8)
    memcpy(place + 8, &ready_at, 8)
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
        text.words += options_words(run.options, text.capabilities)
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
        texts.append((
            function.digest, function.name.encode(), bytes(function.payload), function.size,
            function.environment.encode(), function.module.encode(),
        ))
    return texts


cdef uint64_t functions_words(list texts):
    cdef uint64_t words = 1 if texts else 0
    for digest, name, payload, _, environment, module in texts:
        words += FUNCTION_DATA + FUNCTION_POINTERS + bytes_words(digest) + text_words(name) + bytes_words(payload)
        words += text_words(environment) + text_words(module)
    return words


cdef int write_functions(Writer* writer, uint64_t pointer, list texts) except -1:
    cdef int64_t at
    if not texts:
        return 0
    at = sure(put_structs(writer, pointer, len(texts), FUNCTION_DATA, FUNCTION_POINTERS))
    for digest, name, payload, size, environment, module in texts:
        store64(word(writer, at), size)
        write_bytes(writer, at + 1, digest)
        write_text(writer, at + 2, name)
        write_bytes(writer, at + 3, payload)
        write_text(writer, at + 4, environment)
        write_text(writer, at + 5, module)
        at += FUNCTION_DATA + FUNCTION_POINTERS
    return 0


cdef list encode_tasks(Envelope envelope, Tasks body):
    cdef list runs = body.runs
    cdef list texts = [run_text(run) for run in runs]
    cdef list functions = function_texts(body.functions)
    cdef list serializers = function_texts(body.serializers)
    cdef Payload payload = Payload()
    cdef Writer writer
    cdef uint64_t words = tasks_words(texts) + functions_words(functions) + functions_words(serializers)
    cdef uint64_t count = add_task_payloads(payload, runs)
    cdef object parent = body.parent
    cdef int64_t start
    if parent is not None:
        words += 1 + NAME_DATA + NAME_POINTERS + words_for(ID_SIZE)
    check_size(words, payload.size, count)
    head = put_message(&writer, words, envelope.sequence, envelope.acknowledged, TASKS_TAG)
    start = sure(
        put_struct(
            &writer, ROOT_POINTER, TASKS_DATA, TASKS_POINTERS if parent is None else TASKS_POINTERS_WITH_PARENT
        )
    )
    word(&writer, start)[0] = 1 if body.resubmitted else 0
    write_task_runs(&writer, start + TASKS_DATA, runs, texts)
    write_functions(&writer, start + TASKS_DATA + 1, functions)
    write_functions(&writer, start + TASKS_DATA + 2, serializers)
    if parent is not None:
        write_task_name(&writer, start + TASKS_DATA + 3, parent)
    finish(&writer)
    return [head, payload.join()]


cdef int write_task_name(Writer* writer, uint64_t pointer, object name) except -1:
    cdef int64_t start = sure(put_struct(writer, pointer, NAME_DATA, NAME_POINTERS))
    session, task, attempt, depth = name
    if len(session) != ID_SIZE:
        raise ValueError(f"A session has {ID_SIZE} bytes, not {len(session)}.")
    store64(word(writer, start), task)
    store32(word(writer, start + 1), attempt)
    store32(word(writer, start + 1) + 4, depth)
    write_bytes(writer, start + NAME_DATA, session)
    return 0


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
    cdef Py_ssize_t index
    if not runs:
        return 0
    at = sure(put_structs(writer, pointer, len(runs), TASK_RUN_DATA, TASK_RUN_POINTERS))
    for index in range(len(runs)):
        run = <TaskRun?> runs[index]
        write_task_run(writer, at, run, <RunText> texts[index], offset)
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
    """Return the size of a run of results in words, without its place in the list of runs."""
    cdef uint64_t n = run.count
    cdef uint64_t words = words_for(ID_SIZE) + 3 * n
    words += 2 * words_for(4 * n) + words_for(n)
    if run.peaks != NULL:
        words += n
    if run.parts is not None:
        words += words_for(len(run.parts))
    if run.steps != NULL:
        return words + words_for(run.steps_bytes)
    return words + words_for(AGE_SIZE * n) if run.ages != NULL else words


cdef uint32_t pointers_of(list runs):
    """Return how many pointers each run in a list has: more when any of them says when its tasks ended, or what their
    durations consist of."""
    cdef ResultRun run
    cdef uint32_t pointers = RESULT_RUN_POINTERS
    for run in runs:
        if run.parts is not None:
            return RESULT_RUN_POINTERS + 3
        if run.ages != NULL or run.steps != NULL:
            pointers = RESULT_RUN_POINTERS + 2
    return pointers


cdef int write_result_run(Writer* writer, uint64_t start, ResultRun run, uint64_t offset) except -1:
    cdef uint8_t* data = word(writer, start)
    cdef uint64_t pointers = start + RESULT_RUN_DATA
    cdef uint64_t n = run.count
    store32(data, run.count)
    store32(data + 4, 0 if run.worker == NO_WORKER else run.worker + 1)
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
    if run.ages != NULL:
        write_memory(writer, pointers + 8, run.ages, AGE_SIZE * n)
    if run.steps != NULL:
        write_memory(writer, pointers + 9, run.steps, run.steps_bytes)
    if run.parts is not None:
        write_bytes(writer, pointers + 10, run.parts)
    return 0


cdef list encode_results(Envelope envelope, Results body):
    cdef list runs = body.runs
    cdef Payload payload = Payload()
    cdef Writer writer
    cdef uint64_t words = ROOT_WORDS + 1 + (1 if runs else 0)
    cdef uint64_t size = RESULT_RUN_DATA + pointers_of(runs)
    cdef uint64_t count = 0
    cdef int64_t start
    cdef ResultRun run
    for run in runs:
        words += size + result_run_words(run)
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
    cdef uint32_t pointers = pointers_of(runs)
    cdef int64_t at
    cdef ResultRun run
    if not runs:
        return 0
    at = sure(put_structs(writer, pointer, len(runs), RESULT_RUN_DATA, pointers))
    for run in runs:
        write_result_run(writer, at, run, offset)
        offset += run.payload_bytes
        at += RESULT_RUN_DATA + pointers
    return 0


# ---- reading --------------------------------------------------------------------------------------------------------


cdef tuple _bodies = bodies.BODIES
cdef uint8_t _last_status = max(Status)
cdef uint32_t _hello_tag = _bodies.index(Hello)
cdef object _hello_values = attrgetter(*[each.name for each in fields(Hello) if each.type in ("str", "bytes")])


def decode(frames):
    frames = [frame if type(frame) is bytes else bytes(frame) for frame in frames]
    if not frames:
        raise MalformedMessage("A message has at least one frame.")
    cdef bytes head = frames[0]
    cdef Reader reader
    cdef StructView root
    open_root(&reader, &root, head)
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
        return bodies.read(kind, frames)
    return envelope_of(body, field64(&root, 0), field64(&root, 1))


def decode_hello(frames):
    cdef Reader reader
    cdef StructView root
    cdef bytes head = bytes(frames[0]) if len(frames) == 1 else b""
    if not 0 < len(head) <= HELLO_LIMIT_BYTES:
        return None
    open_root(&reader, &root, head)
    if field32(&root, 4) & 0xFFFF != _hello_tag:
        return None
    hello = bodies.read(Hello, [head]).body
    if max(map(len, (*_hello_values(hello), *hello.features))) > limits.HELLO_VALUE_LIMIT:
        raise MalformedMessage("The Hello is larger than any valid Hello.")
    return hello


cdef bytes payload_frame(list frames):
    if len(frames) == 1:
        return b""
    if len(frames) == 2:
        return frames[1]
    raise MalformedMessage(f"A message of tasks or results has {len(frames)} frames instead of 2.")


cdef const uint8_t* payload_of(bytes frame, uint64_t offset, uint64_t size) except NULL:
    cdef uint64_t total = PyBytes_GET_SIZE(frame)
    if offset > total or size > total - offset or size > 0xFFFFFFFF:
        raise MalformedMessage("The payload of a run is out of bounds.")
    return <const uint8_t*> PyBytes_AS_STRING(frame) + offset


cdef object decode_tasks(Reader* reader, StructView* root, bytes head, bytes payload):
    cdef StructView tasks, item
    cdef ListView items
    cdef uint32_t index
    cdef uint64_t count = 0, size = 0
    cdef list runs = []
    cdef TaskRun run
    cdef Tasks body = Tasks.__new__(Tasks)
    if not read_field(reader, root, 0, &tasks) or not read_structs(reader, &tasks, 0, &items):
        out_of_bounds("The list of runs")
    for index in range(items.count):
        element(reader, &items, index, &item)
        run = decode_task_run(reader, &item, head, payload)
        count += run.count
        if count > TASK_LIMIT:
            raise MalformedMessage(f"A message has at most {TASK_LIMIT} tasks.")
        size += run.payload_bytes
        check_share(size, payload)
        runs.append(run)
    body.runs = runs
    body.functions = decode_functions(reader, &tasks, 1)
    body.serializers = decode_functions(reader, &tasks, 2)
    body.resubmitted = field_bit(&tasks, 0)
    body.parent = decode_task_name(reader, &tasks, 3)
    return body


cdef int check_share(uint64_t size, bytes payload) except -1:
    """Runs share no bytes of the payload: each is sent on by itself, and together they would be without end."""
    if size > <uint64_t> PyBytes_GET_SIZE(payload):
        raise MalformedMessage("The runs of a message have more bytes than its payload.")
    return 0


cdef object decode_task_name(Reader* reader, StructView* view, uint32_t field):
    cdef StructView name
    if not read_field(reader, view, field, &name):
        out_of_bounds("The name of a task")
    if name.pointer_words == 0:
        return None
    return TaskName(take_id(reader, &name, 0, "session"), field64(&name, 0), field32(&name, 2), field32(&name, 3))


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
    run.function_name = take_text(reader, view, 2, "functionName", NAME_LIMIT)
    run.serializer = take_bytes(reader, view, 3, "serializer")
    run.keywords = take_texts(reader, view, 4, "keywords", KEYWORDS_LIMIT, NAME_LIMIT)
    run.options = decode_options(reader, view, 5)
    run.ends = take_column(reader, view, 6, 4 * pieces, "ends")
    run.origin = payload_of(payload, field64(view, 3), size)
    run.payload_bytes = <uint32_t> size
    run.columns_owner = head
    run.payload_owner = payload
    if not ends_in_order(run.ends, pieces, size):
        raise MalformedMessage("The ends of a run do not fill its payload in order.")
    if len(run.serializer) not in (0, ID_SIZE) or <uint32_t> len(run.keywords) > run.arity:
        raise MalformedMessage("A run has an invalid serializer or invalid keywords.")
    if shape_cost(run) > SHAPE_LIMIT:
        raise MalformedMessage(f"The names of a run take more than {SHAPE_LIMIT} bytes.")
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
        if data.data[index] and load32(run.ends + 4 * index) - piece_start(run.ends, run.start, index) != REFERENCE_SIZE:
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
        return DEFAULT_OPTIONS
    actor_name = take_text(reader, &options, 1, "actorName", NAME_LIMIT)
    if items.count or actor_name:
        return make_options(&options, decode_capabilities(reader, &items), actor_name)
    key = PyBytes_FromStringAndSize(<char*> options.data, min(8 * options.data_words, 8 * OPTIONS_DATA))
    known = _options_cache.get(key)
    if known is None:
        known = make_options(&options, (), "")
        if len(_options_cache) >= _OPTIONS_CACHE_SIZE:
            _options_cache.clear()
        _options_cache[key] = known
    return known


cdef bytes session_at(StructView* options):
    cdef uint64_t words[2]
    words[0], words[1] = field64(options, 6), field64(options, 7)
    return PyBytes_FromStringAndSize(<char*> words, ID_SIZE) if words[0] or words[1] else b""


cdef double seconds_at(StructView* options, uint32_t place, str name) except? -1.0:
    cdef uint64_t bits = field64(options, place)
    cdef double seconds
    memcpy(&seconds, &bits, 8)
    if not 0 <= seconds <= REAL_LIMIT:
        raise MalformedMessage(f"{name} is not a number between 0 and {REAL_LIMIT:g}: {seconds}.")
    return seconds


cdef object make_options(StructView* view, tuple capabilities, str actor_name):
    return TaskOptions(
        priority=<int64_t> field64(view, 0),
        depth=field32(view, 2),
        retries=field32(view, 3),
        rerun=not field_bit(view, 256),
        timeout_seconds=seconds_at(view, 2, "timeoutSeconds"),
        memory_bytes=field64(view, 3),
        profiling=field_bit(view, 257),
        stream_output=field_bit(view, 258),
        capabilities=capabilities,
        intermediate=field_bit(view, 259),
        graph=field32(view, 9),
        shares_values=field_bit(view, 260),
        grows=field_bit(view, 261),
        hosts_actor=field_bit(view, 262),
        actor=field64(view, 5),
        actor_session=session_at(view),
        max_concurrency=field32(view, 8) >> 16,
        map_number=field32(view, 16),
        map_tasks=field32(view, 17),
        submitted_at=seconds_at(view, 9, "submittedAt"),
        ready_at=seconds_at(view, 10, "readyAt"),
        actor_name=actor_name,
    )


cdef tuple decode_capabilities(Reader* reader, ListView* items):
    cdef StructView item
    cdef uint32_t index
    cdef list capabilities = []
    check_count("capabilities", items.count, CAPABILITIES_LIMIT)
    for index in range(items.count):
        element(reader, items, index, &item)
        name = take_text(reader, &item, 0, "capability", NAME_LIMIT)
        capabilities.append(Capability(name, field64(&item, 0), field32(&item, 2)))
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
        name = take_text(reader, &item, 1, "name", NAME_LIMIT)
        payload = take_bytes(reader, &item, 2, "payload")
        environment = take_text(reader, &item, 3, "environment", ENVIRONMENT_LIMIT)
        module = take_text(reader, &item, 4, "module", NAME_LIMIT)
        functions.append(FunctionDefinition(digest, name, payload, field64(&item, 0), environment, module))
    return functions


cdef object decode_results(Reader* reader, StructView* root, bytes head, bytes payload):
    cdef StructView results, item
    cdef ListView items
    cdef uint32_t index
    cdef uint64_t size = 0
    cdef ResultRun run
    cdef list runs = []
    if not read_field(reader, root, 0, &results) or not read_structs(reader, &results, 0, &items):
        out_of_bounds("The list of runs")
    for index in range(items.count):
        element(reader, &items, index, &item)
        run = decode_result_run(reader, &item, head, payload)
        size += run.payload_bytes
        check_share(size, payload)
        runs.append(run)
    cdef Results body = Results.__new__(Results)
    body.runs = runs
    return body


cdef ResultRun decode_result_run(Reader* reader, StructView* view, bytes head, bytes payload):
    cdef ResultRun run = ResultRun.__new__(ResultRun)
    cdef uint64_t size = field64(view, 2)
    cdef uint64_t n = field32(view, 0)
    cdef BytesView peaks
    if n == 0:
        raise MalformedMessage("A run has at least one result.")
    run.count = <uint32_t> n
    run.session = take_id(reader, view, 0, "session")
    run.tasks = take_column(reader, view, 1, 8 * n, "tasks")
    run.attempts = take_column(reader, view, 2, 4 * n, "attempts")
    run.statuses = take_column(reader, view, 3, n, "statuses")
    if not are_statuses(run.statuses, n):
        raise MalformedMessage("A result has a status that does not exist.")
    run.durations = take_column(reader, view, 4, 8 * n, "durations")
    run.cpu_times = take_column(reader, view, 5, 8 * n, "cpuTimes")
    if not read_bytes(reader, view, 6, &peaks):
        out_of_bounds("memoryPeaks")
    if peaks.size:
        run.peaks = take_column(reader, view, 6, 8 * n, "memoryPeaks")
    run.ends = take_column(reader, view, 7, 4 * n, "ends")
    decode_times(reader, view, head, run)
    decode_parts(reader, view, run)
    if field32(view, 1) & 0xFFFF:
        run.worker = (field32(view, 1) & 0xFFFF) - 1
    run.origin = payload_of(payload, field64(view, 1), size)
    run.payload_bytes = <uint32_t> size
    run.columns_owner = head
    run.payload_owner = payload
    if not ends_in_order(run.ends, n, size):
        raise MalformedMessage("The ends of a run do not fill its payload in order.")
    return run


cdef bint are_statuses(const uint8_t* statuses, uint64_t count) noexcept nogil:
    cdef uint64_t row
    cdef uint8_t most = 0
    for row in range(count):
        most = max(most, statuses[row])
    return most <= _last_status


cdef int decode_times(Reader* reader, StructView* view, bytes head, ResultRun run) except -1:
    """Decode when the tasks ended, if the message states it."""
    cdef BytesView ages, steps
    if not read_bytes(reader, view, 8, &ages):
        out_of_bounds("ages")
    if not read_bytes(reader, view, 9, &steps):
        out_of_bounds("steps")
    if ages.size:
        run.ages = take_column(reader, view, 8, AGE_SIZE * <uint64_t> run.count, "ages")
        run.ages_owner = head
    elif steps.size:
        if run.count == 0 or not is_whole(steps.data, steps.size, run.count):
            raise MalformedMessage("The steps of a run are truncated.")
        run.steps, run.steps_bytes = steps.data, <uint32_t> steps.size
        run.ages_owner = head
    return 0


cdef int decode_parts(Reader* reader, StructView* view, ResultRun run) except -1:
    """Decode what durations consist of, if the message states it."""
    cdef BytesView parts
    if not read_bytes(reader, view, 10, &parts):
        out_of_bounds("parts")
    if parts.size:
        run.parts = PyBytes_FromStringAndSize(<char*> parts.data, parts.size)
        if not are_parts(run.parts, run.count):
            raise MalformedMessage("The parts of durations name rows that the run does not have.")
    return 0


# ---- fitting messages -----------------------------------------------------------------------------------------------


cdef struct Extent:  # of a run of tasks or of results, in rows
    const uint8_t* ends
    uint32_t start
    uint32_t rows
    uint64_t pieces  # of a row
    uint64_t columns_size  # of a row
    uint64_t extra_size  # once per slice


cdef Extent extent_of(object run):
    cdef TaskRun tasks
    cdef ResultRun results
    cdef Extent extent
    if isinstance(run, TaskRun):
        tasks = run
        extent.ends, extent.start, extent.rows = tasks.ends, tasks.start, tasks.count
        extent.pieces = tasks.arity
        extent.columns_size = extent.pieces * (5 if tasks.marks != NULL else 4)
        extent.extra_size = RUN_OVERHEAD + shape_cost(tasks)
    else:
        results = run
        extent.ends, extent.start, extent.rows = results.ends, results.start, results.count
        extent.pieces = 1
        extent.columns_size = RESULT_COLUMNS_SIZE + (AGE_SIZE if results.ages != NULL or results.steps != NULL else 0)
        if results.parts is not None:
            extent.columns_size += 16
        extent.extra_size = RUN_OVERHEAD
    return extent


cdef uint64_t shape_cost(TaskRun run) except? 0:
    """The bytes of the names and options of a run, once per slice."""
    return run.shape_bytes()


cdef uint64_t cost_of(Extent* extent, uint64_t first, uint64_t last) noexcept:
    """Bytes of a message that these rows of a run take, at most."""
    cdef uint64_t begin = piece_start(extent.ends, extent.start, first * extent.pieces)
    cdef uint64_t end = piece_start(extent.ends, extent.start, last * extent.pieces)
    return end - begin + (last - first) * extent.columns_size + extent.extra_size


cdef uint64_t fitting_rows(Extent* extent, uint64_t first, uint64_t most, uint64_t room) noexcept:
    """The largest row up to ``most`` such that the rows from ``first`` to it take at most ``room``."""
    cdef uint64_t low = first
    cdef uint64_t high = most
    cdef uint64_t middle
    while low < high:
        middle = high - (high - low) // 2
        if cost_of(extent, first, middle) <= room:
            low = middle
        else:
            high = middle - 1
    return low


def split(runs, limit_bytes=MESSAGE_LIMIT):
    """A task or a result that is over the limit alone makes a message of its own."""
    cdef Extent extent
    cdef uint64_t limit = limit_bytes
    cdef uint64_t used = 0, rows = 0, start, stop
    cdef list group = []
    for run in runs:
        start = 0
        extent = extent_of(run)
        while start < extent.rows:
            stop = min(<uint64_t> extent.rows, start + TASK_LIMIT - rows)
            stop = fitting_rows(&extent, start, stop, limit - used if limit > used else 0)
            if stop == start and group:
                yield group
                group, used, rows = [], 0, 0
                continue
            stop = max(stop, start + 1)
            group.append(run if stop - start == extent.rows else run.slice(start, stop))
            used += cost_of(&extent, start, stop)
            rows += stop - start
            start = stop
    if group:
        yield group


split_results = split
