"""An agent's conversation with its scheduler: reads the socket, feeds the core, carries out effects, sets one alarm."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from scaler_protocol.codec import MalformedMessage, decode, encode
from scaler_protocol.command.prompt_loop import add_alarm, add_prompt_reader, remove_prompt_reader
from scaler_protocol.effects import Log, Send
from scaler_protocol.keys import worker_keys
from scaler_protocol.transport.context import new_context
from scaler_protocol.transport.sockets import DealerConnection
from scaler_worker.core.agent import SCHEDULER, AgentCore


class Conversation:
    """``carry_out``: what to do for each kind of effect, beside Send and Log. Whoever else tells the core something
    calls ``end_turn`` behind it."""

    def __init__(
        self,
        core: AgentCore,
        address: str,
        session: bytes,
        io_threads: int,
        loop: asyncio.AbstractEventLoop,
        carry_out: dict[type, Callable[[Any], None]],
        after_turn: Callable[[], None] = lambda: None,
    ) -> None:
        self._core = core
        self._loop = loop
        self._context = new_context(io_threads)
        try:
            self._connection = DealerConnection(self._context, address, session, worker_keys)
        except BaseException:
            self._context.term()
            raise
        self._carry_out: dict[type, Callable[[Any], None]] = {
            Send: self._send,
            Log: lambda effect: logging.log(logging.getLevelName(effect.level), effect.text),
            **carry_out,
        }
        self._after_turn = after_turn
        self._alarm = add_alarm(loop, self._on_alarm)
        self._turning = False
        self._turn_again = False
        self._sent = False
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
        self._connection.close(linger_milliseconds=200)
        self._context.term()

    # ---- reading ---------------------------------------------------------------------------------------------

    def _on_socket(self) -> None:
        if self._read(time.monotonic()):
            self.end_turn()

    def _on_monitor(self) -> None:
        now = time.monotonic()
        for event in self._connection.connection_events():
            if event == "connected":
                self._core.on_connected(now)
            elif event == "disconnected":
                self._core.on_peer_lost(SCHEDULER, now)
        self._read(now)
        self.end_turn()

    def _read(self, now: float) -> bool:
        """Whether anything came. The descriptor is edge-triggered: read until nothing is left, also after a send."""
        came = False
        while (frames := self._connection.receive()) is not None:
            came = True
            try:
                envelope = decode(frames)
            except MalformedMessage as error:
                logging.error(f"the scheduler sent what is no message: {error}")
                continue
            try:
                self._core.on_message(SCHEDULER, envelope, now)
            except Exception:  # what waits behind it is to be read
                logging.exception(f"{type(envelope.body).__name__} could not be taken in")
        return came

    # ---- effects ---------------------------------------------------------------------------------------------

    def end_turn(self) -> None:
        """Carry out what the core wants until it wants nothing more, then set the alarm."""
        if self._turning:
            self._turn_again = True
            return
        self._turning = True
        try:
            self._turn_again = True
            while self._turn_again:
                self._turn_again = False
                self._turn(time.monotonic())
        finally:
            self._turning = False
        self._after_turn()
        if not self._ended:
            self._alarm.set(self._core.next_deadline())

    def _turn(self, now: float) -> None:
        for effect in self._core.take_effects(now):
            try:
                self._carry_out[type(effect)](effect)
            except Exception:  # the others are not to suffer
                logging.exception(f"{type(effect).__name__} could not be carried out")
        if self._sent:  # sending, too, can use up the readiness of the socket
            self._sent = False
            self._turn_again |= self._read(now)

    def _send(self, effect: Send) -> None:
        self._sent = True
        self._connection.send(encode(effect.envelope))

    # ---- time ------------------------------------------------------------------------------------------------

    def _on_alarm(self) -> None:
        now = time.monotonic()
        self._read(now)
        self._core.on_deadline(now)
        self.end_turn()
