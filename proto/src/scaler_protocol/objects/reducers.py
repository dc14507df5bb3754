"""The pickling of arrays where their libraries would write more than necessary, or write it twice.

Tensors of torch, and frames and series of Polars, lie outside the pickle as arrays of NumPy do (``array_libraries``).
An array of NumPy that repeats itself (``numpy.broadcast_to``; what ``dask.array.ones`` is made of) stays one: what it
repeats travels. A piece of a larger array is gathered once, so that it can lie outside the pickle as other arrays do.
"""

from __future__ import annotations

import sys
from collections import ChainMap
from collections.abc import Callable, Mapping
from typing import Any

from scaler_protocol.objects.array_libraries import reduce_frame, reduce_series, reduce_tensor

_PICKLE_PROTOCOL = 5
_OTHERS_LIMIT = 1000

Reducer = Callable[[Any], Any]


class ArrayReducers(dict[type, Reducer]):
    """The dispatch table of a pickler: what ``find`` says, then ``table``. Imports nothing. It is asked for the type of
    nearly every object, and mostly in vain."""

    def __init__(self, table: Mapping[type, Reducer]) -> None:
        super().__init__()
        self._tables = table.maps if isinstance(table, ChainMap) else [table]
        self._others: set[type] = set()  # types that `find` leaves to the table

    def __missing__(self, kind: type) -> Reducer:
        if kind not in self._others:
            reducer = self.find(kind)
            if reducer is not None:
                self[kind] = reducer
                return reducer
            if len(self._others) >= _OTHERS_LIMIT:
                self._others.clear()
            self._others.add(kind)
        for table in self._tables:  # which may change
            reducer = table.get(kind)
            if reducer is not None:
                return reducer
        raise KeyError(kind)

    def find(self, kind: type) -> Reducer | None:
        """Return how objects of this type are pickled, when that is left neither to them nor to the table."""
        name = kind.__name__
        if name not in _REDUCED:
            return None
        module, reducer = _REDUCED[name]
        return reducer if kind.__module__ == module else None


def _reduce(array: Any) -> Any:
    if _repeats(array):
        return _reduce_repeated(array)
    if not (array.flags.c_contiguous or array.flags.f_contiguous) and not array.dtype.hasobject:
        array = array.copy("K")
    return array.__reduce_ex__(_PICKLE_PROTOCOL)


def _repeats(array: Any) -> bool:
    """Return whether it cannot be told from a new array made by ``broadcast_to``, which is read-only as well."""
    if 0 not in array.strides or not array.size or array.flags.writeable:
        return False
    return any(not stride and length > 1 for stride, length in zip(array.strides, array.shape, strict=True))


def _reduce_repeated(array: Any) -> Any:
    once = tuple(slice(0, 1) if not stride else slice(None) for stride in array.strides)
    return sys.modules["numpy"].broadcast_to, (array[once], array.shape)


_REDUCED: dict[str, tuple[str, Reducer]] = {
    "ndarray": ("numpy", _reduce),
    "Tensor": ("torch", reduce_tensor),
    "DataFrame": ("polars.dataframe.frame", reduce_frame),
    "Series": ("polars.series.series", reduce_series),
}
"""By the name of a type: its module, and how its objects are pickled."""
