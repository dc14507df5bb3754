"""``get``, ``put``, ``wait`` and ``cancel``."""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Sequence
from typing import Any, TypeVar, overload

from scaler.client.fetching_ahead import FetchingAhead
from scaler.client.future import ScalerFuture
from scaler.compat.ray.connecting import current_client
from scaler.compat.ray.exceptions import GetTimeoutError
from scaler.compat.ray.object_refs import ObjectRef
from scaler.compat.ray.warning import warn_of_ignored

T = TypeVar("T")


@overload
def get(object_refs: ObjectRef[T], *, timeout: float | None = None) -> T: ...


@overload
def get(object_refs: Sequence[ObjectRef[Any]], *, timeout: float | None = None) -> list[Any]: ...


def get(object_refs: Any, *, timeout: float | None = None) -> Any:
    """The value of a reference, or the values of a list of references. ``timeout``: seconds for all of them;
    a negative number sets no limit."""
    if isinstance(object_refs, ObjectRef):
        return _values([object_refs], timeout)[0]
    if not isinstance(object_refs, (list, tuple)):
        raise ValueError(f"Cannot get {object_refs!r}: it is neither an ObjectRef nor a list of them.")
    for ref in object_refs:
        _check_is_ref(ref, "get")
    return _values(object_refs, timeout)


def _values(refs: Sequence[ObjectRef[Any]], timeout: float | None) -> list[Any]:
    end = None if timeout is None or timeout < 0 else time.monotonic() + timeout
    values = []
    ahead = FetchingAhead([ref.source for ref in refs])
    for place, ref in enumerate(refs):
        ahead.reach(place)
        try:
            values.append(ref.value(None if end is None else max(end - time.monotonic(), 0)))
        except TimeoutError as error:
            if ref.source.done():
                raise  # the task itself has raised it
            raise GetTimeoutError(f"Cannot get {ref!r} within {timeout} s: its task has not ended.") from error
    return values


def put(value: T) -> ObjectRef[T]:
    """Send a value once, for any number of tasks. Do not change it afterwards."""
    if isinstance(value, ObjectRef):
        raise TypeError("Cannot put an ObjectRef: its value is in the cluster already. Pass the reference itself.")
    return ObjectRef(current_client().scatter([value])[0])


def wait(
    object_refs: Sequence[ObjectRef[T]],
    *,
    num_returns: int = 1,
    timeout: float | None = None,
    fetch_local: bool = True,
) -> tuple[list[ObjectRef[T]], list[ObjectRef[T]]]:
    """Wait until ``num_returns`` tasks have ended, or for ``timeout`` seconds. Returns at most ``num_returns``
    references whose tasks have ended, and all others, both in the order of the argument. ``fetch_local``: begin to
    fetch large values."""
    _check_wait(object_refs, num_returns, timeout)
    if not object_refs:
        return [], []
    end = None if timeout is None else time.monotonic() + timeout
    sources = {ref.source for ref in object_refs}
    while True:
        waiting = {source for source in sources if not source.done()}
        missing = num_returns - (len(sources) - len(waiting))
        left = None if end is None else end - time.monotonic()
        if missing <= 0 or (left is not None and left <= 0):
            break
        needs_all = missing == len(waiting)
        concurrent.futures.wait(waiting, left, "ALL_COMPLETED" if needs_all else "FIRST_COMPLETED")
    ended = [ref for ref in object_refs if ref.source not in waiting][:num_returns]
    chosen = set(map(id, ended))
    for ref in ended:
        if fetch_local and isinstance(ref.source, ScalerFuture):
            ref.source.fetch_ahead()
    return ended, [ref for ref in object_refs if id(ref) not in chosen]


def _check_wait(refs: Any, num_returns: int, timeout: float | None) -> None:
    if not isinstance(refs, (list, tuple)):
        raise TypeError(f"Cannot wait for {refs!r}: it is not a list of ObjectRefs. Put a single one into a list.")
    for ref in refs:
        _check_is_ref(ref, "wait for")
    if len({id(ref.source) for ref in refs}) < len(refs):
        raise ValueError("Cannot wait: an ObjectRef occurs twice. Pass each one once.")
    if timeout is not None and timeout < 0:
        raise ValueError(f"Cannot wait for {timeout} seconds: the timeout is negative. Pass None to wait indefinitely.")
    if refs and not 0 < num_returns <= len(refs):
        raise ValueError(f"Cannot wait for {num_returns} of {len(refs)} ObjectRefs. Pass a num_returns in this range.")


def cancel(object_ref: ObjectRef[Any], *, force: bool = False, recursive: bool = True) -> None:
    """Cancel the task. A running task is interrupted, and its process is killed if that does not help. Its nested tasks
    are cancelled, too. Nothing happens if it has ended."""
    _check_is_ref(object_ref, "cancel")
    if force:
        warn_of_ignored("cancel()", {"force": "every running task is interrupted, or killed if it continues"})
    if not recursive:
        warn_of_ignored("cancel()", {"recursive": "nested tasks end with the task that submitted them"})
    object_ref.task.cancel()


def _check_is_ref(value: object, action: str) -> None:
    if not isinstance(value, ObjectRef):
        raise TypeError(f"Cannot {action} {value!r}: it is not an ObjectRef. Pass what .remote() or put() returned.")
