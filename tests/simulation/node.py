"""A simulated process: a real core, and a shell that lives in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scaler_protocol.codec import decode, encode
from scaler_protocol.effects import Log
from scaler_protocol.messages import Envelope
from tests.simulation.world import World

DRAIN_SECONDS = (0.00001, 0.0003)
"""From the arrival of a message until the process looks: what arrives meanwhile is one drain."""

DEADLINE_SLACK_SECONDS = 0.0001


class Node:
    """Drains what waits, carries out effects, keeps one timer, and calls ``check`` after each step."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.core: Any = None
        self.alive = True
        self.received = 0
        """Messages from peers."""

        self.log: list[str] = []
        self._inbox: list[Callable[[float], None]] = []
        self._drain_at: float | None = None
        self.resumes_at = 0.0
        """The end of the latest standstill."""

    def post(self, action: Callable[[float], None]) -> None:
        """``action(now)`` feeds the core in the next drain."""
        if self.alive:
            self._inbox.append(action)
            self._drain_by(self.world.now + self.world.between(*DRAIN_SECONDS))

    def stop_for(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT later."""
        self.resumes_at = max(self.resumes_at, self.world.now + seconds)

    def die(self) -> None:
        self.alive = False
        self._inbox.clear()

    def carry_out(self, effect: Any) -> None:
        raise NotImplementedError

    def note(self, log: Log, now: float) -> None:
        self.log.append(f"{now:.4f} {log.level} {log.text}")

    def encode(self, envelope: Envelope) -> list[bytes]:
        return encode(envelope)

    def decode(self, frames: list[bytes]) -> Envelope:
        return decode(frames)

    def _drain_by(self, time: float) -> None:
        time = max(time, self.resumes_at)
        if self._drain_at is None or time < self._drain_at:
            self._drain_at = time
            self.world.at(time, lambda: self._drain_if_due(time))

    def _drain_if_due(self, time: float) -> None:
        if self.alive and self._drain_at == time:
            self._drain_at = None
            if self.world.now < self.resumes_at:
                self._drain_by(self.resumes_at)
            else:
                self._drain(self.world.now)

    def _look_at_timer(self, now: float) -> None:
        deadline = self.core.next_deadline()
        if deadline is not None and deadline <= now:
            self.core.on_deadline(now)

    def _drain(self, now: float) -> None:
        if now == self.resumes_at:  # its timer is looked at before its sockets, or after them: here before
            self._look_at_timer(now)
        waiting, self._inbox = self._inbox, []
        for action in waiting:
            if self.alive:  # a client may leave in one of them
                action(now)
        self._look_at_timer(now)
        for effect in self.core.take_effects(now):
            if isinstance(effect, Log):
                self.note(effect, now)
            elif self.alive:
                self.carry_out(effect)
        if not self.alive:
            return
        self.core.check()
        deadline = self.core.next_deadline()
        if deadline is not None:
            self._drain_by(max(deadline, now + DEADLINE_SLACK_SECONDS))
