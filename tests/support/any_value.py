"""Instances of classes of messages in which every field has a value, also fields that are added later."""

from __future__ import annotations

import enum
import functools
import typing
from typing import Any, Protocol, TypeVar

Made = TypeVar("Made")


class ValueSource(Protocol):
    """Chooses the values of fields."""

    def integer(self) -> int: ...
    def number(self) -> float: ...
    def text(self) -> str: ...
    def identity(self) -> bytes: ...
    def flag(self) -> bool: ...
    def length(self) -> int: ...
    def member(self, kind: type[enum.Enum]) -> enum.Enum: ...


class UsualValues:
    """Values that fit into every field, and are not the defaults."""

    def integer(self) -> int:
        return 3

    def number(self) -> float:
        return 0.5

    def text(self) -> str:
        return "größe"

    def identity(self) -> bytes:
        return b"sixteen bytes..."

    def flag(self) -> bool:
        return True

    def length(self) -> int:
        return 2

    def member(self, kind: type[enum.Enum]) -> enum.Enum:
        return list(kind)[-1]


def any_instance(kind: type[Made], source: ValueSource) -> Made:
    """An instance of a class whose fields are numbers, texts, bytes, members of enumerations, other such instances, and
    tuples of them."""
    return kind(*(any_value(each, source) for each in _fields(kind)))


def any_value(kind: Any, source: ValueSource) -> Any:
    simple = {int: source.integer, float: source.number, str: source.text, bytes: source.identity, bool: source.flag}
    if kind in simple:
        return simple[kind]()
    if typing.get_origin(kind) is tuple:
        items = typing.get_args(kind)
        kinds = [items[0]] * source.length() if items[-1] is Ellipsis else items
        return tuple(any_value(each, source) for each in kinds)
    if issubclass(kind, enum.Enum):
        return source.member(kind)
    return any_instance(kind, source)


@functools.cache
def _fields(kind: type) -> tuple[Any, ...]:
    """The types of its fields, in the order of its parameters."""
    names = kind.__dataclass_fields__ if hasattr(kind, "__dataclass_fields__") else kind._fields  # type: ignore[attr-defined]
    hints = typing.get_type_hints(kind)
    return tuple(hints[name] for name in names)
