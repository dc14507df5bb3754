from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from scaler_protocol.command.prompt_loop import (
    PromptEventLoop,
    add_alarm,
    add_prompt_reader,
    remove_prompt_reader,
)

LIMIT_SECONDS = 10.0


@pytest.fixture(params=[PromptEventLoop, asyncio.new_event_loop])
def loop(request: pytest.FixtureRequest) -> Iterator[asyncio.AbstractEventLoop]:
    loop = request.param()
    loop.call_later(LIMIT_SECONDS, loop.stop)
    yield loop
    loop.close()


class Bell:
    """An eventfd that is rung and served."""

    def __init__(self, loop: asyncio.AbstractEventLoop, then: Callable[[], object] = lambda: None) -> None:
        self.fd = os.eventfd(0, os.EFD_NONBLOCK)
        self.served = 0
        self.then = then
        add_prompt_reader(loop, self.fd, self._serve)

    def ring(self) -> None:
        os.eventfd_write(self.fd, 1)

    def _serve(self) -> None:
        os.eventfd_read(self.fd)
        self.served += 1
        self.then()


def test_what_is_ready_is_served_until_it_is_removed(loop: asyncio.AbstractEventLoop) -> None:
    bell = Bell(loop)

    def go_on() -> None:
        if bell.served < 3:
            bell.ring()
        else:
            assert remove_prompt_reader(loop, bell.fd) and not remove_prompt_reader(loop, bell.fd)
            bell.ring()
            loop.call_later(0.01, loop.stop)

    bell.then = go_on
    bell.ring()
    loop.run_forever()
    assert bell.served == 3


def test_what_a_callback_asks_of_the_loop_is_done_at_once(loop: asyncio.AbstractEventLoop) -> None:
    began = time.monotonic()
    bell = Bell(loop, lambda: loop.call_soon(loop.stop))
    bell.ring()
    loop.run_forever()
    later = Bell(loop, lambda: loop.call_later(0.01, loop.stop))
    later.ring()
    loop.run_forever()
    stopper = Bell(loop, loop.stop)
    stopper.ring()
    loop.run_forever()
    assert time.monotonic() - began < LIMIT_SECONDS / 2


def test_others_have_their_turn_although_something_is_always_ready(loop: asyncio.AbstractEventLoop) -> None:
    bell = Bell(loop)
    bell.then = bell.ring
    bell.ring()
    ours, theirs = socket.socketpair()
    loop.add_reader(ours.fileno(), lambda: (ours.recv(1), loop.call_later(0.01, loop.stop)))
    theirs.send(b"x")
    began = time.monotonic()
    loop.run_forever()
    assert time.monotonic() - began < LIMIT_SECONDS / 2
    loop.call_soon_threadsafe(loop.stop)
    loop.run_forever()
    loop.remove_reader(ours.fileno())
    ours.close()
    theirs.close()


def test_a_signal_is_handled(loop: asyncio.AbstractEventLoop) -> None:
    loop.add_signal_handler(signal.SIGUSR1, loop.stop)
    loop.call_later(0.01, os.kill, os.getpid(), signal.SIGUSR1)
    began = time.monotonic()
    loop.run_forever()
    assert time.monotonic() - began < LIMIT_SECONDS / 2


def test_a_callback_that_fails_is_logged_and_the_others_go_on(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    bell = Bell(loop)

    def fail() -> None:
        loop.call_soon(loop.stop)
        raise ValueError("of mine")

    bell.then = fail
    bell.ring()
    loop.run_forever()
    assert "of mine" in caplog.text


def test_coroutines_run(loop: asyncio.AbstractEventLoop) -> None:
    async def exchange() -> bytes:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            theirs.setblocking(False)
            await loop.sock_sendall(ours, b"through")
            return await loop.sock_recv(theirs, 10)

    assert loop.run_until_complete(exchange()) == b"through"


def test_an_alarm_rings_once_when_it_is_due(loop: asyncio.AbstractEventLoop) -> None:
    rings: list[float] = []
    alarm = add_alarm(loop, lambda: rings.append(time.monotonic()))
    due = time.monotonic() + 0.02
    alarm.set(due + 60)
    alarm.set(due)
    loop.call_later(0.1, loop.stop)
    loop.run_forever()
    assert len(rings) == 1 and due <= rings[0] < due + LIMIT_SECONDS / 2


def test_an_alarm_is_moved_and_taken_back(loop: asyncio.AbstractEventLoop) -> None:
    rings: list[float] = []
    alarm = add_alarm(loop, lambda: (rings.append(time.monotonic()), loop.stop()))
    begun = time.monotonic()
    alarm.set(begun + 0.01)
    alarm.set(begun + 0.03)
    loop.run_forever()
    assert len(rings) == 1 and rings[0] >= begun + 0.03
    alarm.set(begun + 0.04)
    alarm.set(None)
    loop.call_later(0.05, loop.stop)
    loop.run_forever()
    assert len(rings) == 1


def test_a_callback_sets_an_alarm(loop: asyncio.AbstractEventLoop) -> None:
    alarm = add_alarm(loop, loop.stop)
    bell = Bell(loop, lambda: alarm.set(time.monotonic() + 0.01))
    bell.ring()
    began = time.monotonic()
    loop.run_forever()
    assert 0.01 <= time.monotonic() - began < LIMIT_SECONDS / 2
