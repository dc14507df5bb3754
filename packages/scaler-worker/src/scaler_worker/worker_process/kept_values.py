"""Values that graph nodes have produced in this worker process, for those of its next tasks that need them.

They are also in the host's store, so nothing is lost with them; a request takes longer than copying a small value.
Large ones are not kept: those in the store are mapped without a copy, and the next array is made faster in memory that
has just become free.
"""

from __future__ import annotations

from typing import Any

from scaler_protocol.messages import ObjectKey
from scaler_protocol.objects.layout import ObjectLayout

ARRAY_LIMIT_BYTES = 1024 * 1024
COPY_LIMIT_BYTES = 256 * 1024
LIMIT_BYTES = 32 * 1024 * 1024


class KeptValues:
    """Arrays as they are, for tasks that share values, and bytes, of which each task has a copy. The oldest go first
    when there are more than ``LIMIT_BYTES``."""

    def __init__(self) -> None:
        self._arrays: dict[ObjectKey, Any] = {}
        self._copies: dict[ObjectKey, bytes | bytearray] = {}
        self.sizes: dict[ObjectKey, int] = {}
        """The sizes of all that is kept, oldest first; for reading."""
        self._total = 0

    def add_array(self, key: ObjectKey, value: Any) -> bool:
        """Keep the value if it is an array of limited size. The memory of other values cannot be counted."""
        size = _own_bytes(value)
        if size is None or size > ARRAY_LIMIT_BYTES:
            return False
        self.drop(key)
        self._arrays[key] = value
        self._count(key, size)
        return True

    def add_copy(self, key: ObjectKey, payload: bytes | ObjectLayout) -> None:
        """Keep a copy of ``payload``, if it is small enough."""
        if len(payload) > COPY_LIMIT_BYTES:
            return
        self.drop(key)
        self._copies[key] = payload if isinstance(payload, bytes) else _written(payload)
        self._count(key, len(payload))

    def array(self, key: ObjectKey) -> Any:
        """None: it is not here."""
        return self._arrays.get(key)

    def copy(self, key: ObjectKey) -> bytes | memoryview | None:
        """Return a copy for one task alone to change. None: it is not here."""
        data = self._copies.get(key)
        return memoryview(data[:]) if isinstance(data, bytearray) else data

    def drop(self, key: ObjectKey) -> None:
        size = self.sizes.pop(key, None)
        if size is not None:
            self._total -= size
            self._arrays.pop(key, None)
            self._copies.pop(key, None)

    def clear(self) -> None:
        for kept in (self._arrays, self._copies, self.sizes):
            kept.clear()
        self._total = 0

    def _count(self, key: ObjectKey, size: int) -> None:
        self.sizes[key] = size
        self._total += size
        while self._total > LIMIT_BYTES:
            self.drop(next(iter(self.sizes)))


def _written(layout: ObjectLayout) -> bytearray:
    data = bytearray(len(layout))
    layout.write_into(memoryview(data))
    return data


def _own_bytes(value: Any) -> int | None:
    """Return how much memory lives as long as ``value``; None: it is not an array, or part of something else."""
    kind = type(value)
    if kind.__name__ != "ndarray" or kind.__module__ != "numpy" or value.dtype.hasobject:
        return None
    base = value if value.base is None else value.base
    if type(base) is not kind:
        return None
    return int(base.nbytes)
