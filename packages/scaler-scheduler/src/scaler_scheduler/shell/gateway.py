"""The gateway: one thread, one ROUTER socket, one core. It reads all that waits, feeds the core, carries out its
effects.

Peers take turns. A peer whose messages take longer than one turn has the next one after the messages of all others, and
is not read from before that. So a peer whose messages cost much delays itself, and others by one turn at most.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable

from scaler_protocol import codec
from scaler_protocol.command.guarded_loop import GuardedLoop
from scaler_protocol.command.turn_guard import TurnGuard
from scaler_protocol.messages import Challenge, Envelope, Hello, Refused, Tasks, Welcome, WhoAreYou
from scaler_protocol.monitor.ring import RingWriter
from scaler_protocol.transport.router_socket import RouterSocket
from scaler_scheduler.core import admission, hello
from scaler_scheduler.core.effects import Audit, Describe, Disconnect, Effect, Log, Quit, Send, Trouble
from scaler_scheduler.core.limits import TASKS_LIMIT_BYTES, TOO_LARGE_TEXT
from scaler_scheduler.core.scheduler import SchedulerCore
from scaler_scheduler.core.settings import Settings
from scaler_scheduler.shell.audit_log import AuditLog
from scaler_scheduler.shell.backlog import Backlog, Message

_DRAIN_LIMIT = 256
"""Messages taken in before the core's effects are carried out: more would only add latency."""

TURN_SECONDS = 0.002
"""The time for the messages of one peer, before those of the others."""

_FLUSH_SECONDS = 0.1
_PROBE_DELAYS_SECONDS = (0.005, 0.05, 0.5)
"""After a disconnection was reported. libzmq reports it before its thread has taken the connection down: until then a
probe still succeeds."""

_RETRY_SECONDS = 0.1


def _guarded(loop: asyncio.AbstractEventLoop) -> GuardedLoop:
    return GuardedLoop(loop, TurnGuard("Scheduler"))


_DISCONNECT_SECONDS = 0.1
"""Time that the messages sent last have to leave."""

_KEYS_SECONDS = 1.0
"""The interval of checks for keys that were removed or have expired."""

_ANSWERS = frozenset((Challenge, Refused, Welcome, WhoAreYou))
"""Bodies for a connection that may not have authenticated."""


