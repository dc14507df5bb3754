"""The session in which a monitor asks the scheduler for one action on the cluster.

| State | Event | Consequence |
|---|---|---|
| away | the transport connects | says Hello |
| greeting | Challenge | says Hello with the proof |
| greeting | Welcome | sends the request; asked |
| greeting | Refused, or a forged Welcome | ended |
| asked | ControlReply, StackReply | ended, with a goodbye |
| asked | ProfileReply | the profile has begun; it ends after some seconds: sampling |
| sampling | the deadline | asks for the samples: collecting |
| collecting | ProfileReply | ended with the last one, with a goodbye |
| asked | the connection is lost | ended: what became of the action is not known |
| away, greeting | the connection is lost | away |
| any | the deadline | ended |

Deliberately absent: nothing is repeated. A person who reads that an answer is missing looks at the cluster first.
"""

from __future__ import annotations

import contextlib

from scaler_protocol.effects import Send
from scaler_protocol.handshake import PeerHandshake
from scaler_protocol.link import Link
from scaler_protocol.messages import (
    CONTROL_SINCE_MINOR,
    Body,
    Challenge,
    ControlReply,
    ControlRequest,
    Envelope,
    Goodbye,
    Hello,
    ProfileReply,
    ProfileRequest,
    Refused,
    StackReply,
    StackRequest,
    Welcome,
)
from scaler_protocol.monitor.operation import (
    PROFILE_SECONDS,
    LookAction,
    Operation,
    OperationOutcome,
    done_text,
    profile_outcome,
)
from scaler_protocol.profile import INTERVAL_SECONDS, BadProfile, ProfileTree

_SCHEDULER = b""
_NUMBER = 1
_ALL_CLIENTS = bytes(16)
_NODES_LIMIT = 200_000
COLLECT_SECONDS = 7.0
"""The time that the scheduler may take to collect the samples of all agents."""

_OLD_TEXT = "Cannot do this: the scheduler is too old. Update scaler-scheduler."
_LOST_TEXT = "The connection was lost before the scheduler answered. Check whether the action was carried out."
_SILENT_TEXT = "The scheduler did not answer. Check whether the action was carried out."
_AWAY_TEXT = "Cannot reach the scheduler. Check that it is running."


class OperatorSession:
    """``outcome`` is None until the session has ended. ``wait_seconds``, if it is not None:
    the new deadline, in seconds from now."""

    def __init__(self, hello: Hello, handshake: PeerHandshake, operation: Operation, deadline: float) -> None:
        self.outcome: OperationOutcome | None = None
        self.deadline = deadline
        self._hello = hello
        self._handshake = handshake
        self._operation = operation
        self._link = Link()
        self._is_greeting = False
        self._is_asked = False
        self.wait_seconds: float | None = None
        self._is_sampling = False
        self._tree: ProfileTree | None = None
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
        elif self._is_asked and isinstance(body, StackReply):
            self._send(Goodbye())
            text = f"Stack of {self._operation.target}" if body.is_found else body.text
            self._end(body.is_found, text, body.text if body.is_found else "")
        elif self._is_asked and isinstance(body, ProfileReply):
            self._on_profile(body)

    def on_deadline(self) -> None:
        if self._is_sampling:
            self._is_sampling, self._tree = False, ProfileTree(_NODES_LIMIT)
            self.wait_seconds = COLLECT_SECONDS
            self._send(ProfileRequest(_NUMBER, _ALL_CLIENTS, 0))
            return
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
        self._send(_request(self._operation))

    def _on_profile(self, reply: ProfileReply) -> None:
        if not reply.accepted:
            self._send(Goodbye())
            self._end(False, reply.text)
        elif self._tree is None:
            self._is_sampling, self.wait_seconds = True, PROFILE_SECONDS
        else:
            with contextlib.suppress(BadProfile):  # of an agent of another version
                self._tree.merge(ProfileTree.from_bytes(reply.profile))
            if not reply.remaining:
                self._send(Goodbye())
                self.outcome = self.outcome or profile_outcome(self._operation, self._tree)

    def _on_reply(self, reply: ControlReply) -> None:
        self._send(Goodbye())
        text = done_text(self._operation, reply.names, reply.count) if reply.accepted else reply.text
        self._end(reply.accepted, text)

    def _send(self, body: Body) -> None:
        self._effects.append(Send(_SCHEDULER, self._link.wrap(body)))

    def _end(self, is_done: bool, text: str, report: str = "") -> None:
        if self.outcome is None:
            self.outcome = OperationOutcome(is_done, text, report)


def _request(operation: Operation) -> Body:
    if operation.action is LookAction.STACK:
        return StackRequest(_NUMBER, _ALL_CLIENTS, 0, operation.target)
    if isinstance(operation.action, LookAction):
        return ProfileRequest(_NUMBER, _ALL_CLIENTS, round(INTERVAL_SECONDS * 1e6))
    return ControlRequest(_NUMBER, operation.action, operation.target, operation.value)
