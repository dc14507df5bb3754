"""``value``: a dataclass that is cheap to define.

Every process of a cluster defines all messages when it starts, and uses few. ``dataclass`` writes and compiles up to
seven methods for each class; this compiles ``__init__`` only, for the first instance, and shares the others: a tenth of
the time. To a type checker it is ``dataclass`` itself, which is what keeps a frozen value from being changed: nothing
does at run time. A default is a plain value, not a ``field``.
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


def _first_init(made: Any) -> Callable[..., None]:
    """Return an ``__init__`` that replaces itself by the compiled one."""

    def __init__(self: Any, *values: Any, **named: Any) -> None:
        made.__init__ = _compiled_init(made)
        made.__init__(self, *values, **named)

    return __init__


def _compiled_init(made: Any) -> Callable[..., None]:
    """Return the ``__init__`` that ``dataclass`` would write."""
    fields = dataclasses.fields(made)
    names = [field.name for field in fields]
    lines = [f"def __init__({', '.join(['self', *names])}):", *(f" self.{name} = {name}" for name in names), " return"]
    written: dict[str, Any] = {}
    exec("\n".join(lines), written)
    init = written["__init__"]
    init.__defaults__ = tuple(field.default for field in fields if field.default is not dataclasses.MISSING)
    init.__qualname__ = f"{made.__qualname__}.__init__"
    return init


def _value(*, frozen: bool, slots: bool) -> Callable[[type], type]:
    assert frozen and slots, "a value is frozen and has slots"

    def make(plain: type) -> type:
        plain.__eq__ = _equal  # type: ignore[assignment, method-assign]
        plain.__hash__ = _hash  # type: ignore[assignment, method-assign]
        plain.__repr__ = _text  # type: ignore[assignment, method-assign]
        plain.__doc__ = plain.__doc__ or plain.__name__  # else dataclass makes up a signature
        made: Any = dataclasses.dataclass(init=False, eq=False, repr=False, slots=True)(plain)
        made.__init__ = _first_init(made)
        return made

    return make


if not TYPE_CHECKING:
    value = _value
