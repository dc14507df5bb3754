"""The items of a map, when one of them fails."""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from typing import Any

from scaler.client.argument_lists import Groups
from scaler.client.signatures import function_name

_SHOWN_MODULES = frozenset({"builtins", "datetime", "decimal", "fractions", "pathlib", "uuid", "numpy"})
"""Objects of these modules are shown by their ``repr``. That of others may be slow or have side effects."""


class ItemFailure(Exception):
    """``error`` is what the item at ``place`` ended with. Never leaves the client."""

    def __init__(self, place: int, error: BaseException) -> None:
        super().__init__(place, error)
        self.place = place
        self.error = error

    def name_item(self, method: str, callable_: Callable[..., Any], groups: Groups) -> BaseException:
        """The error, with a note that names the item, unless all items ended like this (a negative place)."""
        if self.place >= 0:
            call = _call_text(callable_, _arguments_at(self.place, groups))
            self.error.add_note(f"Raised by item {self.place} of {method}(), counting from 0: {call}")
        return self.error


def note_item(error: BaseException, method: str, place: int, count: int = 1) -> None:
    """Name the item that raised ``error``, or the ``count`` items of one task of which one did."""
    items = f"item {place}" if count == 1 else f"one of the {count} items from item {place}"
    error.add_note(f"Raised by {items} of {method}(), counting from 0.")


def _arguments_at(place: int, groups: Groups) -> tuple[Any, ...]:
    for arity, items in groups:
        if place < len(items):
            return (items[place],) if arity == 1 else tuple(items[place])
        place -= len(items)
    return ()


def _call_text(callable_: Callable[..., Any], arguments: tuple[Any, ...]) -> str:
    return f"{function_name(callable_)}({', '.join(map(_shown.repr, arguments))})"


class _Repr(reprlib.Repr):
    def repr_instance(self, value: object, level: int) -> str:
        kind = type(value)
        if kind.__module__.partition(".")[0] in _SHOWN_MODULES:
            return super().repr_instance(value, level)
        return f"<{kind.__qualname__} object>"


_shown = _Repr()
_shown.maxstring = _shown.maxother = 80
