"""Functions that Scaler itself sends to workers. They travel by value: a worker has no scaler-client.

Their code must not use anything of this module."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle


def pack(*values: Any) -> tuple[Any, ...]:
    """Some of the arguments of a call that has too many for one message."""
    return values


def call_with_packs(function: Callable[..., Any], keywords: Sequence[str], *packs: Sequence[Any]) -> Any:
    """Call ``function`` with all that is in ``packs``, the last ones by name."""
    values = [value for pack in packs for value in pack]
    positional = len(values) - len(keywords)
    return function(*values[:positional], **dict(zip(keywords, values[positional:], strict=True)))


def call_with_inputs(
    function: Callable[..., Any], header: tuple[int, bool, Sequence[int]], /, *values: Any, **keywords: Any
) -> Any:
    """Call ``function`` with arguments that contain results of other tasks. ``header``: how many of the values are
    these results, whether they are in packs, and which arguments are pickles in which a persistent id stands for a
    result."""
    import io
    import pickle

    class Filler(pickle.Unpickler):
        def persistent_load(self, place: int) -> Any:
            return inputs[place]

    count, is_packed, places = header
    inputs = values[:count]
    if is_packed:
        inputs = tuple(each for packed in inputs for each in packed)
    arguments = [*values[count:], *keywords.values()]
    for place in places:
        arguments[place] = Filler(io.BytesIO(arguments[place])).load()
    positional = len(arguments) - len(keywords)
    return function(*arguments[:positional], **dict(zip(keywords, arguments[positional:], strict=True)))


def pack_inputs(*values: Any) -> tuple[Any, ...]:
    """Some of the inputs of a call that has too many for one task."""
    return values


def evaluate(task: Callable[[dict[Any, Any]], Any], names: Sequence[Any], *values: Any) -> Any:
    """Run a task object of Dask with the values of its dependencies."""
    return task(dict(zip(names, values, strict=True)))


cloudpickle.register_pickle_by_value(sys.modules[__name__])
