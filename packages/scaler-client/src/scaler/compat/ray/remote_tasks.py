"""The function that a worker runs for a remote function."""

from __future__ import annotations

import io
import pickle
import types
from collections import ChainMap
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import cloudpickle

from scaler.client.serializer import PICKLE_PROTOCOL
from scaler.client.signatures import function_module
from scaler.compat.ray.connecting import leave_task
from scaler.compat.ray.object_refs import ObjectRef, arrived, reduced_with_value
from scaler.compat.ray.remote_options import RemoteOptions

_LOADED_LIMIT = 256


def task_function(function: Callable[..., Any], options: RemoteOptions) -> Callable[..., Any]:
    """The function that is submitted. It contains the user's function as it is now, in bytes, because it then need not
    be compared before each call."""
    payload = pickled((function, options.num_returns, options.retried, options.repetitions))

    def task(*args: Any, **kwargs: Any) -> Any:
        return run_task(payload, args, kwargs)

    name = options.name or getattr(function, "__qualname__", type(function).__qualname__)
    code = task.__code__.replace(co_name=name, co_qualname=name)  # clients know functions by their code
    made = types.FunctionType(code, task.__globals__, name, None, task.__closure__)
    made.__qualname__ = name
    made.__module__ = function_module(function)
    return made


class _CapturePickler(cloudpickle.Pickler):
    """Gives the references that a function captures their values."""

    dispatch_table = ChainMap({ObjectRef: reduced_with_value}, cloudpickle.Pickler.dispatch_table)


def pickled(value: Any) -> bytes:
    """The bytes of a function or a class, with the values of the references that it captures."""
    file = io.BytesIO()
    _CapturePickler(file, PICKLE_PROTOCOL).dump(value)
    return file.getvalue()


def item(values: tuple[Any, ...], place: int) -> Any:
    """One of several values of a task."""
    return values[place]


def run_task(payload: bytes, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the user's function."""
    function, num_returns, retried, repetitions = _load(payload)
    try:
        value = _repeat(function, args, kwargs, retried, repetitions)
        return with_values(_returned(function, value, num_returns))
    finally:
        leave_task()


@lru_cache(_LOADED_LIMIT)
def _load(payload: bytes) -> Any:
    return pickle.loads(payload)


def _repeat(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    retried: tuple[type[BaseException], ...],
    repetitions: int,
) -> Any:
    for _ in range(repetitions):
        try:
            return function(*args, **kwargs)
        except retried:
            pass
    return function(*args, **kwargs)


def _returned(function: Callable[..., Any], value: Any, num_returns: int) -> Any:
    if num_returns == 1:
        return value
    if num_returns == 0:
        return None
    values = tuple(value)
    if len(values) != num_returns:
        raise ValueError(
            f"Cannot return the values of {function.__name__}(): there are {len(values)}, and num_returns is "
            f"{num_returns}."
        )
    return values


def with_values(value: Any) -> Any:
    """References in lists, tuples and dicts get their values, since the client of this task ends with it."""
    kind = type(value)
    if kind is ObjectRef:
        return arrived(value)
    if kind in (list, tuple):
        return kind([with_values(each) for each in value])
    if kind is dict:
        return {key: with_values(each) for key, each in value.items()}
    return value
