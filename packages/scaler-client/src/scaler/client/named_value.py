"""Values of the whole cluster that have a name: the common part of events, variables and queues."""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING, Any

from scaler.client.future import FutureInArgument
from scaler.client.named import NamedObject, check_answer, left, task_of
from scaler.client.object_reference import ObjectReference
from scaler.client.serializer import DefaultSerializer
from scaler.core.named_calls import CallState, Named, NamedCall
from scaler.shell.waiting import PendingAnswer, Waits
from scaler.utility.exceptions import DeserializeObjectError, DisconnectedError, ScalerError
from scaler_protocol.messages import NAMED_VALUE_LIMIT_BYTES, CoordinationKind, NamedAction

if TYPE_CHECKING:
    from scaler.core.session import Session
    from scaler.shell.client_io import ClientIO


class NamedValue(NamedObject):
    """The common part of events, variables and queues. ``limit``: the maximum size of a queue."""

    kind: CoordinationKind
    limit = 0

    def _call(self, action: NamedAction, value: bytes = b"") -> NamedCall:
        """Make a request that the scheduler answers without waiting for other clients."""
        return self._wait_for(action, None, value)

    def _wait_for(self, action: NamedAction, deadline: float | None, value: bytes = b"") -> NamedCall:
        """Make a request, and wait until it is done or the time is over. Raises ScalerError if it fails."""
        call = self._new(action, value)
        self._finish(call, deadline)
        return call

    def _new(self, action: NamedAction, value: bytes = b"") -> NamedCall:
        return NamedCall(Named(self.kind, self.name, self.limit), action, value, None, None)

    def _finish(self, call: NamedCall, deadline: float | None) -> None:
        """See ``_wait_for``. Given up after an exception, unless the request was done."""
        client_io = self._client_io_to_wait()
        answer = PendingAnswer(client_io, Waits.NOT_AT_ALL)
        call.task, call.sink = task_of(client_io), answer
        try:
            client_io.take_turn(lambda session: session.named.start(call))
            check_answer(answer.wait())
            if call.state is CallState.WAITING and not self._await(client_io, call, deadline):
                self._leave(client_io, call)
        except BaseException:
            self._give_up(call)
            raise
        self._checked(call)

    def _give_up(self, call: NamedCall) -> None:
        """An item that was taken returns to its queue."""
        self._client_io().take_turn(lambda session: session.named.give_up(call), must_be_usable=False)

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


def serialized(shared: NamedValue, value: Any) -> bytes:
    """The bytes of a value. Raises ValueError if there are too many, and TypeError for a future or a reference."""
    if isinstance(value, ObjectReference):
        raise TypeError(
            f"Cannot put {value!r} into the {shared.noun} {shared.name!r}: a reference can be used only where it was "
            "made. Pass it to the tasks that need it as an argument."
        )
    try:
        payload = DefaultSerializer.serialize(value)
    except FutureInArgument:
        raise TypeError(
            f"Cannot put a future into the {shared.noun} {shared.name!r}: it belongs to its client. Put its result, or "
            "pass the future to the tasks that need it as an argument."
        ) from None
    if len(payload) > NAMED_VALUE_LIMIT_BYTES:
        raise ValueError(
            f"Cannot put a value of {len(payload)} bytes into the {shared.noun} {shared.name!r}: the limit is "
            f"{NAMED_VALUE_LIMIT_BYTES} bytes. Send it with client.send_object(), and pass the reference to the tasks "
            "that need it as an argument."
        )
    return payload


def loaded(shared: NamedValue, call: NamedCall) -> Any:
    """The value that was read. Raises DeserializeObjectError if it cannot be loaded here."""
    try:
        return DefaultSerializer.deserialize(call.result)
    except Exception as error:
        text = f"The value of the {shared.noun} {shared.name!r} could not be loaded: {type(error).__name__}: {error}"
        raise DeserializeObjectError(text) from error


def deadline_of(timeout: float | None) -> float | None:
    """Return the time ``timeout`` seconds from now. Raises TypeError or ValueError if they are not a duration."""
    if timeout is None:
        return None
    if math.isnan(timeout):
        raise ValueError("The timeout is not a number.")
    return time.monotonic() + min(max(timeout, 0.0), threading.TIMEOUT_MAX)
