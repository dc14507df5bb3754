"""The futures behind those of an event loop: calls that have futures as arguments, or whose futures are arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from scaler.asynchronous.loading import considerate
from scaler.client.actors import ActorCall
from scaler.client.future import ScalerFuture, cancel_futures
from scaler.core.effects import Finish
from scaler.core.outcome import CANCELLED, Outcome
from scaler.utility.exceptions import ClientQuitException
from scaler.utility.private_apis import FINISHED

if TYPE_CHECKING:
    from scaler.shell.client_io import ClientIO

T = TypeVar("T")


class TaskFront(Protocol):
    """The future of an event loop that stands in front of a task."""

    def note_end(self, task: LoopTask[Any]) -> None:
        """The task has ended. Any thread may call this, more than once."""


class LoopTask(ScalerFuture[T]):
    """Tells its front that it has ended. Large results are loaded with regard to the event loop."""

    _front: TaskFront | None = None

    def attach(self, front: TaskFront) -> None:
        """Tell ``front`` of the end, now if it has come."""
        with self._client_io.lock:
            self._front = front
            if not self.is_unsettled:
                self._tell_front()

    def end_with(self, result: Any, error: BaseException | None, outcome: Outcome | None) -> None:
        """End like a future that has ended before, and whose result is here."""
        self._result, self._exception, self._outcome = result, error, outcome
        self._loaded, self._state = True, FINISHED

    def settle(self, outcome: Outcome) -> bool:
        if not super().settle(outcome):
            return False
        self._tell_front()
        return True

    def finish(self, outcome: Outcome) -> None:
        super().finish(outcome)
        self._tell_front()

    def set_exception(self, exception: BaseException | None) -> None:
        super().set_exception(exception)
        self._tell_front()

    def _tell_front(self) -> None:
        front = self._front
        if front is not None:
            front.note_end(self)
            self._front = None  # afterwards: if it is interrupted, it is repeated

    def withdraw(self) -> None:
        """Within a turn: cancel the task, also one that another thread is about to send or has just sent."""
        super().withdraw()
        if self.task_range is not None:
            self._client_io.session.endings.cancel(self.task_range, self.task_index)
        elif self.is_unsettled and not self.settle(CANCELLED):
            self._client_io.notices.append(Finish(self, CANCELLED))

    @property
    def _loads_object(self) -> Callable[[Any], Any]:
        return considerate(self._client_io.loads_object)


class PureTask(LoopTask[T]):
    """The task of a call with ``pure=True`` whose arguments another thread pickles. If an equal call exists, this
    follows its task, the leader, and no task is sent for it."""

    _leader: ScalerFuture[T] | None = None

    def follow(self, leader: ScalerFuture[T]) -> None:
        """End as the leader does, unless this has been cancelled before."""
        with self._client_io.lock:
            if self.is_settled():
                return
            self._leader = leader
            self.task_range, self.task_index = leader.task_range, leader.task_index
        leader.add_done_callback(self._end_like)

    def _end_like(self, leader: ScalerFuture[T]) -> None:
        outcome = leader._outcome
        self.task_range, self.task_index, self._blamed = leader.task_range, leader.task_index, leader._blamed
        if outcome is None:
            self.set_exception(leader.exception())
            return
        if leader._loaded:  # read after the outcome, which then may have no bytes
            self._result, self._exception, self._loaded = leader._result, leader._exception, True
        if not self.settle(outcome):
            self.finish(outcome)

    def _load(self, timeout: float | None) -> None:
        leader = self._leader
        if leader is None or leader.cancelled():
            super()._load(timeout)
            return
        leader.load()  # a large result is fetched once
        self._result, self._exception, self._outcome = leader._result, leader._exception, leader._outcome
        self._loaded = True

    def withdraw(self) -> None:
        """Within a turn: cancel the one task of these calls."""
        if self._leader is not None:
            self._leader.withdraw()
        if not self.is_settled():
            super().withdraw()


class LoopActorCall(LoopTask[T], ActorCall[T]):
    """The call of an actor."""


def send_unless_settled(client_io: ClientIO, future: ScalerFuture[Any], send: Callable[[], object]) -> None:
    """Send a call, in another thread. It may have been cancelled before, or meanwhile. Its failure is the future's."""
    if future.is_settled():
        return
    try:
        send()
    except ClientQuitException:  # closed meanwhile, as if the call had been sent before
        if not future.settle(CANCELLED):
            future.finish(CANCELLED)
    except BaseException as error:
        future.set_exception(error)
    if future.is_settled():
        cancel_futures(client_io, (future,))
