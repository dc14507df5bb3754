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


def evaluate(task: Callable[[dict[Any, Any]], Any], names: Sequence[Any], *values: Any) -> Any:
    """Run a task object of Dask with the values of its dependencies."""
    return task(dict(zip(names, values, strict=True)))


cloudpickle.register_pickle_by_value(sys.modules[__name__])
