"""The future of one task."""

from __future__ import annotations

import concurrent.futures
import logging
import threading
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

from scaler.client.object_reference import ObjectReference
from scaler.client.outcomes import cancelled, failure_of, unloadable
from scaler.client.representations import table
from scaler.core.effects import Finish
from scaler.core.large_results import LargeResult
from scaler.core.outcome import CANCELLED, Outcome, Sink
from scaler.core.runs import TaskSink
from scaler.shell.interruptions import is_interruption
from scaler.shell.waiting import PendingAnswer
from scaler.utility.exceptions import MissingObjects
from scaler.utility.private_apis import (
    CANCELLED_AND_NOTIFIED,
    FINISHED,
    RUNNING,
    invoke_callbacks,
    runs_event_loop,
)
from scaler_protocol.messages import Status

if TYPE_CHECKING:
    from scaler.core.runs import AnyRange, TaskSink
    from scaler.core.session import Session
    from scaler.shell.client_io import ClientIO

T = TypeVar("T")


class CallFollower(Protocol):
    """A call, or a thread, that waits until another call has been sent or has ended."""

    def advance(self) -> list[Any]:
        """Take note that the other call is over. Returns the calls to attempt now."""


class UnsentCall(Protocol):
    """A call that waits in the client for other futures, which are its arguments, or until these are pickled.
    ``predecessor``: a call that must be sent before it; None: there is none, or this call was sent itself."""

    predecessor: UnsentCall | None

    @property
    def is_over(self) -> bool:
        """Whether it has been sent or has ended."""

    @property
    def function_name(self) -> str: ...

    def explain(self) -> str:
        """Return a sentence on what it waits for. The caller holds the lock of the client."""

    def follow(self, follower: CallFollower) -> None:
        """Tell ``follower`` when it has been sent or has ended. The caller holds the lock of the client."""

    def end(self, outcome: Outcome) -> bool:
        """End its future. False: it was sent or has ended before."""

    def withdraw(self, session: Session) -> None:
        """Within a turn: cancel it."""


def first_unsent(call: UnsentCall | None) -> UnsentCall | None:
    """``call``, or if it is over, the one that its followers must wait for instead: it may have ended unsent."""
    while call is not None and call.is_over:
        call = call.predecessor
    return call


class FutureInArgument(TypeError):
    """A future was serialized. ``submit`` catches this to send the result of the future in its place."""


FUTURE_TYPES: set[type] = set()
"""The types of arguments that are futures, as far as that can be told without serializing them."""

REFERENCE_TYPES: set[type] = {ObjectReference}
"""The types of arguments that stand for a value elsewhere: futures, and references."""

_logger = logging.getLogger("concurrent.futures")
_CANCELLED = int(Status.CANCELLED)
_RELEASED = Outcome(Status.SUCCESS, b"")
_new_tuple = tuple.__new__  # an Outcome without the Python call that its constructor is


def note_future_type(kind: type) -> None:
    """Objects of this class are futures where they are arguments."""
    FUTURE_TYPES.add(kind)
    REFERENCE_TYPES.add(kind)


@dataclass(frozen=True, slots=True)
class ProfilingInfo:
    """The resources that the task used while it ran. ``memory_peak`` is None unless profiling was requested."""

    duration_us: int
    cpu_time_s: float
    memory_peak: int | None = None

    @property
    def duration_s(self) -> float:
        return self.duration_us / 1e6

    @property
    def peak_memory(self) -> int | None:
        return self.memory_peak


