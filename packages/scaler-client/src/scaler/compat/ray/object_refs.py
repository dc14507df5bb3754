"""References to values that tasks return or that ``put`` has sent."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
from collections.abc import Generator
from typing import Any, Generic, TypeVar

from scaler.client.future import ScalerFuture
from scaler.compat.ray.exceptions import ray_error

T = TypeVar("T")
_KEY_SIZE_BYTES = 28


class ObjectRef(Generic[T]):
    """Stands for a value. As an argument of a task it is replaced by the value. Inside another argument it stays a
    reference, and the task may ``get`` it."""

    __slots__ = ("_source", "_task", "_key", "__weakref__")

    def __init__(
        self,
        source: concurrent.futures.Future[T],
        task: concurrent.futures.Future[Any] | None = None,
        key: bytes = b"",
    ) -> None:
        self._source = source
        self._task = task or source
        self._key = key

    @property
    def source(self) -> concurrent.futures.Future[T]:
        """The future of the value."""
        return self._source

    @property
    def task(self) -> concurrent.futures.Future[Any]:
        """The future of the task, which may return several values."""
        return self._task

    @property
    def argument(self) -> Any:
        """The value that replaces this reference as an argument of a task."""
        return self._source if isinstance(self._source, ScalerFuture) else self._source.result()

    def value(self, timeout: float | None = None) -> T:
        """The value. Raises what users of Ray expect, and TimeoutError."""
        if timeout is not None and not self._source.done():
            concurrent.futures.wait((self._source,), timeout)
            if not self._source.done():
                raise TimeoutError
        try:
            return self._source.result()
        except BaseException as error:
            if not self._source.done() or _is_interruption(error):
                raise
            failure = ray_error(error)
        raise failure

    def binary(self) -> bytes:
        """The name of the value, which is the same in tasks."""
        self._key = self._key or os.urandom(_KEY_SIZE_BYTES)
        return self._key

    def hex(self) -> str:
        return self.binary().hex()

    def future(self) -> concurrent.futures.Future[T]:
        """A future of the value with the exceptions of this interface."""
        made: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._source.add_done_callback(lambda source: _transfer(self, made))
        return made

    def __await__(self) -> Generator[Any, None, T]:
        return asyncio.wrap_future(self.future()).__await__()

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, ObjectRef) and self.binary() == other.binary())

    def __hash__(self) -> int:
        return hash(self.binary())

    def __repr__(self) -> str:
        return f"ObjectRef({self.hex()})"

    def __reduce__(self) -> tuple[Any, ...]:
        # The client sends the value in the place of a future.
        return _arrived, (self.binary(), self.argument)


def arrived(ref: ObjectRef[T]) -> ObjectRef[T]:
    """The same reference with its value, which it waits for."""
    return _arrived(ref.binary(), ref.value())


def reduced_with_value(ref: ObjectRef[Any]) -> tuple[Any, ...]:
    """Reduces a reference, for pickles in which the client does not see its future. Waits for the value."""
    return _arrived, (ref.binary(), ref.value())


def _arrived(key: bytes, value: T) -> ObjectRef[T]:
    source: concurrent.futures.Future[T] = concurrent.futures.Future()
    source.set_result(value)
    return ObjectRef(source, key=key)


def _is_interruption(error: BaseException) -> bool:
    """Return whether it belongs to this thread: Ctrl-C, or the cancellation of the task that waits."""
    return not isinstance(error, Exception)


def _transfer(ref: ObjectRef[T], made: concurrent.futures.Future[T]) -> None:
    if not made.set_running_or_notify_cancel():
        return
    try:
        made.set_result(ref.value())
    except BaseException as error:
        made.set_exception(error)
