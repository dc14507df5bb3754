"""The session in which a monitor asks the scheduler for one action on the cluster.

| State | Event | Consequence |
|---|---|---|
| away | the transport connects | says Hello |
| greeting | Challenge | says Hello with the proof |
| greeting | Welcome | sends the request; asked |
| greeting | Refused, or a forged Welcome | ended |
| asked | ControlReply | ended, with a goodbye |
| asked | the connection is lost | ended: what became of the action is not known |
| away, greeting | the connection is lost | away |
| any | the deadline | ended |

Deliberately absent: nothing is repeated. A person who reads that an answer is missing looks at the cluster first.
"""

from __future__ import annotations

from scaler_protocol.effects import Send
from scaler_protocol.handshake import PeerHandshake
from scaler_protocol.link import Link
from scaler_protocol.messages import (
    CONTROL_SINCE_MINOR,
    Challenge,
    ControlReply,
    ControlRequest,
    Envelope,
    Goodbye,
    Hello,
    Refused,
    Welcome,
)
from scaler_protocol.monitor.operation import Operation, OperationOutcome, done_text

_SCHEDULER = b""
_OLD_TEXT = "Cannot do this: the scheduler is too old. Update scaler-scheduler."
_LOST_TEXT = "The connection was lost before the scheduler answered. Look whether the action was carried out."
_SILENT_TEXT = "The scheduler did not answer. Look whether the action was carried out."
_AWAY_TEXT = "Cannot reach the scheduler. Check that it is running."


class OperatorSession:
    """``outcome`` is None until the session has ended."""

    def __init__(self, hello: Hello, handshake: PeerHandshake, operation: Operation, deadline: float) -> None:
        self.outcome: OperationOutcome | None = None
        self.deadline = deadline
        self._hello = hello
        self._handshake = handshake
        self._operation = operation
        self._link = Link()
        self._is_greeting = False
        self._is_asked = False
        self._obstacle = ""
        self._effects: list[Send] = []

    def on_connected(self, token: bytes) -> None:
        self._handshake.token = token
        self._is_greeting = True
        self._send(self._handshake.begin(self._hello))

    def on_peer_lost(self) -> None:
        self._is_greeting = False
        if self._is_asked:
            self._end(False, _LOST_TEXT)

    def on_obstacle(self, text: str) -> None:
        """``text``: why there is no connection."""
        self._obstacle = text

    def on_message(self, envelope: Envelope) -> None:
        body = envelope.body
        if isinstance(body, Refused) and not self._is_asked:
            self._end(False, body.text)
        elif self._is_greeting and isinstance(body, Challenge):
            proved = self._handshake.answer(body)
            if proved is not None:
                self._send(proved)
        elif self._is_greeting and isinstance(body, Welcome):
            self._on_welcome(body)
        elif self._is_asked and isinstance(body, ControlReply):
            self._on_reply(body)

    def on_deadline(self) -> None:
        self._end(False, _SILENT_TEXT if self._is_asked else self._obstacle or _AWAY_TEXT)

    def take_effects(self) -> list[Send]:
        effects, self._effects = self._effects, []
        return effects

    def _on_welcome(self, welcome: Welcome) -> None:
        verdict = self._handshake.judge(welcome)
        if verdict == "forged":
            self._end(False, self._handshake.forged_text)
        elif verdict == "genuine":
            self._is_greeting = False
            self._ask(welcome.minor)

    def _ask(self, minor: int) -> None:
        self._is_asked = True
        if minor < CONTROL_SINCE_MINOR:
            self._send(Goodbye())
            self._end(False, _OLD_TEXT)
            return
        operation = self._operation
        self._send(ControlRequest(1, operation.action, operation.target, operation.value))

    def _on_reply(self, reply: ControlReply) -> None:
        self._send(Goodbye())
        text = done_text(self._operation.action, reply.names, reply.count) if reply.accepted else reply.text
        self._end(reply.accepted, text)

    def _send(self, body: Hello | ControlRequest | Goodbye) -> None:
        self._effects.append(Send(_SCHEDULER, self._link.wrap(body)))

    def _end(self, is_done: bool, text: str) -> None:
        if self.outcome is None:
            self.outcome = OperationOutcome(is_done, text)
