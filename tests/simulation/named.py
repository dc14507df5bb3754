"""A simulated user of variables, who is the only one of a name: what it has set is there, whatever fails meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from scaler.core.named_calls import CallState, Named, NamedCall
from scaler_protocol.messages import CoordinationKind, NamedAction
from tests.simulation.locks import LockSink

if TYPE_CHECKING:
    from tests.simulation.client import ClientNode

PAUSE_SECONDS = (0.001, 0.5)
ROUNDS = 4


class VariableUser:
    """An application that sets a variable, or clears it, and reads it some time later."""

    def __init__(self, client: ClientNode, number: int) -> None:
        self._client = client
        self._name = f"{client.name} {number}"
        self._rounds = ROUNDS
        self._expected: bytes | None = None
        client.unfinished += 1
        client.post(lambda now: self._change())

    def _change(self) -> None:
        self._expected = None if self._client.world.chance.random() < 0.3 else self._client.world.chance.randbytes(4)
        if self._expected is None:
            self._call(NamedAction.CLEAR)
        else:
            self._call(NamedAction.SET, self._expected)

    def _call(self, action: NamedAction, value: bytes = b"") -> None:
        named = Named(CoordinationKind.VARIABLE, self._name)
        self._now = NamedCall(named, action, value, None, LockSink(self._changed))
        self._client.core.named.start(self._now)

    def _changed(self) -> None:
        call = self._now
        if call.state is CallState.WAITING:
            self._client.core.named.await_change(call, LockSink(self._changed))
        elif call.action == NamedAction.PEEK:
            found = call.result if call.state is CallState.DONE else None
            assert call.state in (CallState.DONE, CallState.ABSENT), (call.state, call.text)
            assert found == self._expected, (self._name, found, self._expected)
            self._end_round()
        else:
            assert call.state is CallState.DONE, (call.state, call.text)
            self._later(lambda now: self._call(NamedAction.PEEK))

    def _end_round(self) -> None:
        self._rounds -= 1
        if self._rounds:
            self._later(lambda now: self._change())
        else:
            self._client.unfinished -= 1

    def _later(self, act: Callable[[float], None]) -> None:
        world = self._client.world
        world.after(world.between(*PAUSE_SECONDS), lambda: self._client.post(act))
