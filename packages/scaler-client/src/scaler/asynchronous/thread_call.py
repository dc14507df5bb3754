"""A call that waits in a thread of its own, for an event loop: the cancellation of the awaiting task ends the wait."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from scaler.asynchronous.future import awaitable_error
from scaler_protocol.command.threads import lack_of_thread

if TYPE_CHECKING:
    from scaler.asynchronous.loop_link import LoopLink

T = TypeVar("T")
_current: contextvars.ContextVar[Abort] = contextvars.ContextVar("scaler_abort")


class Abort:
    """Ends the wait of a thread. ``arm`` tells how that is done, as soon as the thread can wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._action: Callable[[], object] | None = None
        self._is_aborted = False

    def arm(self, action: Callable[[], object]) -> None:
        """Raises CancelledError if the call has been aborted already."""
        with self._lock:
            self._action = action
            if self._is_aborted:
                raise CancelledError()

    def abort(self) -> None:
        with self._lock:
            self._is_aborted = True
            action = self._action
        if action is not None:
            action()


def arm(action: Callable[[], object]) -> None:
    """Let ``action`` end the wait that follows, in the thread of a call."""
    _current.get().arm(action)


async def call_in_thread(link: LoopLink, work: Callable[[], T]) -> T:
    """Await ``work``, which runs in a new thread, because it may wait for long. Its wait ends if this is cancelled."""
    ended: asyncio.Future[T] = link.loop.create_future()
    abort = Abort()

    def end(error: BaseException | None, result: Any) -> None:
        if ended.done():
            return
        if isinstance(error, CancelledError):
            ended.cancel()
        elif error is not None:
            ended.set_exception(awaitable_error(error))
        else:
            ended.set_result(result)

    def run() -> None:
        _current.set(abort)
        try:
            result = work()
        except BaseException as error:
            link.post(partial(end, error, None))
        else:
            link.post(partial(end, None, result))

    context = contextvars.copy_context()
    _start(partial(context.run, run))
    try:
        return await ended
    except asyncio.CancelledError:
        abort.abort()
        raise


def _start(run: Callable[[], None]) -> None:
    try:
        threading.Thread(target=run, name="scaler-async-call", daemon=True).start()
    except RuntimeError as error:
        raise RuntimeError(f"Cannot start a thread for this call: {lack_of_thread(error)}") from error
