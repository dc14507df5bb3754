"""Calls whose arguments another thread pickles, while later calls of the same actor wait behind them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from scaler.client.future import CallFollower, ScalerFuture, UnsentCall
from scaler.client.inputs import attempt_all
from scaler.core.outcome import Outcome
from scaler.core.session import Session

if TYPE_CHECKING:
    from scaler.shell.client_io import ClientIO


class LateCall:
    """A call until it has been sent, or has become one that waits for its inputs. ``future`` is that of the call."""

    def __init__(
        self,
        client_io: ClientIO,
        function_name: str,
        future: ScalerFuture[Any],
        predecessor: UnsentCall | None,
    ) -> None:
        self._client_io = client_io
        self._function_name = function_name
        self._future = future
        self.predecessor = predecessor
        self.is_over = False
        self._followers: list[CallFollower] = []
        future.held_call = self

    @property
    def function_name(self) -> str:
        return self._function_name

    def explain(self) -> str:
        return f"The call of {self._function_name}() has not left the client: its arguments are being pickled."

    def run(self, send: Callable[[], object]) -> None:
        """Send the call with ``send``, which raises nothing, and let those behind it follow."""
        try:
            send()
        finally:
            with self._client_io.lock:
                self._end()
            followers, self._followers = self._followers, []
            attempt_all([call for follower in followers for call in follower.advance()])

    def _end(self) -> None:
        """Name the call for which those behind it must wait: it may wait for inputs now, or not have been sent."""
        future = self._future
        if future.held_call is not None and future.held_call is not self:
            self.predecessor = future.held_call
        elif future.task_range is not None:
            self.predecessor = None
        self.is_over = True  # last: other threads look at it without the lock
        if future.held_call is self:
            future.held_call = None

    def follow(self, follower: CallFollower) -> None:
        self._followers.append(follower)

    def end(self, outcome: Outcome) -> bool:
        """The thread that pickles the arguments finds the future ended, and does not send the call."""
        if self._future.is_settled():
            return False
        if not self._future.settle(outcome):
            self._future.finish(outcome)
        return True

    def withdraw(self, session: Session) -> None:
        """The future ends itself: it has no task yet."""
