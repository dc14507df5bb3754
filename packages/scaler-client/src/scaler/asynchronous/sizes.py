"""The size of an argument as far as it shows without pickling it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from scaler.asynchronous.future import AsyncFuture

LARGE_BYTES = 128 * 1024
"""Arguments of this size are pickled and stored in another thread."""

_MANY_ITEMS = 1000
_SMALL_TYPES = frozenset({int, float, bool, complex, type(None)})
_TEXT_TYPES = (str, bytes, bytearray)
_CONTAINERS = (list, tuple, set, frozenset)


def are_large(values: Iterable[Any]) -> bool:
    """Return whether it takes long to pickle ``values``, as far as that shows: by the length of strings and containers,
    and by ``nbytes``, which arrays have. A future counts if its large result is here, or on its way. Containers are
    looked into, but not what they contain."""
    return any(type(value) not in _SMALL_TYPES and _is_large(value, True) for value in values)


def are_small(values: Iterable[Any]) -> bool:
    """Return whether all are numbers or None: a quick answer for most calls."""
    return _SMALL_TYPES.issuperset(map(type, values))


def _is_large(value: Any, looks_inside: bool) -> bool:
    if isinstance(value, AsyncFuture):
        return value.is_fetched
    if isinstance(value, _TEXT_TYPES):
        return len(value) >= LARGE_BYTES
    if isinstance(value, dict):
        return len(value) >= _MANY_ITEMS or (looks_inside and _has_large(value.values()))
    if isinstance(value, _CONTAINERS):
        return len(value) >= _MANY_ITEMS or (looks_inside and _has_large(value))
    size = getattr(value, "nbytes", 0)
    return isinstance(size, int) and size >= LARGE_BYTES


def _has_large(values: Iterable[Any]) -> bool:
    return any(type(value) not in _SMALL_TYPES and _is_large(value, False) for value in values)
