"""Arrays that tasks of this processor have made, for those of its next tasks that take them as they are.

They are also in the host's store, so nothing is lost with them. Only arrays are kept: what other values hold on to
cannot be counted. Large ones are not, since the next array is made faster in memory that has just become free, and the
store's is mapped without a copy.
"""

from __future__ import annotations

from typing import Any

from scaler_protocol.messages import ObjectKey

VALUE_LIMIT_BYTES = 1024 * 1024
LIMIT_BYTES = 32 * 1024 * 1024


class KeptValues:
    """The oldest go first when there are more than ``LIMIT_BYTES`` of them."""

    def __init__(self) -> None:
        self._values: dict[ObjectKey, Any] = {}
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._values)

    def add(self, key: ObjectKey, value: Any) -> None:
        """Keep it if it may be kept."""
        size = _own_bytes(value)
        if size is None or size > VALUE_LIMIT_BYTES:
            return
        self._drop(key)
        self._values[key] = value
        self._bytes += size
        while self._bytes > LIMIT_BYTES:
            self._drop(next(iter(self._values)))

    def get(self, key: ObjectKey) -> Any:
        """None: it is not here."""
        return self._values.get(key)

    def clear(self) -> None:
        self._values.clear()
        self._bytes = 0

    def _drop(self, key: ObjectKey) -> None:
        value = self._values.pop(key, None)
        if value is not None:
            self._bytes -= _own_bytes(value) or 0


def _own_bytes(value: Any) -> int | None:
    """How much memory lives as long as ``value``; None: it is no array, or part of something else."""
    kind = type(value)
    if kind.__name__ != "ndarray" or kind.__module__ != "numpy" or value.dtype.hasobject:
        return None
    base = value if value.base is None else value.base
    if type(base) is not kind:
        return None
    return int(base.nbytes)
