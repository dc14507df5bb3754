"""An agent's conversation with its scheduler: reads the socket, feeds the core, carries out effects, sets one alarm."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from typing import Any

from scaler_protocol.codec import MalformedMessage, decode, encode
from scaler_protocol.command.prompt_loop import add_alarm, add_prompt_reader, remove_prompt_reader
from scaler_protocol.effects import Log, Send
from scaler_protocol.handshake import NONCE_SIZE_BYTES, PeerHandshake
from scaler_protocol.keys import worker_keys
from scaler_protocol.transport.context import new_context
from scaler_protocol.transport.dealer_connection import DealerConnection
from scaler_worker.core.agent import SCHEDULER, AgentCore
from scaler_worker.core.effects import Reconnect


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


class Conversation:
    """``carry_out``: what to do for each kind of effect, beside Send, Log and Reconnect. Whoever else tells the core
    something calls ``end_turn`` behind it."""

    def __init__(
        self,
        core: AgentCore,
        connection: SchedulerConnection,
        loop: asyncio.AbstractEventLoop,
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
        self._alarm = add_alarm(loop, self._on_alarm)
        self._turning = False
        self._turn_again = False
        self._ended = False

    def begin(self) -> None:
        add_prompt_reader(self._loop, self._connection.fd, self._on_socket)
        self._loop.add_reader(self._connection.monitor_fd, self._on_monitor)
        self._loop.call_soon(self._on_monitor)
        self.end_turn()

    def end(self) -> None:
        """No timer any more."""
        self._ended = True
        self._alarm.set(None)

    def disconnect(self) -> None:
        """What was sent last has a moment to leave."""
        remove_prompt_reader(self._loop, self._connection.fd)
        self._loop.remove_reader(self._connection.monitor_fd)
        self._scheduler.close(linger_milliseconds=200)

    # ---- reading ---------------------------------------------------------------------------------------------

    def _on_socket(self) -> None:
        frames = self._connection.receive()
        if frames is not None:
            self._read(frames, time.monotonic())
            self.end_turn()

    def _on_monitor(self) -> None:
        now = time.monotonic()
        for event in self._connection.connection_events():
            if event == "connected":
                self._core.on_connected(now, self._connection.token)
            elif event == "disconnected":
                self._core.on_peer_lost(SCHEDULER, now)
            elif event == "key_refused":
                self._core.on_key_refused(self._connection.obstacle, now)
        self._read(self._connection.receive(), now)
        self.end_turn()

    def _read(self, frames: list[bytes] | None, now: float) -> None:
        """These and all that follow: the descriptor is edge-triggered."""
        while frames is not None:
            try:
                envelope = decode(frames)
            except MalformedMessage as error:
                logging.error(f"the scheduler sent what is no message: {error}")
            else:
                try:
                    self._core.on_message(SCHEDULER, envelope, now)
                except Exception:  # what waits behind it is to be read
                    logging.exception(f"{type(envelope.body).__name__} could not be taken in")
            frames = self._connection.receive()

    # ---- effects ---------------------------------------------------------------------------------------------

    def end_turn(self) -> None:
        """Carry out what the core wants until it wants nothing more, then set the alarm."""
        self._turn_again = True
        if self._turning:
            return
        self._turning = True
        try:
            while self._turn_again:
                self._turn_again = False
                self._turn(time.monotonic())
        finally:
            self._turning = False
        if not self._ended:
            self._alarm.set(self._core.next_deadline())

    def _turn(self, now: float) -> None:
        connection, has_sent = self._connection, False
        for effect in self._core.take_effects(now):
            try:
                if type(effect) is Send:  # most are: no call for these
                    has_sent = True
                    connection.send(encode(effect.envelope))
                else:
                    self._carry_out[type(effect)](effect)
            except Exception:  # the others are not to suffer
                logging.exception(f"{type(effect).__name__} could not be carried out")
        if has_sent and (frames := connection.receive()) is not None:  # sending, too, can use up its readiness
            self._read(frames, now)
            self._turn_again = True

    # ---- time ------------------------------------------------------------------------------------------------

    def _on_alarm(self) -> None:
        now = time.monotonic()
        self._read(self._connection.receive(), now)
        self._core.on_deadline(now)
        self.end_turn()
