"""An agent's conversation with its scheduler: reads the socket, feeds the core, carries out effects, sets one alarm."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable
from typing import Any, Protocol

from scaler_protocol.codec import MalformedMessage, decode, encode
from scaler_protocol.command.guarded_loop import GuardedLoop
from scaler_protocol.command.turn_guard import TurnGuard
from scaler_protocol.effects import Log, Send
from scaler_protocol.handshake import NONCE_SIZE_BYTES, PeerHandshake
from scaler_protocol.keys import worker_keys
from scaler_protocol.messages import Envelope
from scaler_protocol.transport.context import new_context
from scaler_protocol.transport.dealer_connection import DealerConnection
from scaler_worker.core.agent import SCHEDULER
from scaler_worker.core.effects import Reconnect


class ConversingCore(Protocol):
    """The interface of a core to a conversation."""

    def on_connected(self, token: bytes, now: float) -> None: ...
    def on_peer_lost(self, peer: bytes, now: float) -> None: ...
    def on_key_refused(self, text: str, now: float) -> None: ...
    def on_obstacle(self, text: str, now: float) -> None: ...
    def on_message(self, peer: bytes, envelope: Envelope, now: float) -> None: ...
    def on_not_taken_in(self, now: float) -> None: ...
    def on_not_carried_out(self, effect: Any, now: float) -> None: ...
    def on_deadline(self, now: float) -> None: ...
    def next_deadline(self) -> float | None: ...
    def take_effects(self, now: float) -> list[Any]: ...


class SchedulerConnection:
    """The socket, and what it needs. ``handshake`` is how its scheduler proves who it is. Raises OSError and
    ValueError, with a sentence."""

    def __init__(self, address: str, session: bytes, io_threads: int) -> None:
        self._context = new_context(io_threads)
        try:
            self.dealer = DealerConnection(self._context, address, session, worker_keys)
        except BaseException:
            self._context.term()
            raise
        self.handshake = PeerHandshake(self.dealer.place, secrets.token_bytes(NONCE_SIZE_BYTES))

    def close(self, linger_milliseconds: int = 0) -> None:
        self.dealer.close(linger_milliseconds)
        self._context.term()


RETRY_SECONDS = 0.1
"""After a failed turn, the next one begins after this long, or when something happens."""

_TURN = "turn"


class Conversation:
    """``carry_out``: what to do for each kind of effect, except Send, Log and Reconnect.

    Events reach the core through ``hear``. The turn ends after the callback of ``loop`` in which something was heard;
    events outside of such callbacks use ``tell``.

    A failure does not end the agent: the core learns of a message that was not taken in and of an effect that was not
    carried out, and a turn that failed is repeated soon. The agent ends when one kind of event fails again and again,
    even if others succeed meanwhile."""

    def __init__(
        self,
        core: ConversingCore,
        connection: SchedulerConnection,
        loop: GuardedLoop,
        carry_out: dict[type, Callable[[Any], None]],
    ) -> None:
        self._core = core
        self._loop = loop
        self._scheduler = connection
        self._connection = connection.dealer
        self._carry_out: dict[type, Callable[[Any], None]] = {
            Log: lambda effect: logging.log(logging.getLevelName(effect.level), effect.text),
            Reconnect: lambda effect: self._connection.reconnect(),
            **carry_out,
        }
        self._alarm = loop.add_alarm(self._on_alarm)
        self._failing: dict[str, TurnGuard] = {}  # by what failed the last time
        self._retry_at = 0.0
        self._turning = False
        self._turn_due = False
        self._ended = False
        loop.after_callback = self._end_due_turn

    def begin(self) -> None:
        self._loop.add_prompt_reader(self._connection.fd, self._on_socket)
        self._loop.add_reader(self._connection.monitor_fd, self._on_monitor)
        self._loop.call_soon(self._on_monitor)
        self.end_turn()

    def end(self) -> None:
        """End the conversation: set no more timers."""
        self._ended = True
        self._alarm.set(None)

    def disconnect(self) -> None:
        """Disconnect; the last messages have a moment to leave."""
        self._loop.remove_prompt_reader(self._connection.fd)
        self._loop.remove_reader(self._connection.monitor_fd)
        self._scheduler.close(linger_milliseconds=200)

    # ---- reading ---------------------------------------------------------------------------------------------

    def _on_socket(self) -> None:
        frames = self._connection.receive()
        if frames is not None:
            self._read(frames, time.monotonic())

    def _on_monitor(self) -> None:
        for event in self._connection.connection_events():
            if event == "connected":
                self.hear(self._core.on_connected, self._connection.token)
            elif event == "disconnected":
                self.hear(self._core.on_peer_lost, SCHEDULER)
            elif event == "key_refused":
                self.hear(self._core.on_key_refused, self._connection.obstacle)
            elif self._connection.obstacle:  # its handshake failed again
                self.hear(self._core.on_obstacle, self._connection.obstacle)
        self._read(self._connection.receive(), time.monotonic())

    def _read(self, frames: list[bytes] | None, now: float) -> None:
        """Process these frames and all that follow, because the descriptor is edge-triggered. An exception here loses a
        message, so the connection ends, and the scheduler sends the message again over the next one."""
        try:
            while frames is not None:
                try:
                    envelope = decode(frames)
                except MalformedMessage as error:
                    logging.error(f"The scheduler sent data that is not a message: {error}")
                else:
                    self._take_in(envelope, now)
                frames = self._connection.receive()
        except Exception:
            self._connection.cut()
            raise

    def _take_in(self, envelope: Envelope, now: float) -> None:
        kind = type(envelope.body).__name__
        self._turn_due = True
        try:
            self._core.on_message(SCHEDULER, envelope, now)
        except Exception as error:  # later messages are still read
            self._has_failed(kind, error)
            self._core.on_not_taken_in(now)
        else:
            if self._failing:
                self._failing.pop(kind, None)

    # ---- effects ---------------------------------------------------------------------------------------------

    def tell(self, event: Callable[..., object], *arguments: object) -> None:
        """Like ``hear``, for an event outside of the loop's callbacks: the turn ends at once."""
        self.hear(event, *arguments)
        self.end_turn()

    def hear(self, event: Callable[..., object], *arguments: object) -> None:
        """Call ``event``, a method of the core, with ``arguments`` and the time."""
        self._turn_due = True
        name = event.__name__
        try:
            event(*arguments, time.monotonic())
        except Exception as error:
            self._has_failed(name, error)
        else:
            if self._failing:
                self._failing.pop(name, None)

    def expect_turn(self) -> None:
        """The core was called directly: its turn ends after this callback."""
        self._turn_due = True

    def _end_due_turn(self) -> None:
        if self._turn_due:
            self.end_turn()

    def _run_turns(self) -> None:
        while self._turn_due:
            self._turn_due = False
            self._turn(time.monotonic())

    def end_turn(self) -> None:
        """Carry out the effects of the core until there are none, then set the alarm."""
        self._turn_due = True
        if self._turning:
            return
        self._turning = True
        try:
            self._run_turns()
            deadline = self._core.next_deadline()
        except Exception as error:
            self._has_failed(_TURN, error)
            deadline = self._retry_at
        else:
            if self._failing:
                self._failing.pop(_TURN, None)
                deadline = max(deadline, self._retry_at) if deadline is not None else None
        finally:
            self._turning = False
        if not self._ended:
            self._alarm.set(deadline)

    def _has_failed(self, what: str, error: Exception) -> None:
        """Raises SystemExit when it fails again and again. The lack of memory concerns all kinds of events together."""
        self._retry_at = time.monotonic() + RETRY_SECONDS
        if isinstance(error, MemoryError):
            self._loop.failed(f"{what} failed.", error)
            return
        guard = self._failing.setdefault(what, TurnGuard("Agent"))
        with guard:
            guard.failed(f"{what} failed.", error)

    def _turn(self, now: float) -> None:
        connection, has_sent = self._connection, False
        for effect in self._core.take_effects(now):
            kind = type(effect)
            try:
                if kind is Send:  # most are: no call for these
                    has_sent = True
                    connection.send(encode(effect.envelope))
                else:
                    self._carry_out[kind](effect)
            except Exception as error:  # the other effects are still carried out
                self._has_failed(kind.__name__, error)
                self._core.on_not_carried_out(effect, now)
            else:
                if self._failing:
                    self._failing.pop(kind.__name__, None)
        if has_sent and (frames := connection.receive()) is not None:  # sending, too, can use up its readiness
            self._read(frames, now)

    # ---- time ------------------------------------------------------------------------------------------------

    def _on_alarm(self) -> None:
        self._read(self._connection.receive(), time.monotonic())
        self.hear(self._core.on_deadline)