class ScalerFuture(concurrent.futures.Future[T]):
    """A :class:`concurrent.futures.Future` of a result of type ``T``, which can also be awaited. Its state is running
    right after ``submit``. The result is loaded when it is first requested; a large result is fetched then.

    Usually only one thread requests the result, so the condition is made when something else needs it: a second thread,
    a callback, or ``concurrent.futures.wait``."""

    _state: str = RUNNING
    _result: Any = None
    _exception: BaseException | None = None
    _lazy_condition: threading.Condition | None = None
    _outcome: Outcome | None = None
    _answer: PendingAnswer | None = None
    task_range: AnyRange | None = None
    task_index: int = 0
    _done_callbacks: Any = None
    _loaded = False
    _waits_in_task = False
    held_call: UnsentCall | None = None
    """The call of this future, while it waits here for other futures that are its arguments."""

    unsent_uses = 0
    """The number of calls with this argument that wait here. The lock of the client is held to change it."""

    _is_given_up = False

    _blamed: str = ""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        note_future_type(cls)

    def __init__(self, client_io: ClientIO) -> None:  # does not call its base, which makes the condition
        self._client_io = client_io

    # ---- concurrent.futures --------------------------------------------------------------------------------------

    def result(self, timeout: float | None = None) -> T:
        """Raises what the task raised, TimeoutError, or CancelledError. Ctrl-C (KeyboardInterrupt) cancels the task."""
        if not self._loaded:
            try:
                self._load(timeout)
            except KeyboardInterrupt:
                self.note_interrupted_wait()
                raise
        if self._exception is not None:
            try:
                raise self._exception
            except BaseException as error:
                error.__traceback__ = None  # neither this frame nor those of an earlier call
                raise
            finally:
                self = None  # type: ignore[assignment]  # no cycle through the traceback
        return self._result

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the exception, or None. A large result is not fetched for this, so ``result`` may still fail to load
        it. In a thread that runs an event loop it is fetched: asyncio calls this before ``result`` and cannot handle a
        failure there."""
        try:
            if not self._loaded and not (self._is_large(timeout) and not runs_event_loop()):
                self._load(timeout)
        except KeyboardInterrupt:
            self.note_interrupted_wait()
            raise
        return self._exception

    def done(self) -> bool:
        if self._state is RUNNING:
            self._client_io.glance()
        return self._state is not RUNNING

    def running(self) -> bool:
        return not self.done()

    def cancelled(self) -> bool:
        return self.done() and self._state is not FINISHED

    def cancel(self, running: bool = True) -> bool:
        """Cancel the task, and return whether it is cancelled. A queued task never runs.

        ``running=True``: a running task is interrupted. Returns at once, and True unless the task has finished.

        ``running=False``: a running task continues. The cluster is asked whether the task has started, which takes a
        round trip. Returns False if the task has started or there is no answer within 5 s."""
        client_io = self._client_io
        if self._state is not RUNNING:
            return self._state is not FINISHED
        client_io.check_usable()
        if not running:
            return self._cancel_unstarted()
        if client_io.defers(self.cancel):
            return True
        if self.held_call is not None and self.held_call.end(CANCELLED):
            return True
        must_finish = client_io.take_turn(lambda session: self._end_task() and not self.settle(CANCELLED))
        if must_finish:
            self.finish(CANCELLED)
        return self._state is not RUNNING and self._state is not FINISHED

    def _cancel_unstarted(self) -> bool:
        cancel_unstarted(self._client_io, (self,))
        return self._state is not RUNNING and self._state is not FINISHED

    def note_interrupted_wait(self) -> None:
        """A call that waited for this future was left by Ctrl-C."""
        self.cancel()

    def note_started(self) -> None:
        """The cluster has said that the task cannot be cancelled any more without an interruption."""

    def withdraw(self) -> None:
        """Within a turn: cancel the task of a future that no caller has."""
        if self.held_call is not None:
            self.held_call.withdraw(self._client_io.session)
        elif self._end_task() and not self.settle(CANCELLED):
            self._client_io.notices.append(Finish(self, CANCELLED))

    def _end_task(self) -> bool:
        """Within a turn: end the task. Returns False if it had ended before."""
        entry = self.task_range
        return (
            entry is not None
            and self._state is RUNNING
            and self._client_io.session.endings.cancel(entry, self.task_index)
        )

    def release(self) -> None:
        """Give up the result: the cluster frees it when no call needs it any more, and ``result`` raises
        MissingObjects. The result of a task that has not ended is given up when it ends, and one that calls wait for
        here when they have been sent."""
        if self._state is RUNNING:
            self.add_done_callback(ScalerFuture.release)
        elif self.unsent_uses:
            self._is_given_up = True
        elif self._state is FINISHED:
            self._result, self._exception = None, MissingObjects("The result was released by release().")
            self._loaded = True
            self._outcome = _RELEASED if self._outcome is None else self._outcome._replace(status=0, payload=b"")

    def drop_unsent_use(self) -> None:
        """A call that waited here with this argument is over."""
        self.unsent_uses -= 1
        if self._is_given_up:
            self.release()

    def load(self) -> None:
        """Wait until the task has ended, and load what it returned or raised. A large result is fetched."""
        if not self._loaded:
            self._load(None)

    @property
    def unfetched_bytes(self) -> int | None:
        """The size of a large result whose fetch has not begun; None: the task has not ended."""
        outcome = self._outcome
        if outcome is None:
            return None
        return outcome.payload.size if outcome.status == Status.SUCCESS_LARGE and self._answer is None else 0

    def fetch_ahead(self) -> None:
        """Begin to fetch a large result, if the task has ended."""
        outcome, client_io = self._outcome, self._client_io
        if outcome is None or self._answer is not None or outcome.status != Status.SUCCESS_LARGE or client_io.unusable:
            return
        self._begin_fetch(outcome.payload)

    def add_done_callback(self, fn: Callable[[Any], object]) -> None:
        if self._state is RUNNING:
            if not self._keep_callback(fn):
                super().add_done_callback(fn)
            return
        try:
            fn(self)
        except Exception:
            _logger.exception("exception calling callback for %r", self)

    def _keep_callback(self, fn: Callable[[Any], object]) -> bool:
        """A callback needs no condition while there is none: the lock of the client's I/O, under which the future is
        settled, guards the list. Returns False if there is a condition, or if the future has ended."""
        client_io = self._client_io
        if client_io.is_forked:
            return False
        with client_io.lock:
            if self._lazy_condition is not None or self._state is not RUNNING:
                return False
            is_first = self._done_callbacks is None
            if is_first:
                self._done_callbacks = []
                self._waits_in_task = True
            self._done_callbacks.append(fn)
        if is_first:
            client_io.enter_blocked()
            client_io.background.is_awaited = True
            if client_io.background.dozes:
                client_io.background.wake()
        return True

    def __await__(self) -> Generator[Any, None, T]:
        import asyncio

        return asyncio.wrap_future(self).__await__()

    def __reduce__(self) -> NoReturn:
        raise FutureInArgument(
            "A future can be an argument of a task, also inside of its arguments, but not a part of anything else that "
            "is sent: pass its result()."
        )

    def __repr__(self) -> str:
        called = f" function={self._function_name}" if self._function_name else ""
        return f"<{type(self).__name__} at {id(self):#x} state={self._state.lower()}{called}>"

    def _repr_html_(self) -> str:
        """Return what notebooks show."""
        rows = [("Function", self._function_name), ("State", self._state.lower()), ("Task", str(self.task_id or ""))]
        return table(type(self).__name__, [row for row in rows if row[1]])

    @property
    def _function_name(self) -> str:
        """Empty if no function belongs to the future."""
        if self.task_range is not None:
            return self.task_range.shape.function.name
        return self.held_call.function_name if self.held_call is not None else ""

    # ---- Scaler's own --------------------------------------------------------------------------------------------

    def profiling_info(self) -> ProfilingInfo:
        """Raises ValueError before the task has finished."""
        outcome = self._outcome
        if not self.done() or outcome is None or self._state is not FINISHED:
            raise ValueError("The task has not finished: there is no profiling information yet.")
        profiled = self.task_range is not None and self.task_range.shape.options.profiling
        peak = outcome.memory_peak if profiled else None
        return ProfilingInfo(outcome.duration_us, outcome.cpu_time_us / 1e6, peak)

    @property
    def task_id(self) -> int:
        """The number of the task within its client; 0 until the task has been sent."""
        return self.task_range.first + self.task_index if self.task_range is not None and self.task_range.first else 0

    # ---- a sink of the session, a target of the client's I/O -------------------------------------------------------

    def settle(self, outcome: Outcome) -> bool:
        if self._lazy_condition is not None or self._done_callbacks:
            return False
        self._outcome = outcome
        self._state = FINISHED if outcome[0] != _CANCELLED else CANCELLED_AND_NOTIFIED
        return True

    def finish(self, outcome: Outcome) -> None:
        if not self._finish_without_condition(outcome):
            self._finish_with_condition(outcome)
            return
        if self._waits_in_task:
            self._client_io.leave_blocked()
        invoke_callbacks(self)

    def _finish_without_condition(self, outcome: Outcome) -> bool:
        """End the future if only callbacks wait for it. Returns False if a thread may wait, or if it had ended."""
        with self._client_io.lock:
            if self._lazy_condition is not None or self._state is not RUNNING:
                return False
            self._outcome = outcome
            self._state = FINISHED if outcome[0] != _CANCELLED else CANCELLED_AND_NOTIFIED
            return True

    def _finish_with_condition(self, outcome: Outcome) -> None:
        if self._state is not RUNNING:
            return
        with self._condition:
            if self._state is not RUNNING:
                return
            self._outcome = outcome
            self._state = FINISHED if outcome.status != Status.CANCELLED else CANCELLED_AND_NOTIFIED
            for waiter in self._waiters:
                self._tell(waiter, outcome.status)
            self._condition.notify_all()
        if self._waits_in_task:
            self._client_io.leave_blocked()
        invoke_callbacks(self)

    def set_exception(self, exception: BaseException | None) -> None:
        """End a future whose call could not be sent."""
        super().set_exception(exception)  # which makes the condition, as if a thread waited
        if self._waits_in_task:
            self._client_io.leave_blocked()

    def is_settled(self) -> bool:
        return self._state is not RUNNING

    @property
    def is_unsettled(self) -> bool:
        """True if it is not settled, as far as is known without reading the connection."""
        return self._state is RUNNING

    if not TYPE_CHECKING:  # which expect an attribute, as ``concurrent.futures.wait`` and ``as_completed`` do

        @property
        def _condition(self) -> threading.Condition:
            condition = self._lazy_condition
            return self._make_condition() if condition is None or self._client_io.is_forked else condition

    def _make_condition(self) -> threading.Condition:
        """A caller that needs the condition of an unfinished future is about to wait. If it runs in a task, the task
        lends its slot."""
        condition, made = self._client_io.make_condition(self)
        if made and self._state is RUNNING and not self._waits_in_task:
            self._waits_in_task = True
            self._client_io.enter_blocked()
        return condition

    def prepare_condition(self) -> None:
        self._waiters: list[Any] = []
        self._done_callbacks = self._done_callbacks or []

    def _tell(self, waiter: Any, status: int) -> None:
        if status == Status.CANCELLED:
            waiter.add_cancelled(self)
        elif status in (Status.SUCCESS, Status.SUCCESS_LARGE):
            waiter.add_result(self)
        else:
            waiter.add_exception(self)

    def _is_large(self, timeout: float | None) -> bool:
        """Return whether the task succeeded with a result that stays with its agent until it is requested."""
        if self._state is RUNNING:
            self._client_io.wait(self, timeout)
        return self._outcome is not None and self._outcome.status == Status.SUCCESS_LARGE

    def _load(self, timeout: float | None) -> None:
        if self._state is RUNNING:
            self._client_io.wait(self, timeout)
        if self._state is not FINISHED:
            raise self._with_note(cancelled(self._outcome))
        outcome = self._outcome
        if self._loaded:  # by another thread, just now
            return
        if outcome is None:  # other code called set_result or set_exception
            self._loaded = True
            return
        if outcome.status == Status.SUCCESS_LARGE:
            fetched = self._fetch(outcome.payload, timeout)
            outcome = outcome._replace(status=fetched.status, payload=fetched.payload)
        self._take(outcome)

    def _fetch(self, large: LargeResult, timeout: float | None) -> Outcome:
        if self._answer is None:
            self._client_io.check_usable()
            self._begin_fetch(large)
        assert self._answer is not None
        return self._answer.wait(timeout)

    def _begin_fetch(self, large: LargeResult) -> None:
        client_io = self._client_io
        view = client_io.objects.get(large.key, large.store)

        def begin(session: Session) -> None:
            if self._answer is None:
                self._answer = client_io.begin_fetch(large, view)

        client_io.take_turn(begin)

    @property
    def _loads_object(self) -> Callable[[Any], Any]:
        """Loads a large result."""
        return self._client_io.loads_object

    def _failure(self, outcome: Outcome) -> BaseException:
        return self._with_note(failure_of(outcome))

    def _with_note(self, error: BaseException) -> BaseException:
        return with_note(error, self._blamed)

    def blame(self, culprit: TaskSink) -> None:
        """The task cannot run because ``culprit``, one of its arguments, did not succeed."""
        self._blamed = blame_of(self, culprit)

    def _take(self, outcome: Outcome) -> None:
        status, payload, duration_us, cpu_time_us, memory_peak = outcome
        result: Any = None
        exception: BaseException | None = None
        if not status:  # SUCCESS
            loads = self._client_io.loads if type(payload) is bytes else self._loads_object
            try:
                result = loads(payload)
            except BaseException as error:
                if is_interruption(error, partial(loads, payload)):
                    raise  # not the result's own exception: the result can be requested again
                exception = unloadable(error)
        else:
            exception = self._failure(outcome)
        if self._loaded:  # the first thread that loads wins, so that all get the same object
            return
        self._result, self._exception = result, exception
        self._loaded = True
        kept = payload if status else b""  # of a failure, for tasks that have this future as an argument
        self._outcome = _new_tuple(Outcome, (status, kept, duration_us, cpu_time_us, memory_peak))
        if self._answer is not None:
            self._answer.outcome = self._outcome


note_future_type(ScalerFuture)


def described_call(future: TaskSink) -> str:
    """The call of a future, for a note."""
    entry = future.task_range
    if entry is None:
        held: UnsentCall | None = getattr(future, "held_call", None)
        return f"{held.function_name}()" if held is not None else "a call that was not sent"
    number = f", task {entry.first + future.task_index}" if entry.first else ""
    return f"{entry.shape.function.name}(){number}"


def with_note(error: BaseException, note: str) -> BaseException:
    if note:
        error.add_note(note)
    return error


def blame_of(future: TaskSink, culprit: TaskSink) -> str:
    """The note of a call that cannot run because ``culprit``, one of its arguments, did not succeed."""
    root: str = getattr(culprit, "_blamed", "")
    return root or f"An input of {described_call(future)} did not succeed: {described_call(culprit)}."


def unsent_state(held_call: UnsentCall | None) -> str:
    """Return a sentence on a call that has not left the client. The caller holds the lock of the client."""
    if held_call is not None:
        return held_call.explain()
    return "The task has not left the client yet: the scheduler has not taken what was sent before it."


class CallSink(TaskSink, Protocol):
    """The interface of the future of a call to its client."""

    def withdraw(self) -> None:
        """Within a turn: cancel the task of a future that no caller has."""

    def set_exception(self, exception: Any, /) -> None:
        """End with an exception, because the call could not be sent."""


class InputFuture(TaskSink, Protocol):
    """The interface of a future whose task is an input of a call. ``_loaded``: its result is an object by now, so that
    the outcome has no bytes of it."""

    _outcome: Outcome | None

    @property
    def _client_io(self) -> ClientIO: ...

    @property
    def _loaded(self) -> bool: ...

    def is_settled(self) -> bool:
        """Return whether it has ended."""


def cancel_futures(client_io: ClientIO, futures: Iterable[CallSink]) -> None:
    """Cancel the futures that have not ended, even if a signal handler interrupts the caller. Use this when a call ends
    early: by an exception, by Ctrl-C, or because its iterator is closed."""
    unfinished = list(futures)

    def withdraw(session: Session) -> None:
        for future in unfinished:
            future.withdraw()

    client_io.take_turn_shielded(withdraw)


_ANSWER_SECONDS = 5.0


def ask_to_cancel(client_io: ClientIO, futures: Iterable[ScalerFuture[Any]]) -> dict[int, PendingAnswer]:
    """Cancel the futures whose tasks have not started; nothing is interrupted. Tasks that have not left this client end
    now. Returns answers by the places of the other futures; they come only for tasks that are not cancelled."""
    asked = list(futures)
    answers: dict[int, PendingAnswer] = {}

    def ask(session: Session) -> None:
        requests: dict[int, Sink] = {}
        for place, future in enumerate(asked):
            entry = future.task_range
            if entry is None or future.is_settled():
                continue
            if not entry.left:
                future.withdraw()
                continue
            answers[place] = requests[future.task_id] = PendingAnswer(client_io)
        if requests:
            session.unstarted_cancels.ask(requests)

    if not client_io.unusable and not client_io.is_mine():
        client_io.take_turn(ask)
    return answers


def cancel_unstarted(client_io: ClientIO, futures: Iterable[ScalerFuture[Any]]) -> None:
    """Cancel the futures whose tasks have not started, and wait until it is known which these are, for 5 s at most."""
    asked = list(futures)
    answers = ask_to_cancel(client_io, asked)
    try:
        _await_answers({asked[place]: answer for place, answer in answers.items()})
    except TimeoutError:
        pass
    finally:
        requests: dict[int, Sink] = {asked[place].task_id: answer for place, answer in answers.items()}
        client_io.take_turn_shielded(lambda session: session.unstarted_cancels.withdraw(requests))


def _await_answers(answers: dict[ScalerFuture[Any], PendingAnswer]) -> None:
    """Raises TimeoutError."""
    deadline = time.monotonic() + _ANSWER_SECONDS
    for future, answer in answers.items():
        future.add_done_callback(partial(_end_wait, answer))
        answer.wait(max(0.0, deadline - time.monotonic()))
        if not future.is_settled():
            future.note_started()


def _end_wait(answer: PendingAnswer, future: ScalerFuture[Any]) -> None:
    """The task has ended, and the answer does not matter any more."""
    answer.finish(CANCELLED)
