# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The bodies that need no speed, written and read field by field as the schema says.

A body's schema has the field names of its dataclass in camel case, so a plan made once from both serves both ways.
Columns are packed little-endian integers (see message.capnp).
"""

import struct

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from scaler_protocol.fields cimport check_count, open_root, out_of_bounds, take_bytes, take_id, take_text, take_texts
from scaler_protocol.wire cimport (
    BytesView,
    ListView,
    Reader,
    StructView,
    Writer,
    element,
    field64,
    put_bytes,
    put_message,
    put_pointers,
    put_struct,
    put_structs,
    read_bytes,
    read_field,
    read_structs,
    sure,
    word,
    words_for,
)

from scaler_protocol import layout, limits, messages
from scaler_protocol.fields import MalformedMessage
from scaler_protocol.messages import (
    ControlRequest,
    CoordinationKind,
    Envelope,
    Hello,
    LockAction,
    LockState,
    NamedAction,
    NamedState,
    ObjectChunk,
    ObjectKey,
    RefusalReason,
    Relay,
    Role,
    StoreFailure,
    TaskColumn,
)

cdef enum Kind:
    BIT
    INTEGER
    REAL
    DATA
    ID
    TEXT
    TEXTS
    COLUMN
    STRUCT
    STRUCTS

cdef enum:
    ROOT_WORDS = 5  # the segment's root pointer and Message
    ROOT_POINTER = 4  # the pointer of Message

_IN_FRAMES = {ObjectChunk: "data", Relay: "frames"}
"""Fields that are further frames of the message: the last of their class."""

_COLUMN_FORMATS = {"tasks": "Q", "attempts": "I", "sequences": "Q", "pins": "Q", "numbers": "Q", "sizes": "Q"}
_ENUMERATIONS = {
    "role": Role,
    "reason": RefusalReason,
    "failure": StoreFailure,
    "kind": CoordinationKind,
    "action": LockAction,
    "state": LockState,
    "named_action": NamedAction,
    "named_state": NamedState,
}
_ID_FIELDS = {"session", "owner", "parent_session"}
_NAMES = {
    "name", "host", "endpoint", "sources", "worker_names", "features", "distribution", "distribution_version",
    "python_version", "manager", "machine", "packages",
}
_COUNTS = {
    "worker_names": limits.WORKERS_LIMIT,
    "workers": limits.WORKERS_LIMIT,
    "running_tasks": limits.WORKERS_LIMIT,
    "capabilities": limits.CAPABILITIES_LIMIT,
    "sources": limits.SOURCES_LIMIT,
    "received_from": limits.SOURCES_LIMIT,
    "features": limits.FEATURES_LIMIT,
    "reasons": limits.REASONS_LIMIT,
    "packages": limits.PACKAGES_LIMIT,
}
"""Maximum number of items in a list. Other lists are bounded by the size of their message: their items take bytes."""

cdef double REAL_LIMIT = limits.REAL_LIMIT


# ---- plans ----------------------------------------------------------------------------------------------------------


cdef class BodyField:
    """One field of a struct. ``place``: in bits in the data section, or the number of the pointer."""

    cdef str name
    cdef Kind kind
    cdef uint32_t place
    cdef uint32_t bits
    cdef str format  # of a column's items
    cdef object enumeration
    cdef Plan items
    cdef uint64_t most_bytes  # of a text
    cdef uint64_t most_items  # of a list


cdef class Plan:
    cdef object value_class
    cdef uint16_t data_words
    cdef uint16_t pointer_words
    cdef list fields


cdef dict _plans = {}


cdef Plan plan_of(object value_class):
    plan = _plans.get(value_class)
    if plan is None:
        plan = _plans[value_class] = make_plan(value_class)
    return <Plan> plan


cdef Plan make_plan(object value_class):
    cdef Plan plan = Plan()
    struct_layout = layout.layout(value_class.__name__)
    plan.value_class = value_class
    plan.data_words = struct_layout.data_words
    plan.pointer_words = struct_layout.pointer_words
    names = value_class._fields if value_class is ObjectKey else value_class.__dataclass_fields__
    in_frames = _IN_FRAMES.get(value_class)
    plan.fields = [
        make_field(value_class, name, struct_layout.fields[camel(name)]) for name in names if name != in_frames
    ]
    return plan


cdef BodyField make_field(object owner, str name, object placed):
    cdef BodyField field = BodyField()
    field.name = name
    field.place = placed.offset
    field.bits = placed.bits
    if owner is not ControlRequest:  # the scheduler refuses an action that it does not know
        field.enumeration = _ENUMERATIONS.get(name)
    field.most_bytes = limits.NAME_LIMIT_BYTES if name in _NAMES else limits.TEXT_LIMIT_BYTES
    field.most_items = _COUNTS.get(name, 0xFFFFFFFF)
    if placed.bits:
        field.kind = BIT if placed.bits == 1 else REAL if placed.type == "Float64" else INTEGER
    elif placed.type == "Text":
        field.kind = TEXT
    elif placed.type == "List(Text)":
        field.kind = TEXTS
    elif placed.type == "Data":
        field.kind = ID if name in _ID_FIELDS and owner is not Hello else DATA
        if name in _COLUMN_FORMATS:
            field.kind = COLUMN
            field.format = _COLUMN_FORMATS[name]
    else:
        field.kind = STRUCTS if placed.type.startswith("List(") else STRUCT
        field.items = plan_of(getattr(messages, placed.type.removeprefix("List(").removesuffix(")")))
    return field


def camel(name):
    """``worker_names`` is ``workerNames`` in a schema."""
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


BODIES = tuple(getattr(messages, _name) for _name in layout.body_classes())
cdef dict _tags = {body: tag for tag, body in enumerate(BODIES)}


# ---- writing --------------------------------------------------------------------------------------------------------


def write(envelope):
    body = envelope.body
    kind = type(body)
    cdef Plan plan = plan_of(kind)
    cdef Writer writer
    cdef bytes head
    cdef int64_t start
    try:
        head = put_message(
            &writer,
            ROOT_WORDS + words_of(plan, body),
            envelope.sequence,
            envelope.acknowledged,
            _tags[kind],
        )
        start = sure(put_struct(&writer, ROOT_POINTER, plan.data_words, plan.pointer_words))
        put_fields(&writer, start, plan, body)
    except (struct.error, OverflowError, TypeError, AttributeError) as error:
        raise ValueError(f"{kind.__name__} cannot be written: {error}") from None
    if writer.used != writer.size:
        raise SystemError("A message is smaller than was calculated.")
    if kind is ObjectChunk:
        return [head, body.data]
    return [head, *body.frames] if kind is Relay else [head]


cdef uint64_t words_of(Plan plan, object value) except? 0:
    cdef uint64_t words = plan.data_words + plan.pointer_words
    cdef BodyField field
    for field in plan.fields:
        if field.kind >= DATA:
            words += pointed_words(field, getattr(value, field.name))
    return words


cdef uint64_t pointed_words(BodyField field, object value) except? 0:
    cdef uint64_t words = 0
    if field.kind == STRUCT:
        return words_of(field.items, value)
    if field.kind == TEXT:
        return text_words(value)
    if field.kind == COLUMN:
        return words_for(len(value) * struct.calcsize(field.format))
    if field.kind == TEXTS:
        words = len(value)
        for text in value:
            words += text_words(text)
        return words
    if field.kind == STRUCTS:
        words = 1 if value else 0
        for item in value:
            words += words_of(field.items, item)
        return words
    return words_for(len(value))


cdef uint64_t text_words(str text) except? 0:
    return words_for(<uint64_t> len(text.encode()) + 1) if text else 0


cdef int put_fields(Writer* writer, uint64_t start, Plan plan, object value) except -1:
    """Write the fields of the struct at word ``start``."""
    cdef uint8_t* data = word(writer, start)
    cdef uint64_t pointers = start + plan.data_words
    cdef BodyField field
    for field in plan.fields:
        if field.kind < DATA:
            put_number(data, field, getattr(value, field.name))
        else:
            put_pointed(writer, pointers + field.place, field, getattr(value, field.name))
    return 0


cdef int put_number(uint8_t* data, BodyField field, object value) except -1:
    cdef double real
    cdef uint64_t number
    if field.kind == BIT:
        data[field.place // 8] |= (1 if value else 0) << (field.place % 8)
        return 0
    if field.kind == REAL:
        real = value
        check_real(field, real)
        memcpy(data + field.place // 8, &real, 8)
        return 0
    number = value
    if field.bits < 64 and number >> field.bits:
        raise ValueError(f"{field.name} is out of range: {value}")
    memcpy(data + field.place // 8, &number, field.bits // 8)
    return 0


cdef int check_real(BodyField field, double real) except -1:
    """Also False for what is not a number."""
    if not -REAL_LIMIT <= real <= REAL_LIMIT:
        raise MalformedMessage(f"{field.name} is not a number between -{REAL_LIMIT:g} and {REAL_LIMIT:g}: {real}.")
    return 0


cdef int put_pointed(Writer* writer, uint64_t pointer, BodyField field, object value) except -1:
    if field.kind == STRUCT:
        return put_fields(
            writer, sure(put_struct(writer, pointer, field.items.data_words, field.items.pointer_words)),
            field.items, value,
        )
    if not value:
        return 0
    if field.kind == TEXT:
        return put_data(writer, pointer, value.encode() + b"\0")
    if field.kind == COLUMN:
        return put_data(writer, pointer, struct.pack(f"<{len(value)}{field.format}", *value))
    if field.kind == TEXTS:
        return put_texts(writer, pointer, value)
    if field.kind == STRUCTS:
        return put_items(writer, pointer, field.items, value)
    return put_data(writer, pointer, bytes(value))


cdef int put_data(Writer* writer, uint64_t pointer, bytes data) except -1:
    cdef uint8_t* place = put_bytes(writer, pointer, PyBytes_GET_SIZE(data))
    if place == NULL:
        sure(-1)
    memcpy(place, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    return 0


cdef int put_texts(Writer* writer, uint64_t pointer, object texts) except -1:
    cdef int64_t place = sure(put_pointers(writer, pointer, len(texts)))
    for text in texts:
        if text:
            put_data(writer, place, text.encode() + b"\0")
        place += 1
    return 0


cdef int put_items(Writer* writer, uint64_t pointer, Plan plan, object values) except -1:
    cdef int64_t place = sure(put_structs(writer, pointer, len(values), plan.data_words, plan.pointer_words))
    for value in values:
        put_fields(writer, place, plan, value)
        place += plan.data_words + plan.pointer_words
    return 0


# ---- reading --------------------------------------------------------------------------------------------------------


def read(body_class, frames):
    cdef bytes head = frames[0]
    cdef Reader reader
    cdef StructView root, view
    open_root(&reader, &root, head)
    if not read_field(&reader, &root, 0, &view):
        raise MalformedMessage(f"{body_class.__name__} is out of bounds.")
    cdef list values = take_fields(&reader, &view, plan_of(body_class))
    take_frames(body_class, frames, values)
    if body_class is ObjectChunk:
        check_chunk(values)
    return Envelope(body_class(*values), field64(&root, 0), field64(&root, 1))


cdef int take_frames(object body_class, frames, list values) except -1:
    if body_class is Relay:
        values.append(tuple(frames[1:]))
        return 0
    cdef int expected = 2 if body_class is ObjectChunk else 1
    if len(frames) != expected:
        raise MalformedMessage(f"{body_class.__name__} has {len(frames)} frames instead of {expected}.")
    if expected == 2:
        values.append(frames[1])
    return 0


cdef int check_chunk(list values) except -1:
    """The receiver writes the bytes where the chunk says."""
    _, size, offset, data = values
    cdef object end = offset + len(data)
    if end > size:
        raise MalformedMessage(f"A chunk ends at {end} of an object of {size} bytes.")
    if size > limits.OBJECT_LIMIT_BYTES:
        raise MalformedMessage(f"An object has {size} bytes; {limits.OBJECT_LIMIT_BYTES} are allowed.")
    return 0


cdef list take_fields(Reader* reader, StructView* view, Plan plan):
    """Return the values in the order of the class, which takes them by position: by name, a heartbeat of an agent with
    ten workers takes half as long again."""
    cdef list values = []
    cdef BodyField field
    for field in plan.fields:
        if field.kind < DATA:
            values.append(take_number(view, field))
        else:
            values.append(take_pointed(reader, view, field))
    return values


cdef object take_number(StructView* view, BodyField field):
    """0 when the sender knew no such field."""
    cdef uint64_t number = 0
    cdef double real = 0
    if field.place + field.bits <= 64 * view.data_words:
        if field.kind == BIT:
            return bool((view.data[field.place // 8] >> (field.place % 8)) & 1)
        memcpy(&number, view.data + field.place // 8, field.bits // 8)
    if field.kind == BIT:
        return False
    if field.kind == REAL:
        memcpy(&real, &number, 8)
        check_real(field, real)
        return real
    if field.enumeration is None:
        return number
    try:
        return field.enumeration(number)
    except ValueError:
        raise MalformedMessage(f"{field.name} has an unknown value: {number}.") from None


cdef object take_pointed(Reader* reader, StructView* view, BodyField field):
    cdef StructView item
    if field.kind == STRUCT:
        if not read_field(reader, view, field.place, &item):
            out_of_bounds(field.name)
        return field.items.value_class(*take_fields(reader, &item, field.items))
    if field.kind == STRUCTS:
        return take_items(reader, view, field)
    if field.kind == TEXTS:
        return take_texts(reader, view, field.place, field.name, field.most_items, field.most_bytes)
    if field.kind == TEXT:
        return take_text(reader, view, field.place, field.name, field.most_bytes)
    if field.kind == ID:
        return take_id(reader, view, field.place, field.name)
    if field.kind == COLUMN:
        return column_of(reader, view, field)
    return take_bytes(reader, view, field.place, field.name)


cdef tuple take_items(Reader* reader, StructView* view, BodyField field):
    cdef ListView items
    cdef StructView item
    cdef uint32_t index
    cdef list values = []
    if not read_structs(reader, view, field.place, &items):
        out_of_bounds(field.name)
    check_count(field.name, items.count, field.most_items)
    for index in range(items.count):
        element(reader, &items, index, &item)
        value = field.items.value_class(*take_fields(reader, &item, field.items))
        if field.items.value_class is TaskColumn and len(value.attempts) not in (0, len(value.tasks)):
            raise MalformedMessage(f"{len(value.tasks)} tasks have {len(value.attempts)} attempts.")
        values.append(value)
    return tuple(values)


cdef tuple column_of(Reader* reader, StructView* view, BodyField field):
    cdef BytesView data
    if not read_bytes(reader, view, field.place, &data):
        out_of_bounds(field.name)
    cdef uint64_t width = struct.calcsize(field.format)
    if data.size % width:
        raise MalformedMessage(f"The column {field.name} has {data.size} bytes.")
    return struct.unpack(f"<{data.size // width}{field.format}", data.data[: data.size])
