"""``ray.util``: results in the order in which tasks end, and pools of actors."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from scaler.compat.ray.object_refs import ObjectRef
from scaler.compat.ray.remote_functions import RemoteFunction
from scaler.compat.ray.util.actor_pool import ActorPool as ActorPool


def as_completed(
    refs: Sequence[ObjectRef[Any]], *, chunk_size: int = 10, yield_obj_refs: bool = False
) -> Iterator[Any]:
    """Yield the values, or the references, as tasks end. ``chunk_size`` has no effect: each is yielded at once."""
    waiting: dict[concurrent.futures.Future[Any], list[ObjectRef[Any]]] = {}
    for ref in refs:
        waiting.setdefault(ref.source, []).append(ref)
    for future in concurrent.futures.as_completed(list(waiting)):
        for ref in waiting.pop(future):
            yield ref if yield_obj_refs else ref.value()


def map_unordered(
    fn: RemoteFunction[Any], items: Iterable[Any], *, backpressure_size: int | None = 100, chunk_size: int = 10
) -> Iterator[Any]:
    """Call a remote function with each of the items, and yield the values as tasks end. At most ``backpressure_size``
    tasks are unfinished at a time; None: any number. ``chunk_size`` has no effect."""
    if not isinstance(fn, RemoteFunction):
        raise TypeError(f"Cannot map {fn!r}: it is not a remote function. Decorate it with @remote.")
    if backpressure_size is not None and backpressure_size < 1:
        raise ValueError(f"Cannot run {backpressure_size} tasks at a time. Pass a backpressure_size of 1 or more.")
    return _mapped(fn, iter(items), backpressure_size)


def _mapped(fn: RemoteFunction[Any], items: Iterator[Any], limit: int | None) -> Iterator[Any]:
    waiting: dict[concurrent.futures.Future[Any], ObjectRef[Any]] = {}
    while True:
        for each in islice(items, None if limit is None else limit - len(waiting)):
            ref = fn.remote(each)
            waiting[ref.source] = ref
        if not waiting:
            return
        ended, _ = concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_COMPLETED)
        for future in ended:
            yield waiting.pop(future).value()
