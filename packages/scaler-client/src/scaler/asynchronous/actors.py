"""Actors for coroutines: the calls of their methods are awaited."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from scaler.asynchronous.future import AsyncFuture
from scaler.asynchronous.sizes import are_large
from scaler.asynchronous.tasks import LoopActorCall, send_unless_settled
from scaler.client.late_calls import LateCall
from scaler.client.outcomes import hide_frames

if TYPE_CHECKING:
    from scaler.asynchronous.loop_link import LoopLink
    from scaler.client.actors import ActorHandle, ActorMethod
    from scaler.client.future import ScalerFuture, UnsentCall

T = TypeVar("T")


class AsyncActorMethod(Generic[T]):
    """A method of an actor. A call starts at once and returns a future."""

    __slots__ = ("_method", "_link")

    def __init__(self, method: ActorMethod[T], link: LoopLink) -> None:
        self._method = method
        self._link = link

    def __call__(self, *args: Any, **kwargs: Any) -> AsyncFuture[T]:
        link = self._link
        link.check()
        try:
            is_large = are_large((*args, *kwargs.values()))
            task = self._method.submit(args, kwargs, LoopActorCall, self._send_later if is_large else None)
        except BaseException as error:
            hide_frames(error)
            raise
        future: AsyncFuture[T] = AsyncFuture.of_task(link, task)
        link.note_wait(future)
        return future

    def _send_later(
        self, name: str, future: ScalerFuture[Any], send: Callable[[], object], predecessor: UnsentCall | None
    ) -> None:
        link = self._link
        call = LateCall(link.client_io, name, future, predecessor)
        link.start_call(partial(call.run, partial(send_unless_settled, link.client_io, future, send)))

    def __repr__(self) -> str:
        return repr(self._method)


class AsyncActorHandle(Generic[T]):
    """An actor of class ``T``. Its methods return futures of the results, which are awaited. All else is as with
    :class:`~scaler.client.actors.ActorHandle`, which tasks get if this is an argument of theirs."""

    __slots__ = ("_handle", "_link", "__weakref__")

    def __init__(self, handle: ActorHandle[T], link: LoopLink) -> None:
        self._handle = handle
        self._link = link

    def __getattr__(self, name: str) -> AsyncActorMethod[Any]:
        return AsyncActorMethod(getattr(self._handle, name), self._link)

    def kill(self) -> None:
        """End the actor now. Unfinished calls, and later ones, raise ActorDiedError."""
        self._link.check()
        self._handle.kill()

    def __reduce__(self) -> tuple[Any, ...]:
        return self._handle.__reduce__()

    def __repr__(self) -> str:
        return repr(self._handle)
