"""``ray.util.ActorPool``: calls of several actors, of which each has one call at a time."""

from __future__ import annotations

import concurrent.futures
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from scaler.compat.ray.actor_classes import RayActorHandle
from scaler.compat.ray.object_refs import ObjectRef

Call = Callable[[RayActorHandle, Any], ObjectRef[Any]]
"""Submits the call of a value to an actor."""


class ActorPool:
    """A pool of actors. An actor whose call has ended gets the next one when a method of the pool is called."""

    def __init__(self, actors: Iterable[RayActorHandle]) -> None:
        self._idle = list(actors)
        self._busy: dict[ObjectRef[Any], RayActorHandle] = {}
        self._results: dict[int, ObjectRef[Any]] = {}
        self._queued: deque[tuple[int, Call, Any]] = deque()
        self._submitted = 0
        for actor in self._idle:
            _check_is_actor(actor)

    # ---- calls -------------------------------------------------------------------------------------------------------

    def submit(self, fn: Call, value: Any) -> None:
        """Call ``fn(actor, value)``, which returns an ObjectRef, as soon as an actor is idle."""
        self._queued.append((self._submitted, fn, value))
        self._submitted += 1
        self._advance()

    def map(self, fn: Call, values: Iterable[Any]) -> Iterator[Any]:
        """Submit a call for each of the values, and yield the results in order. Earlier results are dropped."""
        self._submit_all(fn, values)
        return self._iterate(self.get_next)

    def map_unordered(self, fn: Call, values: Iterable[Any]) -> Iterator[Any]:
        """Like ``map``, but yield the results as the calls end."""
        self._submit_all(fn, values)
        return self._iterate(self.get_next_unordered)

    def _submit_all(self, fn: Call, values: Iterable[Any]) -> None:
        self._results.clear()
        self._queued.clear()
        for value in values:
            self.submit(fn, value)

    def _iterate(self, get_next: Callable[[], Any]) -> Iterator[Any]:
        while self.has_next():
            yield get_next()

    # ---- results -----------------------------------------------------------------------------------------------------

    def has_next(self) -> bool:
        """Return whether there are results that were not taken, or will be."""
        return bool(self._results or self._queued)

    def get_next(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:
        """Return the next result in the order of submission. Raises TimeoutError after ``timeout`` seconds; with
        ``ignore_if_timedout``, that result is dropped. Raises StopIteration if there are no more."""
        return self._take(self._first_if_ended, timeout, ignore_if_timedout)

    def get_next_unordered(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:
        """Like ``get_next``, but return the result of any call that has ended."""
        return self._take(self._any_that_ended, timeout, ignore_if_timedout)

    def _take(self, choose: Callable[[], int | None], timeout: float | None, drops: bool) -> Any:
        if not self.has_next():
            raise StopIteration("No more results to get")
        end = None if timeout is None else time.monotonic() + timeout
        self._advance()
        while (number := choose()) is None:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                if drops:
                    self._drop_first()
                raise TimeoutError(f"No call of the pool has ended within {timeout} s.")
            if not self._busy:
                raise ValueError("Cannot get a result: the pool has no actor to compute it. push() one.")
            concurrent.futures.wait([ref.source for ref in self._busy], left, concurrent.futures.FIRST_COMPLETED)
            self._advance()
        return self._results.pop(number).value()

    def _first_if_ended(self) -> int | None:
        number = next(iter(self._results), None)
        return number if number is not None and self._results[number].source.done() else None

    def _any_that_ended(self) -> int | None:
        return next((number for number, ref in self._results.items() if ref.source.done()), None)

    def _drop_first(self) -> None:
        if self._results:
            del self._results[next(iter(self._results))]
        else:
            self._queued.popleft()

    # ---- actors ------------------------------------------------------------------------------------------------------

    def has_free(self) -> bool:
        """Return whether an actor is idle and no call waits for one."""
        self._advance()
        return bool(self._idle) and not self._queued

    def pop_idle(self) -> RayActorHandle | None:
        """Remove an idle actor from the pool, and return it. None: there is none."""
        return self._idle.pop() if self.has_free() else None

    def push(self, actor: RayActorHandle) -> None:
        """Add an actor. Raises ValueError if the pool has it."""
        _check_is_actor(actor)
        if actor in self._idle or actor in self._busy.values():
            raise ValueError("Cannot add the actor: it belongs to this pool already.")
        self._idle.append(actor)
        self._advance()

    def _advance(self) -> None:
        """Give calls that wait to actors whose calls have ended."""
        for ref in [ref for ref in self._busy if ref.source.done()]:
            self._idle.append(self._busy.pop(ref))
        while self._idle and self._queued:
            number, fn, value = self._queued.popleft()
            actor = self._idle.pop(0)
            try:
                ref = fn(actor, value)
                if not isinstance(ref, ObjectRef):
                    raise TypeError(f"Cannot wait for {ref!r}: the function must return what .remote() returned.")
            except BaseException:
                self._idle.append(actor)
                raise
            self._busy[ref] = actor
            self._results[number] = ref


def _check_is_actor(actor: object) -> None:
    if not isinstance(actor, RayActorHandle):
        raise TypeError(f"Cannot use {actor!r} in a pool: it is not the handle of an actor.")
