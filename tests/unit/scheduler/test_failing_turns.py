"""A scheduler whose turns fail: one failure is made good, and several in a row end the process."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from scaler_protocol.codec import encode
from scaler_protocol.command.turn_guard import BROKEN_CODE
from scaler_protocol.messages import Envelope, Ping
from scaler_scheduler.core import admission
from scaler_scheduler.core.settings import Settings
from scaler_scheduler.shell.gateway import Gateway

PEER = b"p" * 16
SOON_SECONDS = 0.02


class FakeRouter:
    """``arrive`` makes a message of a peer wait here. ``answers`` counts what was sent back."""

    def __init__(self) -> None:
        self._reading, self._writing = socket.socketpair()
        self._reading.setblocking(False)
        self.monitor_fd = os.eventfd(0)
        self.fd = self._reading.fileno()
        self.answers = 0
        self.cut: list[bytes] = []
        self._waiting: list[tuple[bytes, list[bytes], bytes]] = []

    def arrive(self) -> None:
        self._waiting.append((PEER, encode(Envelope(Ping())), b""))
        self._writing.send(b"x")

    def receive_many(self, limit: int) -> list[tuple[bytes, list[bytes], bytes]]:
        """Like the real one, this uses up the readiness of the socket."""
        try:
            self._reading.recv(4096)
        except BlockingIOError:
            pass
        messages, self._waiting = self._waiting[:1], self._waiting[1:]
        return messages

    def answer(self, peer: bytes, frames: list[bytes]) -> str:
        self.answers += 1
        return "sent"

    def disconnect(self, peer: bytes) -> None:
        self.cut.append(peer)

    def unauthenticated_messages(self, has_work: bool) -> Iterator[tuple[bytes, list[bytes], bytes]]:
        return iter(())

    def users(self) -> None:
        """There are no keys."""

    def close(self) -> None:
        self._reading.close()
        self._writing.close()
        os.close(self.monitor_fd)


class Stage:
    """A gateway in a loop of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.router = FakeRouter()
        settings = Settings(address="tcp://127.0.0.1:1", session=b"s" * 16, epoch=1)
        self.gateway = Gateway(self.loop, self.router, settings)  # type: ignore[arg-type]
        self.gateway.start()

    def run_until(self, condition: Callable[[], bool]) -> None:
        """Raises what ends the loop."""

        def look() -> None:
            if condition():
                self.loop.stop()
            else:
                self.loop.call_later(SOON_SECONDS, look)

        look()
        self.loop.run_forever()

    def close(self) -> None:
        self.gateway.close()
        self.router.close()
        self.loop.close()


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.close()


def fail(*arguments: object) -> Any:
    raise ValueError("a defect")


def after(failures: int, method: Callable[..., Any]) -> Callable[..., Any]:
    """``method``, whose first calls fail."""
    calls = []

    def called(*arguments: Any) -> Any:
        calls.append(arguments)
        return fail() if len(calls) <= failures else method(*arguments)

    return called


def test_what_waits_behind_a_failed_turn_is_taken_in(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    core = stage.gateway.core
    monkeypatch.setattr(stage.gateway, "core", Wrapped(core, take_effects=after(2, core.take_effects)))
    for _ in range(3):
        stage.router.arrive()
    stage.run_until(lambda: stage.router.answers == 3)


@pytest.mark.parametrize("method", ["take_effects", "next_deadline", "on_deadline"])
def test_a_scheduler_that_fails_in_every_turn_ends_with_a_diagnosis(
    method: str, stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = {"next_deadline": time.monotonic, method: fail}
    monkeypatch.setattr(stage.gateway, "core", Wrapped(stage.gateway.core, **broken))
    stage.router.arrive()
    with pytest.raises(SystemExit) as ended:
        stage.run_until(lambda: False)
    assert ended.value.code == BROKEN_CODE
    assert "a defect" in caplog.text and "consecutive turns failed" in caplog.text


def test_messages_that_are_taken_in_do_not_hide_that_deadlines_fail(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        stage.gateway, "core", Wrapped(stage.gateway.core, next_deadline=time.monotonic, on_deadline=fail)
    )

    def arrive() -> bool:
        stage.router.arrive()
        return False

    stage.router.arrive()
    with pytest.raises(SystemExit):
        stage.run_until(arrive)


@pytest.mark.parametrize("method", ["on_message", "on_deadline", "take_effects"])
def test_a_scheduler_without_memory_ends_although_other_turns_succeed(
    method: str, stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    core = stage.gateway.core
    calls = itertools.count()

    def called(*arguments: Any) -> Any:
        if next(calls) % 3 == 0:
            raise MemoryError
        return getattr(core, method)(*arguments)

    monkeypatch.setattr(admission, "knows", lambda state, peer: True)
    monkeypatch.setattr(stage.gateway, "core", Wrapped(core, **{"next_deadline": time.monotonic, method: called}))

    def arrive() -> bool:
        stage.router.arrive()
        return False

    with pytest.raises(SystemExit) as ended:
        stage.run_until(arrive)
    assert ended.value.code == BROKEN_CODE
    assert "turns failed for lack of memory" in caplog.text


def test_all_connections_end_with_a_turn_that_lacks_memory(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it would have sent, and to whom, is not known."""
    core = stage.gateway.core
    calls = itertools.count()

    def take_effects(now: float) -> Any:
        if next(calls) == 1:
            raise MemoryError
        return core.take_effects(now)

    monkeypatch.setattr(admission, "knows", lambda state, peer: True)
    monkeypatch.setattr(stage.gateway, "core", Wrapped(core, take_effects=take_effects))
    stage.router.arrive()
    stage.router.arrive()
    stage.run_until(lambda: stage.router.cut == [PEER])


class Wrapped:
    """A core with some methods replaced: those of a compiled class cannot be."""

    def __init__(self, core: object, **methods: Callable[..., Any]) -> None:
        self._core = core
        self.__dict__.update(methods)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)
