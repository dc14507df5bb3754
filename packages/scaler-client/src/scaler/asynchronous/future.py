"""The futures of an event loop: those of tasks, and those of answers."""

from __future__ import annotations

import asyncio
import concurrent.futures
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from scaler.asynchronous.loading import considerate
from scaler.client.future import ProfilingInfo
from scaler.client.outcomes import failure_of, unloadable
from scaler.core.outcome import Outcome
from scaler.shell.interruptions import is_interruption
from scaler_protocol.messages import Status

if TYPE_CHECKING:
    from scaler.asynchronous.loop_link import LoopLink
    from scaler.core.runs import AnyRange

T = TypeVar("T")
_LARGE = int(Status.SUCCESS_LARGE)
_new_tuple = tuple.__new__  # an Outcome without the Python call that its constructor is


class _LoopFuture(asyncio.Future[T]):
    """A sink of the session that passes its outcome to the event loop."""

    def __init__(self, link: LoopLink) -> None:
        super().__init__(loop=link.loop)
        self._link = link

    def settle(self, outcome: Outcome) -> bool:
        link = self._link
        link.ended.append((self, outcome))
        if not link.is_woken:
            link.wake()
        return True

    def finish(self, outcome: Outcome) -> None:
        """Not called: ``settle`` always takes the outcome."""

    def take(self, outcome: Outcome) -> None:
        """End with this outcome, in the loop, unless this was cancelled meanwhile."""
        raise NotImplementedError


class AnswerFuture(_LoopFuture[Outcome]):
    """The outcome of one request to the scheduler."""

    def take(self, outcome: Outcome) -> None:
        if not self.done():
            self.set_result(outcome)


class AsyncFuture(_LoopFuture[T]):
    """The :class:`asyncio.Future` of a task: await it, or pass it to ``asyncio.gather``, ``wait`` and the like. The
    task is cancelled when the future is, and when a coroutine that awaits it is."""

    task_range: AnyRange | None = None
    task_index = 0
    _profile: Outcome | None = None

    def cancel(self, msg: Any = None) -> bool:
        """Cancel the task. One that has not started never runs; a running one is interrupted."""
        if not super().cancel(msg):
            return False
        self._link.cancel(self)
        return True

    def profiling_info(self) -> ProfilingInfo:
        """Raises ValueError before the task has finished."""
        profile = self._profile
        if profile is None:
            raise ValueError("The task has not finished: there is no profiling information yet.")
        profiled = self.task_range is not None and self.task_range.shape.options.profiling
        peak = profile.memory_peak if profiled else None
        return ProfilingInfo(profile.duration_us, profile.cpu_time_us / 1e6, peak)

    @property
    def task_id(self) -> int:
        """The number of the task within its client; 0 until the task has been sent."""
        return self.task_range.first + self.task_index if self.task_range is not None and self.task_range.first else 0

    def __reduce__(self) -> NoReturn:
        raise TypeError("Cannot send a future to a task: it belongs to an event loop. Await it and pass its result.")

    # ---- a sink of the session -------------------------------------------------------------------------------------

    def is_settled(self) -> bool:
        return self.done()

    def withdraw(self) -> None:
        """Within a turn: cancel the task of a future that is cancelled, or that no caller has."""
        entry = self.task_range
        if entry is not None:
            self._link.client_io.session.endings.cancel(entry, self.task_index)

    # ---- in the loop -----------------------------------------------------------------------------------------------

    def take(self, outcome: Outcome) -> None:
        """A small result is loaded here. A large one is fetched and loaded in another thread."""
        if self.done():  # a large result is released with the outcome
            return
        status, payload, duration_us, cpu_time_us, memory_peak = outcome
        if status == _LARGE:
            self._link.start(partial(self._fetch, outcome))
            return
        if status:
            self._profile = outcome
            self.fail(failure_of(outcome))
            return
        loads = self._link.client_io.loads
        try:
            result = loads(payload)
        except BaseException as error:
            if is_interruption(error, partial(loads, payload)):
                raise
            self.fail(unloadable(error))
        else:
            self._profile = _new_tuple(Outcome, (status, b"", duration_us, cpu_time_us, memory_peak))
            self.set_result(result)

    def fail(self, error: BaseException) -> None:
        """End with ``error``, unless this has ended."""
        if isinstance(error, concurrent.futures.CancelledError):
            super().cancel()
        elif not self.done():
            self.set_exception(awaitable_error(error))

    def _complete(self, result: Any, outcome: Outcome) -> None:
        if not self.done():
            self._profile = outcome._replace(payload=b"")
            self.set_result(result)

    # ---- in another thread -----------------------------------------------------------------------------------------

    def _fetch(self, outcome: Outcome) -> None:
        if self.done():
            return
        client_io, post = self._link.client_io, self._link.post
        try:
            fetched = client_io.fetch(outcome.payload).wait()
        except Exception as error:
            post(partial(self.fail, error))
            return
        if fetched.status:
            post(partial(self.fail, failure_of(fetched)))
            return
        loads = client_io.loads if type(fetched.payload) is bytes else considerate(client_io.loads_object)
        try:
            result = loads(fetched.payload)
        except BaseException as error:
            post(partial(self.fail, unloadable(error)))
        else:
            post(partial(self._complete, result, outcome))


def awaitable_error(error: BaseException) -> BaseException:
    """``error``, or a RuntimeError in place of a StopIteration, which would end the coroutine that awaits it."""
    if not isinstance(error, StopIteration):
        return error
    replaced = RuntimeError("The task raised StopIteration.")
    replaced.__cause__ = error
    return replaced