class Gateway:
    """Deadlines and retries have guards of their own: messages taken in between do not hide that these fail."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        router: RouterSocket,
        settings: Settings,
        audit_log: AuditLog | None = None,
    ) -> None:
        self._audit_log = audit_log or AuditLog()
        self.core = SchedulerCore(settings, time.monotonic())
        self.sent: defaultdict[type, int] = defaultdict(int)
        self.received: defaultdict[type, int] = defaultdict(int)
        self.describe: Callable[[], bytes] = bytes  # returns the current snapshot for monitors; set by the reporter
        self._loop = _guarded(loop)
        self._retries = _guarded(loop)
        self._retry_timer: asyncio.TimerHandle | None = None
        self._end_loop = loop.stop
        self._router = router
        self._peers: dict[bytes, None] = {}
        self._missing: dict[bytes, None] = {}  # to be lost when what they said before has been taken in
        self._has_described = False
        self._backlog = Backlog()
        self._next_turn: asyncio.Handle | None = None
        self._alarm = _guarded(loop).add_alarm(self._on_alarm)
        self._probe_timer: asyncio.TimerHandle | None = None
        self._probes_made = 0
        self._monitor_fd = router.monitor_fd
        self._users: frozenset[bytes] | None = None
        self._keys_timer: asyncio.TimerHandle | None = None
        self._unread_keys = ""  # why the keys could not be read at the last look

    def start(self) -> None:
        self._loop.add_prompt_reader(self._router.fd, self._on_readable)
        self._loop.add_reader(self._monitor_fd, self._on_disconnections)
        self._look_at_keys()
        self._turn(time.monotonic())

    def stop(self, grace_seconds: float) -> None:
        """Shut down: running tasks have ``grace_seconds`` to finish."""
        now = time.monotonic()
        self.core.on_stop(now, grace_seconds)
        self._turn(now)

    def record(self, ring: RingWriter | None, clock_offset: float) -> None:
        """Have the core write event records into ``ring``; None: it stops writing them."""
        now = time.monotonic()
        if ring is None:
            self.core.unwatch(now)
        else:
            self.core.watch(ring, clock_offset, now)
        self._turn(now)

    def close(self) -> None:
        self._loop.remove_prompt_reader(self._router.fd)
        self._loop.remove_reader(self._monitor_fd)
        self._alarm.set(None)
        for timer in (self._probe_timer, self._retry_timer, self._keys_timer, self._next_turn):
            if timer is not None:
                timer.cancel()

    # ---- taking in -------------------------------------------------------------------------------------------------

    def _turn(self, now: float) -> None:
        """Run a turn that no message has caused."""
        try:
            self._flush(now)
            self._take_in()
        except Exception as error:
            self._on_failed_turn(error)
            raise

    def _on_readable(self) -> None:
        try:
            self._take_in()
        except Exception as error:
            self._on_failed_turn(error)
            raise

    def _on_failed_turn(self, error: Exception) -> None:
        """Messages left waiting do not make the socket readable again, so there is another turn soon. A turn that
        lacked memory may have lost messages of any peer, and to any: all connect again, and so both sides repeat what
        the other has not received."""
        if self._retry_timer is None:
            self._retry_timer = self._retries.call_later(_RETRY_SECONDS, self._retry)
        if isinstance(error, MemoryError):
            for peer in self._peers:
                self._cut(peer)

    def _cut(self, peer: bytes) -> None:
        self._router.disconnect(peer)
        self._missing[peer] = None

    def _retry(self) -> None:
        self._retry_timer = None
        self._turn(time.monotonic())

    def _take_in(self) -> None:
        """Read messages until none waits: sending, too, can use up the readiness of the socket."""
        self._take_messages()
        while gone := [peer for peer in self._missing if peer not in self._backlog]:
            now = time.monotonic()
            for peer in gone:  # one by one: an exception about one does not keep the others
                del self._missing[peer]
                self._peers.pop(peer, None)
                self.core.on_peer_lost(peer, now)
            self._flush(now)
            self._take_messages()
        self._alarm.set(self.core.next_deadline())

    def _take_messages(self) -> None:
        while messages := self._router.receive_many(_DRAIN_LIMIT):
            now = time.monotonic()
            self._feed_in_turn(messages, now)
            self._flush(now)
        if self._backlog:
            self._feed_backlog()
        for peer, frames, user in self._router.unauthenticated_messages(self.core.has_work()):
            now = time.monotonic()
            if not user or admission.admits(self.core.state, peer, user):
                self._feed_unknown(peer, frames, user, now)
            self._flush(now)

    def _feed_in_turn(self, messages: list[Message], now: float) -> None:
        """Each peer has a turn. The messages for which it is too short are put off."""
        backlog, current, ends_at = self._backlog, b"", 0.0
        put_off: dict[bytes, None] = {}
        for message in messages:
            peer = message[0]
            if peer != current:
                current, ends_at = peer, time.monotonic() + TURN_SECONDS
                is_over = peer in backlog
            else:
                is_over = is_over or time.monotonic() >= ends_at
            if is_over:
                backlog.add(message)
                put_off[peer] = None
            else:
                self._feed_message(message, now)
        for peer in put_off:
            self._router.pause(peer)

    def _feed_backlog(self) -> None:
        """One of the peers that wait has another turn. The loop goes on with all others before the next turn."""
        now = time.monotonic()
        peer, messages = self._backlog.take_first()
        self._feed_message(messages.popleft(), now)
        while messages and time.monotonic() < now + TURN_SECONDS:
            self._feed_message(messages.popleft(), now)
        if messages:
            self._backlog.put_last(peer, messages)
        else:
            self._router.resume(peer)
        self._flush(now)
        if self._backlog and self._next_turn is None:
            self._next_turn = self._loop.call_soon(self._on_next_turn)

    def _on_next_turn(self) -> None:
        self._next_turn = None
        self._on_readable()

    def _feed_message(self, message: Message, now: float) -> None:
        peer, frames, user = message
        if not admission.knows(self.core.state, peer):
            self._feed_unknown(peer, frames, user, now)
        elif not user or admission.admits(self.core.state, peer, user):
            self._feed(peer, frames, now)

    def _feed_unknown(self, peer: bytes, frames: list[bytes], user: bytes, now: float) -> None:
        """Handle a message of a connection that has no session: only a Hello is decoded."""
        try:
            body = codec.decode_hello(frames)
            if body is not None:
                self.received[type(body)] += 1
            hello.on_first_message(self.core.state, peer, body, user, now)
        except codec.MalformedMessage as error:
            hello.on_malformed_first_message(self.core.state, peer, str(error), now)
        except Exception as error:
            if admission.knows(self.core.state, peer):  # since this Hello
                self.core.on_fault(peer, Hello.__name__, error, now)
            elif isinstance(error, MemoryError):
                self._loop.failed(f"Cannot process a Hello from {peer.hex()[:8]}.", error)
            else:  # it has proved nothing, so the session that it names is not touched
                logging.exception(f"Cannot process a Hello from {peer.hex()[:8]}")

    def _feed(self, peer: bytes, frames: list[bytes], now: float) -> None:
        self._peers[peer] = None
        try:
            envelope = codec.decode(frames)
            kind = type(envelope.body)
            if kind is Tasks and sum(map(len, frames)) > TASKS_LIMIT_BYTES:
                raise codec.MalformedMessage(TOO_LARGE_TEXT)
        except codec.MalformedMessage as error:
            self.core.on_malformed(peer, str(error), now)
            return
        self.received[kind] += 1
        try:
            self.core.on_message(peer, envelope, now)
        except Exception as error:
            self.core.on_fault(peer, kind.__name__, error, now)

    def _on_disconnections(self) -> None:
        if self._router.disconnected_events():
            self._probes_made = 0
            if self._probe_timer is None:
                self._probe_timer = self._loop.call_later(_PROBE_DELAYS_SECONDS[0], self._probe)
        self._turn(time.monotonic())

    def _probe(self) -> None:
        """Find the peers whose connections have ended."""
        self._probe_timer = None
        now = time.monotonic()
        self._missing.update((peer, None) for peer in self._peers if not self._router.probe(peer))
        self._probes_made += 1
        if self._probes_made < len(_PROBE_DELAYS_SECONDS):
            self._probe_timer = self._loop.call_later(_PROBE_DELAYS_SECONDS[self._probes_made], self._probe)
        self._turn(now)

    # ---- carrying out ----------------------------------------------------------------------------------------------

    def _flush(self, now: float) -> None:
        """Carry out the effects, and then those of a description, whose messages must not overtake the others."""
        self._carry_out_all(self.core.take_effects(now), now)
        while self._has_described:
            self._has_described = False
            self._carry_out_all(self.core.take_effects(now), now)

    def _carry_out_all(self, effects: list[Effect], now: float) -> None:
        for effect in effects:
            try:
                if type(effect) is Send:
                    envelope = effect.envelope
                    self.sent[type(envelope.body)] += 1
                    if type(envelope.body) in _ANSWERS:
                        self._answer(effect.peer, envelope)
                    elif self._router.send(effect.peer, codec.encode(envelope)) == "gone":
                        self._missing[effect.peer] = None
                else:
                    self._carry_out(effect)
            except Exception as error:  # the other effects are still carried out
                self._not_carried_out(effect, error, now)

    def _not_carried_out(self, effect: Effect, error: Exception, now: float) -> None:
        what = f"Cannot carry out {type(effect).__name__}."
        if isinstance(error, MemoryError):  # the message is sent again over the next connection
            self._loop.failed(what, error)
            if type(effect) is Send:
                self._cut(effect.peer)
        else:
            logging.error(what, exc_info=error)
            if type(effect) is Send:
                self.core.on_unsendable(effect.peer, error, now)

    def _answer(self, peer: bytes, envelope: Envelope) -> None:
        """Answer the connection that has sent Hello."""
        is_welcome = type(envelope.body) is Welcome
        if is_welcome:
            self._router.admit(peer)
            self._peers[peer] = None
            self._missing.pop(peer, None)
        if self._router.answer(peer, codec.encode(envelope)) == "gone" and is_welcome:
            self._missing[peer] = None

    def _carry_out(self, effect: Effect) -> None:
        if type(effect) is Log:
            logging.log(logging.getLevelName(effect.level), effect.text)
        elif type(effect) is Describe:
            self._describe()
        elif type(effect) is Audit:
            self._audit_log.record(effect)
        elif type(effect) is Trouble:
            self._tell_trouble(effect)
        elif type(effect) is Disconnect:
            self._loop.call_later(_DISCONNECT_SECONDS, self._router.disconnect, effect.peer)
        elif type(effect) is Quit:
            self._loop.call_later(_FLUSH_SECONDS, self._end_loop)

    def _tell_trouble(self, trouble: Trouble) -> None:
        if isinstance(trouble.error, MemoryError):
            self._loop.failed(f"{trouble.text}.", trouble.error)
        else:
            logging.error(trouble.text, exc_info=trouble.error)

    def _describe(self) -> None:
        snapshot = b""
        try:
            snapshot = self.describe()
        finally:  # clients wait for an answer
            self._has_described = True
            self.core.on_described(snapshot, time.monotonic())

    # ---- keys ------------------------------------------------------------------------------------------------------

    def _look_at_keys(self) -> None:
        """A key that is missing twice in a row is gone: its file may be replaced just now."""
        try:
            users = self._router.users()
        except OSError as error:
            users = self._users
            self._tell_unread_keys(str(error))
        else:
            if users is None:
                return
            self._tell_unread_keys("")
        self._keys_timer = self._loop.call_later(_KEYS_SECONDS, self._look_at_keys)
        before, self._users = self._users, users
        if before is not None and users is not None:
            now = time.monotonic()
            admission.on_keys_changed(self.core.state, users | before, now)
            self._turn(now)

    def _tell_unread_keys(self, error: str) -> None:
        """Log each error once, not again while it lasts. Empty: the keys were read."""
        if error and error != self._unread_keys:
            logging.warning(f"Cannot read the scheduler's keys: {error}. Those that it has read stay valid.")
        self._unread_keys = error

    # ---- time ------------------------------------------------------------------------------------------------------

    def _on_alarm(self) -> None:
        now = time.monotonic()
        try:
            self.core.on_deadline(now)
        finally:
            self._turn(now)
