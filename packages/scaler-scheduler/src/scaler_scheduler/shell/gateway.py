"""The gateway: one thread, one ROUTER socket, one core. It reads all that waits, feeds the core, carries out its
effects."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict

from scaler_protocol import codec
from scaler_protocol.messages import Envelope
from scaler_protocol.transport.sockets import RouterSocket
from scaler_scheduler.core.effects import ClosePeer, Effect, Log, Quit, Send
from scaler_scheduler.core.scheduler import SchedulerCore
from scaler_scheduler.core.settings import Settings

_DRAIN_LIMIT = 256
"""Messages taken in before the core's effects are carried out: more would only add latency."""

_FLUSH_SECONDS = 0.1


class Gateway:
    def __init__(self, loop: asyncio.AbstractEventLoop, router: RouterSocket, settings: Settings) -> None:
        self.core = SchedulerCore(settings, time.monotonic())
        self.sent: defaultdict[str, int] = defaultdict(int)
        self.received: defaultdict[str, int] = defaultdict(int)
        self._loop = loop
        self._router = router
        self._peers: dict[bytes, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._monitor_fd = router.monitor_fd

    def start(self) -> None:
        self._loop.add_reader(self._router.fd, self._drain)
        self._loop.add_reader(self._monitor_fd, self._on_disconnections)
        self._drain()

    def stop(self, grace_seconds: float) -> None:
        """Told to end."""
        self.core.on_stop(time.monotonic(), grace_seconds)
        self._drain()

    def close(self) -> None:
        self._loop.remove_reader(self._router.fd)
        self._loop.remove_reader(self._monitor_fd)
        if self._timer is not None:
            self._timer.cancel()

    # ---- taking in -------------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        """Until nothing waits: sending, too, can use up the readiness of the socket."""
        while self._take_in():
            self._flush()
        self._flush()
        self._arm()

    def _take_in(self) -> int:
        now = time.monotonic()
        number = 0
        while number < _DRAIN_LIMIT:
            message = self._router.receive()
            if message is None:
                return number
            number += 1
            self._feed(message[0], message[1], now)
        return number

    def _feed(self, peer: bytes, frames: list[bytes], now: float) -> None:
        self._peers[peer] = None
        try:
            envelope = codec.decode(frames)
        except codec.MalformedMessage as error:
            self.core.on_malformed(peer, str(error), now)
            return
        self.received[type(envelope.body).__name__] += 1
        self.core.on_message(peer, envelope, now)

    def _on_disconnections(self) -> None:
        if self._router.disconnected_events():
            now = time.monotonic()
            for peer in [peer for peer in self._peers if not self._router.probe(peer)]:
                self._lose(peer, now)
        self._drain()

    def _lose(self, peer: bytes, now: float) -> None:
        self._peers.pop(peer, None)
        self.core.on_peer_lost(peer, now)

    # ---- carrying out ----------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        now = time.monotonic()
        for effect in self.core.take_effects(now):
            self._carry_out(effect, now)

    def _carry_out(self, effect: Effect, now: float) -> None:
        if type(effect) is Send:
            self._send(effect.peer, effect.envelope, now)
        elif type(effect) is Log:
            logging.log(logging.getLevelName(effect.level), effect.text)
        elif type(effect) is ClosePeer:
            self._peers.pop(effect.peer, None)
        elif type(effect) is Quit:
            self._loop.call_later(_FLUSH_SECONDS, self._loop.stop)

    def _send(self, peer: bytes, envelope: Envelope, now: float) -> None:
        self.sent[type(envelope.body).__name__] += 1
        if self._router.send(peer, codec.encode(envelope)) == "gone":
            self._lose(peer, now)

    # ---- time ------------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        """One timer, at the core's deadline or before it: moving it for every message would cost more than waking."""
        deadline = self.core.next_deadline()
        if deadline is None or (self._timer is not None and self._timer_at <= deadline):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._loop.call_later(max(0.0, deadline - time.monotonic()), self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.core.on_deadline(time.monotonic())
        self._drain()
