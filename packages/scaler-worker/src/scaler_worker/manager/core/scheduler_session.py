"""The session of a worker manager with its scheduler: it reports once a second, and is told how many workers to run.

| State | Event | Consequence |
|---|---|---|
| away | the transport connects | says Hello |
| greeting | Welcome | welcomed; the next report is due |
| greeting | no answer for some seconds | the connection is replaced |
| welcomed | a report is due | sends it, and the lines of the log that it has not sent yet |
| welcomed | an order | notes it: the name is granted |
| welcomed | no order for some time after the first report | logs that the name is not granted yet |
| welcomed | WhoAreYou: the scheduler has restarted | says Hello |
| welcomed | nothing came for some seconds | the connection is replaced |
| any | the connection is lost | away; the last order holds |
| welcomed | the manager ends | says goodbye |
| any | Refused, or Stop | ended, with the reason |
| welcomed | Refused, since another manager has the name | ended, with the reason: this manager leaves |

Every Hello begins a new session in the scheduler, since a report says everything there is to say.
"""

from __future__ import annotations

from collections.abc import Iterable

from scaler_protocol.effects import Log, Send
from scaler_protocol.handshake import PeerHandshake
from scaler_protocol.messages import (
    Body,
    Challenge,
    Envelope,
    Goodbye,
    Hello,
    LogLine,
    ManagerOrder,
    ManagerReport,
    RefusalReason,
    Refused,
    Stop,
    Welcome,
    WhoAreYou,
)
from scaler_worker.core.agent_log import AgentLog
from scaler_worker.core.effects import Reconnect

SCHEDULER = b""
REPORT_SECONDS = 1.0
SILENCE_SECONDS = 5.0
"""After this long without a message, the connection is replaced."""

GRANT_SECONDS = 1.0
"""A scheduler that knows no other manager of the name answers a report sooner."""

SUPPORT_SINCE_MINOR = 4
_OLD_TEXT = "Cannot scale: the scheduler is too old for worker managers that follow the load. Update scaler-scheduler."
_NOT_GRANTED_TEXT = (
    "The scheduler has not granted the name {} yet. If an earlier manager of this name has just ended or lost its "
    "host, that takes some seconds."
)


class ManagerSession:
    """``order``: the number of workers that the scheduler ordered last, None before the first order. ``ended``: why the
    session is over, empty while it is not; ``is_refused``: by a refusal, not because the cluster is shut down;
    ``is_name_taken``: the refusal says that another manager has the name."""

    def __init__(self, hello: Hello, handshake: PeerHandshake, now: float) -> None:
        self.order: int | None = None
        self.ended = ""
        self.is_refused = False
        self.is_name_taken = False
        self._hello = hello
        self._handshake = handshake
        self._connected = False
        self._welcomed = False
        self._heard_at = now
        self._report_at = now
        self._asked_at: float | None = None  # the first report, until it is said that it has no answer
        self._name = ""
        self._obstacle = ""
        self._log = AgentLog()
        self._effects: list[Send | Reconnect | Log] = []

    # ---- events ------------------------------------------------------------------------------------------------------

    def on_connected(self, token: bytes, now: float) -> None:
        self._connected = True
        self._handshake.token = token
        self._say_hello(now)

    def on_peer_lost(self, now: float) -> None:
        self._connected = self._welcomed = False

    def on_obstacle(self, text: str) -> None:
        """There is no connection, for this reason."""
        if text and text != self._obstacle:
            self._effects.append(Log("ERROR", text))
        self._obstacle = text

    def on_message(self, envelope: Envelope, now: float) -> None:
        self._heard_at = now
        body = envelope.body
        if isinstance(body, Challenge):
            proved = self._handshake.answer(body) if self._connected and not self._welcomed else None
            if proved is not None:
                self._send(proved)
        elif isinstance(body, Welcome):
            self._on_welcome(body, now)
        elif isinstance(body, WhoAreYou):
            self._say_hello(now)
        elif isinstance(body, ManagerOrder) and self._welcomed:
            self.order = body.workers
        elif isinstance(body, Stop) and self._welcomed:
            self.ended = "The cluster is shut down."
        elif isinstance(body, Refused):
            self._on_refused(body)

    def on_logged(self, lines: Iterable[LogLine]) -> None:
        """The manager's process has written these lines to its log."""
        self._log.add(lines)

    def report(self, body: ManagerReport, now: float) -> None:
        """Send a report when one is due."""
        if self._welcomed and now >= self._report_at:
            self._report_at = now + REPORT_SECONDS
            if not self._name:
                self._name, self._asked_at = body.name, now
            self._send(body)
            lines = self._log.take_unsent()
            if lines is not None:
                self._send(lines)

    def on_deadline(self, now: float) -> None:
        """Replace a connection on which nothing comes, and say that the name is not granted."""
        if self._asked_at is not None and now >= self._asked_at + GRANT_SECONDS:
            self._asked_at = None
            if self._welcomed and self.order is None:
                self._effects.append(Log("WARNING", _NOT_GRANTED_TEXT.format(self._name)))
        if self._connected and now >= self._heard_at + SILENCE_SECONDS:
            self._heard_at = now
            self.on_peer_lost(now)
            self._effects.append(Reconnect())

    def leave(self) -> None:
        """Say goodbye: the manager ends. Without that, the scheduler would warn that it is lost."""
        if self._welcomed and not self.is_refused:
            self._welcomed = False
            self._send(Goodbye())

    def take_effects(self) -> list[Send | Reconnect | Log]:
        effects, self._effects = self._effects, []
        return effects

    def _send(self, body: Body) -> None:
        self._effects.append(Send(SCHEDULER, Envelope(body)))

    # ---- greetings ---------------------------------------------------------------------------------------------------

    def _say_hello(self, now: float) -> None:
        self._welcomed = False
        self._heard_at = now
        self._send(self._handshake.begin(self._hello))

    def _on_welcome(self, welcome: Welcome, now: float) -> None:
        verdict = self._handshake.judge(welcome)
        if self._welcomed or verdict == "late":
            return
        if verdict == "forged":
            self.on_obstacle(self._handshake.forged_text)
            self.on_peer_lost(now)
            self._effects.append(Reconnect())
            return
        self._obstacle = ""
        self._welcomed = True
        self._report_at = now
        self._log.restart()
        if welcome.minor < SUPPORT_SINCE_MINOR:
            self.ended, self.is_refused = _OLD_TEXT, True

    def _on_refused(self, refused: Refused) -> None:
        """Reports are refused for one reason in a session that was welcomed: their name."""
        self.ended, self.is_refused = refused.text, True
        self.is_name_taken = self._welcomed and refused.reason is RefusalReason.SESSION
