"""The futures of an event loop: those of tasks, and those of answers."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

from scaler.asynchronous.tasks import LoopTask
from scaler.client.fronts import FutureFront
from scaler.client.future import FutureInArgument, ProfilingInfo, ScalerFuture, blame_of, with_note
from scaler.client.outcomes import cancelled, failure_of, unloadable
from scaler.core.outcome import CANCELLED, Outcome
from scaler.shell.interruptions import is_interruption
from scaler.utility.private_apis import has_callbacks
from scaler_protocol.messages import Status

if TYPE_CHECKING:
    from scaler.asynchronous.loop_link import LoopLink
    from scaler.client.future import InputFuture, UnsentCall
    from scaler.core.runs import AnyRange, TaskSink
    from scaler.shell.client_io import ClientIO

T = TypeVar("T")
_LARGE = int(Status.SUCCESS_LARGE)
_new_tuple = tuple.__new__  # an Outcome without the Python call that its constructor is


class _LoopFuture(asyncio.Future[T]):
    """A sink of the session that passes its outcome to the event loop."""

    _outcome: Outcome | None = None

    def __init__(self, link: LoopLink) -> None:
        super().__init__(loop=link.loop)
        self._link = link

    def settle(self, outcome: Outcome) -> bool:
        self._outcome = outcome
        link = self._link
        link.ended.append(self)
        if not link.is_woken:
            link.wake()
        return True

    def finish(self, outcome: Outcome) -> None:
        """Not called: ``settle`` always takes the outcome."""

    def take(self) -> None:
        """End with the outcome, in the loop, unless this was cancelled meanwhile."""
        raise NotImplementedError


class AnswerFuture(_LoopFuture[Outcome]):
    """The outcome of one request to the scheduler."""

    def take(self) -> None:
        if not self.done():
            assert self._outcome is not None
            self.set_result(self._outcome)


class AsyncFuture(FutureFront, _LoopFuture[T]):
    """The :class:`asyncio.Future` of a task: await it, pass it to ``asyncio.gather``, ``wait`` and the like, or give it
    as an argument to other tasks of its client, which get the result. The task is cancelled when the future is, and
    when a coroutine that awaits it is.

    A large result stays in the cluster until something awaits the future or asks whether it is done.

    The session knows the future itself, as the sink of its task. If the client must wait for it before it sends a call,
    or for others before it sends this one, a ``LoopTask`` stands behind it and takes its place."""

    task_range: AnyRange | None = None
    task_index = 0
    _behind: ScalerFuture[T] | None = None
    _is_argument = False
    _is_wanted = False
    """Whether a large result is fetched without a request."""

    _blame = ""
    """The note of its exception, if an input of the call did not succeed."""

    _end_callbacks: tuple[Callable[[AsyncFuture[Any]], object], ...] = ()
    """The functions that ``add_end_callback`` was given."""

    _is_large = False
    """Whether the loop knows that the task has ended with a large result."""

    _is_unrequested = False
    """Whether the task has ended with a large result, which nothing has requested."""

    is_fetched = False
    """Whether a large result is here, or on its way. As an argument it is pickled again."""

    _is_over = asyncio.Future.done
    """Return whether this has ended. In contrast to ``done``, it requests nothing."""

    @classmethod
    def of_task(cls, link: LoopLink, task: LoopTask[T]) -> AsyncFuture[T]:
        """A future in front of a task that has been submitted."""
        future = cls(link)
        future._behind = task
        task.attach(future)
        return future

    @classmethod
    def of_scattered(cls, link: LoopLink, scattered: ScalerFuture[T]) -> AsyncFuture[T]:
        """A future in front of a value that has been sent."""
        future = cls(link)
        future._behind = scattered
        future.set_result(scattered.result())
        return future

    def done(self) -> bool:
        if self._is_unrequested:
            self._request()
        return self._is_over()

    def add_done_callback(self, fn: Callable[[Any], object], *, context: Context | None = None) -> None:
        if self._is_unrequested:
            self._request()
        super().add_done_callback(fn, context=context)

    def cancel(self, msg: Any = None) -> bool:
        """Cancel the task. One that has not started never runs; a running one is interrupted."""
        if not super().cancel(msg):
            return False
        self._link.cancel(self)
        return True

    def release(self) -> None:
        """Give up the result: the cluster frees it when no call needs it any more, and later calls with this future as
        an argument raise MissingObjects. A result that has been awaited stays here as long as this future."""
        self._is_argument = True
        self._link.after_calls(self.behind().release)

    def profiling_info(self) -> ProfilingInfo:
        """Raises ValueError before the task has finished."""
        sink = self._sink
        outcome, entry = sink._outcome, sink.task_range
        if outcome is None:
            raise ValueError("The task has not finished: there is no profiling information yet.")
        peak = outcome.memory_peak if entry is not None and entry.shape.options.profiling else None
        return ProfilingInfo(outcome.duration_us, outcome.cpu_time_us / 1e6, peak)

    @property
    def task_id(self) -> int:
        """The number of the task within its client; 0 until the task has been sent."""
        entry, index = self._sink.task_range, self._sink.task_index
        return entry.first + index if entry is not None and entry.first else 0

    @property
    def held_call(self) -> UnsentCall | None:
        """The call while it waits in the client for other futures."""
        return None if self._behind is None else self._behind.held_call

    @property
    def has_ended(self) -> bool:
        """Whether the task has ended. Its result may be elsewhere."""
        return self._is_over() or self._sink._outcome is not None

    @property
    def is_known_to_have_ended(self) -> bool:
        """Whether the loop knows that the task has ended. This requests no result."""
        return self._is_large or self._is_over()

    @property
    def is_known_to_have_failed(self) -> bool:
        """Whether the loop knows that the task has ended with an exception. A cancelled one has none."""
        return self._is_over() and not self.cancelled() and self.exception() is not None

    def add_end_callback(self, fn: Callable[[AsyncFuture[Any]], object]) -> None:
        """Call ``fn`` when an unfinished task has ended. Unlike a callback of ``add_done_callback``, it requests no
        large result."""
        self._end_callbacks = (*self._end_callbacks, fn)
        super().add_done_callback(fn)

    def remove_end_callback(self, fn: Callable[[AsyncFuture[Any]], object]) -> None:
        self._end_callbacks = tuple(each for each in self._end_callbacks if each is not fn)
        self.remove_done_callback(fn)

    def __repr__(self) -> str:
        """The state, as asyncio shows it, and the function."""
        name = self._function_name
        return f"{super().__repr__()[:-1]} function={name}>" if name else super().__repr__()

    @property
    def _function_name(self) -> str:
        """Empty if no function belongs to the future."""
        entry, held = self._sink.task_range, self.held_call
        if entry is not None:
            return entry.shape.function.name
        return held.function_name if held is not None else ""

    def __reduce__(self) -> NoReturn:
        raise FutureInArgument(
            "A future can be an argument of a task, also inside of its arguments, but not a part of anything else that "
            "is sent: it belongs to an event loop. Await it, and pass its result."
        )

    # ---- a sink of the session -------------------------------------------------------------------------------------

    def is_settled(self) -> bool:
        return self._is_over()

    def withdraw(self) -> None:
        """Within a turn: cancel the task of a future that is cancelled, or that no caller has."""
        if self._behind is not None:
            self._behind.withdraw()
        elif self.task_range is not None:
            self._link.client_io.session.endings.cancel(self.task_range, self.task_index)

    def blame(self, culprit: TaskSink) -> None:
        """The task cannot run because ``culprit``, one of its arguments, did not succeed."""
        self._blame = blame_of(self, culprit)

    @property
    def _blamed(self) -> str:
        return self._blame if self._behind is None else self._behind._blamed

    # ---- an input of a call ------------------------------------------------------------------------------------------

    def as_input(self) -> InputFuture:
        if self._behind is not None or self._is_over():
            return self.as_argument()
        self._is_argument = True
        return self

    @property
    def _client_io(self) -> ClientIO:
        return self._link.client_io

    @property
    def _loaded(self) -> bool:
        return self._is_over()

    # ---- behind it -------------------------------------------------------------------------------------------------

    @property
    def _sink(self) -> AsyncFuture[T] | ScalerFuture[T]:
        """The future that the session knows."""
        return self if self._behind is None else self._behind

    def behind(self) -> ScalerFuture[T]:
        if self._behind is None:
            with self._link.client_io.lock:
                if self._behind is None:
                    self._behind = self._new_task()
        return self._behind

    def as_argument(self) -> ScalerFuture[T]:
        """A failure reaches whatever awaits the call, so asyncio need not report that nothing awaits this."""
        self._is_argument = True
        if self.cancelled():
            return self._cancelled_task()
        if self._is_over():
            self.exception()
        return self.behind()

    def _new_task(self) -> LoopTask[T]:
        """The future that takes the place of this one in the session, with the lock held."""
        task, outcome = self._empty_task(), self._outcome  # read before the state: the loop may just be taking it
        if self._is_over() and not self.cancelled() and (outcome is None or not outcome.status):
            error = self.exception()
            task.end_with(None if error is not None else self.result(), error, outcome)
        elif self.cancelled():
            task.settle(CANCELLED)
        elif outcome is not None:
            task.settle(outcome)
        else:
            task.attach(self)
            if task.task_range is not None:
                task.task_range.sinks[task.task_index] = task
        return task

    def _cancelled_task(self) -> LoopTask[T]:
        task = self._empty_task()
        task.settle(CANCELLED)
        return task

    def _empty_task(self) -> LoopTask[T]:
        task: LoopTask[T] = LoopTask(self._link.client_io)
        task.task_index, task.task_range = self._sink.task_index, self._sink.task_range
        task._blamed = self._blame
        return task

    def note_end(self, task: ScalerFuture[T]) -> None:
        link = self._link
        link.ended.append(_TaskEnd(self, task))
        if not link.is_woken:
            link.wake()

    # ---- in the loop -----------------------------------------------------------------------------------------------

    def take(self) -> None:
        """A small result is loaded here. A large one is fetched and loaded in another thread."""
        if self._is_over():  # a large result is released with the outcome
            self._outcome = None
            return
        outcome = self._outcome
        assert outcome is not None
        status, payload, duration_us, cpu_time_us, memory_peak = outcome
        if status == _LARGE:
            self.end_like(self.behind())
            return
        if status:
            self.fail(with_note(failure_of(outcome), self._blame))
            return
        loads = self._link.client_io.loads
        try:
            result = loads(payload)
        except BaseException as error:
            if is_interruption(error, partial(loads, payload)):
                raise
            self.fail(unloadable(error))
        else:
            self.set_result(result)  # first: other threads rely on the payload until this has the result
            self._outcome = _new_tuple(Outcome, (status, b"", duration_us, cpu_time_us, memory_peak))

    def end_like(self, task: ScalerFuture[T]) -> None:
        """End like the task behind this, which has ended, if its result is here or small."""
        if self._is_over():
            return
        outcome = task._outcome
        if outcome is not None and outcome.status == _LARGE and not task._loaded:
            self._outcome = None  # the task has it
            self._await_request(task)
        elif task.cancelled():
            self.fail(cancelled(outcome))
        elif (error := task.exception()) is not None:
            self.fail(error)
        else:
            self.set_result(task.result())

    def fail(self, error: BaseException) -> None:
        """End with ``error``, unless this has ended."""
        if isinstance(error, concurrent.futures.CancelledError):
            super().cancel(*error.args)
        elif not self._is_over():
            self.set_exception(awaitable_error(error))
            if self._is_argument:
                self.exception()

    # ---- large results ---------------------------------------------------------------------------------------------

    def _await_request(self, task: ScalerFuture[T]) -> None:
        """Fetch the result when something needs it here."""
        self._is_large = True
        self._link.end_wait(self)
        told = self._end_callbacks
        for fn in told:
            self.remove_end_callback(fn)
        if self._is_wanted or has_callbacks(self):
            self._begin_fetch(task)
        else:
            self._is_unrequested = True
        for fn in told:
            fn(self)

    def _request(self) -> None:
        """The program wants to know when the result is here."""
        self._is_unrequested = False
        if not self._is_over():
            self._begin_fetch(self.behind())

    def _begin_fetch(self, task: ScalerFuture[T]) -> None:
        self.is_fetched = True
        self._link.start(partial(self._fetch, task))

    def _fetch(self, task: ScalerFuture[T]) -> None:
        """Fetch the result. Runs in another thread."""
        if self._is_over():
            return
        try:
            task.load()
        except BaseException as error:
            self._link.post(partial(self.fail, error))
        else:
            self._link.post(partial(self.end_like, task))


class ItemFuture(AsyncFuture[T]):
    """The future of an item of ``imap``, which will be taken."""

    _is_wanted = True


class _TaskEnd(NamedTuple):
    """The end of the task behind a future, until the loop takes it."""

    future: AsyncFuture[Any]
    task: ScalerFuture[Any]

    def take(self) -> None:
        self.future.end_like(self.task)


def awaitable_error(error: BaseException) -> BaseException:
    """``error``, or a RuntimeError in place of a StopIteration, which would end the coroutine that awaits it."""
    if not isinstance(error, StopIteration):
        return error
    replaced = RuntimeError("The task raised StopIteration.")
    replaced.__cause__ = error
    return replaced
