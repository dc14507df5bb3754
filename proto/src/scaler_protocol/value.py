"""``value``: a dataclass that is cheap to define.

Every process of a cluster defines all messages when it starts, and uses few. ``dataclass`` writes and compiles up to
seven methods for each class; this compiles ``__init__`` only and shares the others: a quarter of the time. To a type
checker it is ``dataclass`` itself, which is what keeps a frozen value from being changed: nothing does at run time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as value

__all__ = ["value"]


def _values(self: Any) -> tuple[Any, ...]:
    return tuple([getattr(self, name) for name in self.__slots__])


def _equal(self: Any, other: Any) -> bool:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return _values(self) == _values(other)


def _hash(self: Any) -> int:
    return hash(_values(self))


def _text(self: Any) -> str:
    pairs = zip(self.__slots__, _values(self), strict=True)
    return f"{type(self).__qualname__}({', '.join(f'{name}={value!r}' for name, value in pairs)})"


def _value(*, frozen: bool, slots: bool) -> Callable[[type], type]:
    assert frozen and slots, "a value is frozen and has slots"

    def make(plain: type) -> type:
        plain.__eq__ = _equal  # type: ignore[assignment, method-assign]
        plain.__hash__ = _hash  # type: ignore[assignment, method-assign]
        plain.__repr__ = _text  # type: ignore[assignment, method-assign]
        plain.__doc__ = plain.__doc__ or plain.__name__  # else dataclass makes up a signature
        return dataclasses.dataclass(eq=False, repr=False, slots=True)(plain)

    return make


if not TYPE_CHECKING:
    value = _value
