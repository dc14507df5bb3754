"""Callbacks inside a TurnGuard, in both kinds of loops."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator

import pytest

from scaler_protocol.command.guarded_loop import GuardedLoop
from scaler_protocol.command.prompt_loop import PromptEventLoop
from scaler_protocol.command.turn_guard import BROKEN_CODE, FAILED_TURNS_LIMIT, TurnGuard


def fail() -> None:
    raise ValueError("it fails")


@pytest.fixture(params=[asyncio.SelectorEventLoop, PromptEventLoop])
def loop(request: pytest.FixtureRequest) -> Iterator[asyncio.AbstractEventLoop]:
    made = request.param()
    yield made
    made.close()


@pytest.fixture
def ready() -> Iterator[int]:
    """A descriptor that is readable."""
    reader, writer = os.pipe()
    os.write(writer, b"x")
    yield reader
    os.close(reader)
    os.close(writer)


Register = Callable[[GuardedLoop, int, Callable[[], None]], object]

WAYS: dict[str, Register] = {
    "call_soon": lambda loop, fd, callback: loop.call_soon(callback),
    "call_later": lambda loop, fd, callback: loop.call_later(0.001, callback),
    "call_soon_threadsafe": lambda loop, fd, callback: threading.Thread(
        target=loop.call_soon_threadsafe, args=(callback,)
    ).start(),
    "add_reader": lambda loop, fd, callback: loop.add_reader(fd, callback),
    "add_prompt_reader": lambda loop, fd, callback: loop.add_prompt_reader(fd, callback),
    "add_alarm": lambda loop, fd, callback: loop.add_alarm(callback).set(0.0),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_kind_of_callback_is_inside_the_guard(way: str, loop: asyncio.AbstractEventLoop, ready: int) -> None:
    guard = TurnGuard("Test", limit=1)
    WAYS[way](GuardedLoop(loop, guard), ready, fail)
    with pytest.raises(SystemExit) as ended:
        loop.run_forever()
    assert ended.value.code == BROKEN_CODE


def test_failures_in_a_row_end_the_loop_and_a_success_starts_the_count_again(loop: asyncio.AbstractEventLoop) -> None:
    guarded = GuardedLoop(loop, TurnGuard("Test"))
    for _ in range(FAILED_TURNS_LIMIT - 1):
        guarded.call_soon(fail)
    guarded.call_soon(lambda: None)
    for _ in range(FAILED_TURNS_LIMIT - 1):
        guarded.call_soon(fail)
    guarded.call_soon(loop.stop)
    loop.run_forever()
    guarded.call_soon(fail)
    for _ in range(FAILED_TURNS_LIMIT):
        guarded.call_soon(fail)
    with pytest.raises(SystemExit):
        loop.run_forever()
