"""The bodies that need no speed, written and read by pycapnp.

A body's schema has the field names of its dataclass in camel case, so a plan made once from the type hints serves both
ways. Columns are packed little-endian integers (see message.capnp).
"""

from __future__ import annotations

import dataclasses
import enum
import struct
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import capnp

from scaler_protocol import messages
from scaler_protocol.ids import ID_SIZE_BYTES
from scaler_protocol.messages import Body, Envelope, Hello, ObjectChunk, ObjectKey, Relay

capnp.remove_import_hook()
schema = capnp.load(str(Path(__file__).parent / "schemas" / "message.capnp"))

_IN_FRAMES = {ObjectChunk: "data", Relay: "frames"}
"""Fields that are further frames of the message."""

_COLUMN_FORMATS = {"tasks": "Q", "attempts": "I", "sequences": "Q"}
_ID_FIELDS = {"session", "owner", "parent_session"}


_READING_ERRORS = (
    capnp.KjException,
    struct.error,
    ValueError,
    TypeError,
    OverflowError,
    AttributeError,
    MemoryError,
)


class Unreadable(ValueError):
    """What was received is not a message."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Field:
    """One field of a body: ``put(builder, value)`` and ``take(reader)``."""

    name: str
    put: Callable[[Any, Any], None]
    take: Callable[[Any], Any]


def write(envelope: Envelope) -> list[bytes]:
    """The frames of a message with a body of this module. Raises ValueError for a number that is out of range."""
    body = envelope.body
    try:
        message = schema.Message.new_message(sequence=envelope.sequence, acknowledged=envelope.acknowledged)
        _put_struct(message.init(_union_name(type(body))), body)
    except (capnp.KjException, struct.error) as error:
        raise ValueError(f"{type(body).__name__} cannot be written: {error}") from None
    frames: list[bytes] = [message.to_bytes()]
    if isinstance(body, ObjectChunk):
        frames.append(body.data)
    elif isinstance(body, Relay):
        frames.extend(body.frames)
    return frames


def read(body_class: type[Body], frames: Sequence[bytes]) -> Envelope:
    """Raises Unreadable, whatever the bytes are. ``body_class`` is what the message's union tag says."""
    try:
        return _read(body_class, frames)
    except Unreadable:
        raise
    except _READING_ERRORS as error:
        raise Unreadable(f"{body_class.__name__} cannot be read: {error}") from error


def _read(body_class: type[Body], frames: Sequence[bytes]) -> Envelope:
    head = frames[0]
    limit = len(head) // 4 + 1024
    with schema.Message.from_bytes(head, traversal_limit_in_words=limit, nesting_limit=16) as message:
        values = _take_values(body_class, getattr(message, _union_name(body_class)))
        values.update(_take_frames(body_class, frames))
        body: Any = body_class(**values)
        return Envelope(body, message.sequence, message.acknowledged)


def _take_frames(body_class: type[Body], frames: Sequence[bytes]) -> dict[str, Any]:
    if body_class is ObjectChunk:
        if len(frames) != 2:
            raise Unreadable(f"ObjectChunk has {len(frames)} frames instead of 2.")
        return {"data": frames[1]}
    if body_class is Relay:
        return {"frames": tuple(frames[1:])}
    if len(frames) != 1:
        raise Unreadable(f"{body_class.__name__} has {len(frames)} frames instead of 1.")
    return {}


def _put_struct(builder: Any, value: Any) -> None:
    for field in _plan(type(value)):
        field.put(builder, getattr(value, field.name))


def _take_values(value_class: type, reader: Any) -> dict[str, Any]:
    return {field.name: field.take(reader) for field in _plan(value_class)}


def _take_struct(value_class: type, reader: Any) -> Any:
    return value_class(**_take_values(value_class, reader))


_plans: dict[type, list[_Field]] = {}


def _plan(value_class: type) -> list[_Field]:
    plan = _plans.get(value_class)
    if plan is None:
        hints = typing.get_type_hints(value_class)
        names = [name for name in hints if name != _IN_FRAMES.get(value_class)]
        plan = [_field(value_class, name, hints[name]) for name in names]
        _plans[value_class] = plan
    return plan


def _field(owner: type, name: str, hint: Any) -> _Field:
    wire_name = camel(name)
    if name in _COLUMN_FORMATS and typing.get_origin(hint) is tuple:
        return _column_field(name, wire_name)
    if typing.get_origin(hint) is tuple:
        item = typing.get_args(hint)[0]
        return _texts_field(name, wire_name) if item is str else _list_field(name, wire_name, item)
    if hint is ObjectKey:
        return _struct_field(name, wire_name, hint)
    if isinstance(hint, type) and issubclass(hint, enum.IntEnum):
        return _Field(
            name, lambda builder, value: setattr(builder, wire_name, int(value)), _enum_taker(hint, wire_name)
        )
    if name in _ID_FIELDS and owner is not Hello:
        return _id_field(name, wire_name)
    return _Field(
        name, lambda builder, value: setattr(builder, wire_name, value), lambda reader: getattr(reader, wire_name)
    )


def _enum_taker(enumeration: type[enum.IntEnum], wire_name: str) -> Callable[[Any], Any]:
    return lambda reader: enumeration(getattr(reader, wire_name))


def _id_field(name: str, wire_name: str) -> _Field:
    def take(reader: Any) -> bytes:
        value: bytes = getattr(reader, wire_name)
        if len(value) != ID_SIZE_BYTES:
            raise Unreadable(f"{name} has {len(value)} bytes instead of {ID_SIZE_BYTES}.")
        return value

    return _Field(name, lambda builder, value: setattr(builder, wire_name, value), take)


def _column_field(name: str, wire_name: str) -> _Field:
    code = _COLUMN_FORMATS[name]
    width = struct.calcsize("<" + code)

    def put(builder: Any, value: Sequence[int]) -> None:
        setattr(builder, wire_name, struct.pack(f"<{len(value)}{code}", *value))

    def take(reader: Any) -> tuple[int, ...]:
        data: bytes = getattr(reader, wire_name)
        if len(data) % width:
            raise Unreadable(f"The column {name} has {len(data)} bytes.")
        return struct.unpack(f"<{len(data) // width}{code}", data)

    return _Field(name, put, take)


def _texts_field(name: str, wire_name: str) -> _Field:
    def put(builder: Any, value: Sequence[str]) -> None:
        texts = builder.init(wire_name, len(value))
        for index, text in enumerate(value):
            texts[index] = text

    return _Field(name, put, lambda reader: tuple(getattr(reader, wire_name)))


def _list_field(name: str, wire_name: str, item_class: type) -> _Field:
    def put(builder: Any, value: Sequence[Any]) -> None:
        items = builder.init(wire_name, len(value))
        for index, item in enumerate(value):
            _put_struct(items[index], item)

    return _Field(
        name, put, lambda reader: tuple(_take_struct(item_class, item) for item in getattr(reader, wire_name))
    )


def _struct_field(name: str, wire_name: str, value_class: type) -> _Field:
    return _Field(
        name,
        lambda builder, value: _put_struct(builder.init(wire_name), value),
        lambda reader: _take_struct(value_class, getattr(reader, wire_name)),
    )


def camel(name: str) -> str:
    """``worker_names`` is ``workerNames`` in a schema."""
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


def _union_name(body_class: type) -> str:
    return body_class.__name__[0].lower() + body_class.__name__[1:]


BODIES: tuple[type[Body], ...] = tuple(
    getattr(messages, name[0].upper() + name[1:]) for name in schema.Message.schema.union_fields
)
"""The class of each union tag, in the order of the schema."""
