"""The session's connection to its scheduler: how both ends greet each other, and how the session notices silence."""

from __future__ import annotations

import dataclasses

from scaler.core.absence import Absence
from scaler.core.effects import ReplaceConnection
from scaler.core.outgoing import Outgoing
from scaler_protocol.effects import Log, Send
from scaler_protocol.handshake import PeerHandshake
from scaler_protocol.heartbeat_slots import seconds_to_next
from scaler_protocol.link import Link
from scaler_protocol.messages import Acknowledgement, Body, Challenge, Envelope, Hello, Ping, TaskName, Welcome

SCHEDULER = b""
"""The name of the only peer, in effects and arguments."""

_HELLO_AGAIN_SECONDS = 1.0
_HELLO_AGAIN_LIMIT_SECONDS = 8.0
_RECONNECT_SECONDS = 2.0
"""Delay before the next connection after the scheduler refused the key."""

_REFUSAL_SECONDS = 10.0
"""A session that was welcomed gives up after its key was refused for this long. Anyone on the path can send a refusal,
since CURVE does not seal it, and the scheduler tells an open session in a sealed message that its key was removed."""

_ENDED_SECONDS = 0.05
_ENDED_LIMIT_SECONDS = 2.0
"""Delay before the next connection after one ended that does not come back by itself; it doubles up to the limit."""


def out_of_reach(timeout_seconds: float) -> str:
    """Return the text for calls that have waited this long. The reason follows it, if it is known."""
    return f"The scheduler was out of reach for {timeout_seconds:g} seconds."


