"""Peers take turns: a peer whose messages cost much delays itself, and no other one for long."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from scaler_protocol.codec import decode, encode
from scaler_protocol.messages import (
    ClusterInfoReply,
    ClusterInfoRequest,
    Envelope,
    ExplainRequest,
    Explanation,
    Hello,
    Role,
)
from scaler_scheduler.core.settings import Settings
from scaler_scheduler.shell import gateway as gateway_module
from scaler_scheduler.shell.gateway import Gateway
from tests.support.waiting import wait_until
from tests.unit.scheduler.test_extremes import FakeRouter

FLOOD, CALM = b"f" * 16, b"c" * 16


class PausingRouter(FakeRouter):  # type: ignore[no-untyped-call]
    """Says nothing of a peer that is paused. ``calls``: what it was told about this."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[tuple[str, bytes]] = []

    def pause(self, peer: bytes) -> None:
        self.calls.append(("pause", peer))

    def resume(self, peer: bytes) -> None:
        self.calls.append(("resume", peer))

    def users(self) -> None:
        """There are no keys."""


class Stage:
    """A gateway in which a turn is over after one message. ``taken``: the tasks about which peers have asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loop = asyncio.new_event_loop()
        self.router = PausingRouter()
        settings = Settings(address="tcp://0.0.0.0:1", session=b"s" * 16, epoch=1)
        self.gateway = Gateway(self.loop, self.router, settings)  # type: ignore[arg-type]
        self.taken: list[tuple[bytes, int]] = []
        self.take_in(*((peer, encode(Envelope(Hello(Role.SUBMIT, peer))), b"") for peer in (FLOOD, CALM)))
        monkeypatch.setattr(gateway_module, "TURN_SECONDS", 0.0)
        monkeypatch.setattr(self.gateway.core, "on_message", self._note)

    def _note(self, peer: bytes, envelope: Envelope, now: float) -> None:
        assert isinstance(envelope.body, ExplainRequest)
        self.taken.append((peer, envelope.body.task))

    def take_in(self, *messages: tuple[bytes, list[bytes], bytes]) -> None:
        self.router.waiting = [list(messages)]
        self.gateway._turn(0.0)

    def ask(self, *questions: tuple[bytes, int]) -> None:
        self.take_in(*((peer, encode(Envelope(ExplainRequest(task))), b"") for peer, task in questions))

    def run(self) -> None:
        """Let the loop do what it is to do soon."""
        self.loop.call_soon(self.loop.stop)
        self.loop.run_forever()

    def close(self) -> None:
        self.gateway._alarm.set(None)
        if self.gateway._next_turn is not None:
            self.gateway._next_turn.cancel()
        self.router.close()  # type: ignore[no-untyped-call]
        self.loop.close()


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    made = Stage(monkeypatch)
    yield made
    made.close()


def test_another_peer_is_served_between_the_messages_of_one_that_sends_many(stage: Stage) -> None:
    stage.ask((FLOOD, 1), (FLOOD, 2), (FLOOD, 3), (FLOOD, 4), (CALM, 1))
    assert stage.taken == [(FLOOD, 1), (CALM, 1), (FLOOD, 2)]
    stage.ask((CALM, 2))
    assert stage.taken[3:] == [(CALM, 2), (FLOOD, 3)]
    wait_until(lambda: stage.run() or len(stage.taken) == 6)  # type: ignore[func-returns-value]
    assert stage.taken[5:] == [(FLOOD, 4)]


def test_a_peer_is_not_read_from_while_its_messages_wait(stage: Stage) -> None:
    stage.ask((FLOOD, 1), (FLOOD, 2), (FLOOD, 3))
    assert stage.router.calls == [("pause", FLOOD)]
    wait_until(lambda: stage.run() or len(stage.taken) == 3)  # type: ignore[func-returns-value]
    assert stage.router.calls == [("pause", FLOOD), ("resume", FLOOD)]


def test_messages_that_come_while_others_wait_are_behind_them(stage: Stage) -> None:
    """A connection that ends is read to its end, also while it is paused."""
    stage.ask((FLOOD, 1), (FLOOD, 2), (FLOOD, 3))
    stage.ask((FLOOD, 4))
    wait_until(lambda: stage.run() or len(stage.taken) == 4)  # type: ignore[func-returns-value]
    assert stage.taken == [(FLOOD, task) for task in (1, 2, 3, 4)]


def test_a_peer_is_lost_after_its_last_message(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    lost: list[tuple[bytes, int]] = []
    monkeypatch.setattr(stage.gateway.core, "on_peer_lost", lambda peer, now: lost.append((peer, len(stage.taken))))
    stage.ask((FLOOD, 1), (FLOOD, 2), (FLOOD, 3), (FLOOD, 4))
    stage.router.gone = [FLOOD]
    stage.gateway._probe()
    assert not lost
    wait_until(lambda: stage.run() or lost)  # type: ignore[func-returns-value]
    assert lost == [(FLOOD, 4)]


class RecordingRouter(PausingRouter):
    """``said``: the numbered messages that it was given, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[tuple[int, type]] = []

    def send(self, peer: bytes, frames: list[bytes]) -> str:
        envelope = decode([bytes(frame) for frame in frames])
        if envelope.sequence:
            self.said.append((envelope.sequence, type(envelope.body)))
        return "sent"


def test_a_description_does_not_overtake_other_messages() -> None:
    """A peer that misses one begins its session again."""
    loop, router = asyncio.new_event_loop(), RecordingRouter()
    gateway = Gateway(loop, router, Settings(address="tcp://0.0.0.0:1", session=b"s" * 16, epoch=1))  # type: ignore[arg-type]
    bodies = [Envelope(Hello(Role.SUBMIT, CALM)), Envelope(ClusterInfoRequest(), 1), Envelope(ExplainRequest(1), 2)]
    router.waiting = [[(CALM, encode(each), b"") for each in bodies]]
    gateway._turn(0.0)
    assert router.said == [(1, Explanation), (2, ClusterInfoReply)]
    gateway.close()
    router.close()  # type: ignore[no-untyped-call]
    loop.close()
