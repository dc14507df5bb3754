"""Values of the whole cluster that have a name: the common part of events and variables."""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING

from scaler.client.named import NamedObject, check_answer, left, task_of
from scaler.core.named_calls import CallState, Named, NamedCall
from scaler.shell.waiting import PendingAnswer, Waits
from scaler.utility.exceptions import DisconnectedError, ScalerError
from scaler_protocol.messages import CoordinationKind, NamedAction

if TYPE_CHECKING:
    from scaler.core.session import Session
    from scaler.shell.client_io import ClientIO


class NamedValue(NamedObject):
    """What events and variables have in common."""

    kind: CoordinationKind

    def _call(self, action: NamedAction, value: bytes = b"") -> NamedCall:
        """Make a request that the scheduler answers without waiting for other clients."""
        return self._wait_for(action, None, value)

    def _wait_for(self, action: NamedAction, deadline: float | None, value: bytes = b"") -> NamedCall:
        """Make a request, and wait until it is done or the time is over. Raises ScalerError if it fails."""
        client_io = self._client_io_to_wait()
        answer = PendingAnswer(client_io, Waits.NOT_AT_ALL)
        call = NamedCall(Named(self.kind, self.name), action, value, task_of(client_io), answer)
        try:
            client_io.take_turn(lambda session: session.named.start(call))
            check_answer(answer.wait())
            if call.state is CallState.WAITING and not self._await(client_io, call, deadline):
                self._leave(client_io, call)
        except BaseException:
            client_io.take_turn(lambda session: session.named.give_up(call), must_be_usable=False)
            raise
        return self._checked(call)

    def _await(self, client_io: ClientIO, call: NamedCall, deadline: float | None) -> bool:
        """Returns whether the call has changed in time. Meanwhile the worker is lent to other tasks."""
        change = PendingAnswer(client_io, Waits.FOR_A_LOCK)
        client_io.take_turn(lambda session: session.named.await_change(call, change), must_be_usable=False)
        try:
            check_answer(change.wait(left(deadline)))
        except TimeoutError as error:
            if isinstance(error, DisconnectedError):
                raise
            return False
        return True

    def _leave(self, client_io: ClientIO, call: NamedCall) -> None:
        """The time is over. The request may be done nevertheless: the scheduler knows."""
        answer = PendingAnswer(client_io, Waits.NOT_AT_ALL)

        def leave(session: Session) -> None:
            session.named.give_up(call, answer)

        client_io.take_turn(leave, must_be_usable=False)
        check_answer(answer.wait())

    def _checked(self, call: NamedCall) -> NamedCall:
        if call.state is CallState.FAILED or call.text:
            raise ScalerError(f"Cannot use the {self.noun} {self.name!r}: {call.text}")
        return call


def deadline_of(timeout: float | None) -> float | None:
    """When ``timeout`` seconds from now are over. Raises TypeError or ValueError if they are not a duration."""
    if timeout is None:
        return None
    if math.isnan(timeout):
        raise ValueError("The timeout is not a number.")
    return time.monotonic() + min(max(timeout, 0.0), threading.TIMEOUT_MAX)