class SchedulerLink:
    """``link`` numbers the messages of this session. ``welcomed``: the scheduler has accepted the session on the
    current connection. ``epoch``: the scheduler's, 0 before the first Welcome. ``lost_since``: when the session was
    last without a scheduler, None while it is welcomed. ``parent_to_tell``: the task that the next message of tasks
    names as its sender, if it has changed."""

    def __init__(
        self,
        hello: Hello,
        *,
        timeout_seconds: float,
        heartbeat_interval_seconds: float,
        now: float,
        wall_offset_seconds: float | None,
        handshake: PeerHandshake | None,
        address: str,
        outgoing: Outgoing,
    ) -> None:
        self.link = Link()
        self.welcomed = False
        self.protected = True
        self.cluster = b""
        self.refusal = ""
        self.epoch = 0
        self.lost_since: float | None = now
        self.parent_to_tell: TaskName | None = None
        self.last_sent_at = now
        self._hello = hello
        self._handshake = handshake or PeerHandshake()
        self._timeout_seconds = timeout_seconds
        self._heartbeat_interval_seconds = heartbeat_interval_seconds
        self._wall_offset_seconds = wall_offset_seconds
        self._absence = Absence(address)
        self._obstacle = ""
        self._connected = False
        self._reconnect_at: float | None = None
        self._was_welcomed = False
        self._refused_since: float | None = None
        self._ended_seconds = _ENDED_SECONDS
        self._hello_again_at = now
        self._hello_again_seconds = _HELLO_AGAIN_SECONDS
        self._acknowledge_at: float | None = None
        self._is_awaited = False
        self._outgoing = outgoing

    # ---- messages --------------------------------------------------------------------------------------------------

    @property
    def messages_under_way(self) -> int:
        """The messages that were sent and not acknowledged, without pieces of objects."""
        return self.link.in_flight - self._outgoing.uploads.pieces_under_way

    def send(self, body: Body, now: float) -> None:
        self.last_sent_at = now
        self._outgoing.effects.append(Send(SCHEDULER, self.link.wrap(body)))

    def acknowledge_soon(self) -> None:
        """The scheduler waits for the acknowledgement of the message that is handled now."""
        self._is_awaited = True

    def acknowledge_when_due(self, now: float) -> None:
        self._acknowledge_at = self.link.acknowledgement_at(now)
        if self._acknowledge_at is not None and (now >= self._acknowledge_at or self._is_awaited):
            self.send(Acknowledgement(), now)
            self._acknowledge_at = None
            self._is_awaited = False

    def live_in(self, parent: TaskName) -> None:
        """Messages that are sent from now on are sent by the task ``parent``. A name without a session changes
        nothing."""
        hello = self._hello
        if parent.session and parent[:3] != (hello.parent_session, hello.parent_task, hello.parent_attempt):
            session, task, attempt, depth = parent
            self._hello = dataclasses.replace(
                hello, parent_session=session, parent_task=task, parent_attempt=attempt, parent_depth=depth
            )
            self.parent_to_tell = parent

    # ---- the connection comes and goes -----------------------------------------------------------------------------

    def on_connected(self, now: float, token: bytes) -> None:
        self._connected = True
        self._handshake.token = token
        self._hello_again_seconds = _HELLO_AGAIN_SECONDS
        self.say_hello(now)

    def on_lost(self, now: float) -> None:
        self._connected = False
        self._leave_welcome(now)

    def on_ended(self, now: float) -> None:
        """The connection is gone, and does not come back by itself."""
        self.on_lost(now)
        self._reconnect_at = now + self._ended_seconds
        self._ended_seconds = min(2 * self._ended_seconds, _ENDED_LIMIT_SECONDS)

    def on_obstacle(self, text: str) -> None:
        self._obstacle = text or self._obstacle

    def on_key_refused(self, text: str, now: float) -> bool:
        """Return whether to believe it: at once if the session was not welcomed since its tasks failed last, otherwise
        if it lasts."""
        self._connected = False
        self._reconnect_at = now + _RECONNECT_SECONDS
        if self._refused_since is None:
            self._refused_since = now
        if not self._was_welcomed or now >= self._refused_since + _REFUSAL_SECONDS:
            return True
        self._note_obstacle(text)
        return False

    def on_interrupted(self, now: float) -> None:
        """Greet the scheduler again, so that it repeats the messages that were not received completely."""
        if self._connected:
            self.say_hello(now)

    def restart_wait(self, now: float) -> None:
        """Everything that waited for the scheduler has failed: the timeout of later requests begins now."""
        self._leave_welcome(now)
        self._was_welcomed = False
        self.lost_since = now

    def _leave_welcome(self, now: float) -> None:
        self.welcomed = False
        if self.lost_since is None:
            self.lost_since = now

    def _reconnect(self) -> None:
        self._connected = False
        self._outgoing.effects.append(ReplaceConnection())

    # ---- greetings -------------------------------------------------------------------------------------------------

    def say_hello(self, now: float) -> None:
        self._leave_welcome(now)
        self._hello_again_at = now + self._hello_again_seconds
        hello = dataclasses.replace(self._hello, epoch=self.epoch, received=self.link.received)
        self._outgoing.effects.append(Send(SCHEDULER, Envelope(self._handshake.begin(hello))))

    def _say_hello_again(self, now: float) -> None:
        """No answer has come: the scheduler is busy, or another program listens at its address."""
        if self._hello_again_seconds >= _HELLO_AGAIN_LIMIT_SECONDS:
            self._reconnect()
            return
        self._hello_again_seconds *= 2
        self.say_hello(now)

    def on_challenge(self, challenge: Challenge, now: float) -> None:
        proved = self._handshake.answer(challenge) if self._connected and not self.welcomed else None
        if proved is not None:
            self._hello_again_at = now + self._hello_again_seconds
            self._outgoing.effects.append(Send(SCHEDULER, Envelope(proved)))

    def accepts(self, welcome: Welcome) -> bool:
        """Return whether this answers the last Hello and its sender has proved to be the scheduler."""
        verdict = self._handshake.judge(welcome)
        if self.refusal or self.welcomed or verdict == "late":
            return False  # it answers an earlier Hello: another answer is on its way
        if verdict == "forged":
            self._on_forged_welcome()
            return False
        return True

    def _on_forged_welcome(self) -> None:
        """Connect again: the scheduler itself may listen there later."""
        self._note_obstacle(self._handshake.forged_text)
        self._reconnect()

    def _note_obstacle(self, text: str) -> None:
        """Log it once, until the scheduler has welcomed this session."""
        if self._obstacle != text:
            self._outgoing.effects.append(Log("WARNING", text))
            self._absence.count_as_told()
        self._obstacle = text

    def enter(self, welcome: Welcome, now: float) -> list[Body]:
        """Begin or resume the session. Returns the messages that a scheduler without this session did not receive."""
        self.welcomed = self._was_welcomed = True
        self._refused_since = None
        self._ended_seconds = _ENDED_SECONDS
        self._obstacle = ""
        self.protected = welcome.protected
        self.cluster = welcome.cluster
        self.lost_since = None
        self._absence.end()
        self.last_sent_at = now
        self.epoch = welcome.epoch
        if welcome.resumed:
            self._outgoing.effects.extend(Send(SCHEDULER, envelope) for envelope in self.link.resume(welcome.received))
            return []
        unheard = [envelope.body for envelope in self.link.resume(0)]
        self.link = Link()
        return unheard

    # ---- time ------------------------------------------------------------------------------------------------------

    def is_overdue(self, now: float) -> bool:
        """Return whether the scheduler has been out of reach for longer than requests wait."""
        return self.lost_since is not None and now >= self.lost_since + self._timeout_seconds

    @property
    def overdue_text(self) -> str:
        return f"{out_of_reach(self._timeout_seconds)} {self._obstacle}".rstrip()

    def on_deadline(self, now: float) -> None:
        if self._connected and not self.welcomed and now >= self._hello_again_at:
            self._say_hello_again(now)
        if self._reconnect_at is not None and now >= self._reconnect_at:
            self._reconnect_at = None
            self._outgoing.effects.append(ReplaceConnection())
        due = self._absence.due(self.lost_since)
        if due is not None and now >= due:
            self._outgoing.effects.append(self._absence.tell(self._connected, self._obstacle))
        if self.welcomed and now >= self._ping_at():
            self.send(Ping(), now)

    def _ping_at(self) -> float:
        sent_at, interval_seconds = self.last_sent_at, self._heartbeat_interval_seconds
        if self._wall_offset_seconds is None:
            return sent_at + interval_seconds
        return sent_at + seconds_to_next(interval_seconds, sent_at + self._wall_offset_seconds)

    def deadline_while_welcomed(self) -> float:
        due = self._ping_at()
        acknowledge_at = self._acknowledge_at
        return acknowledge_at if acknowledge_at is not None and acknowledge_at < due else due

    def deadline_while_away(self, is_waiting: bool) -> float | None:
        """``is_waiting``: requests wait for the scheduler, which fail at the timeout."""
        told_at = self._absence.due(self.lost_since)
        candidates = [] if told_at is None else [told_at]
        if self.lost_since is not None and is_waiting:
            candidates.append(self.lost_since + self._timeout_seconds)
        if self._connected:
            candidates.append(self._hello_again_at)
        if self._reconnect_at is not None:
            candidates.append(self._reconnect_at)
        return min(candidates) if candidates else None

    def check(self) -> None:
        self.link.check()
        assert self.messages_under_way >= 0
