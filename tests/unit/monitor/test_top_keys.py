"""Keys of ``scaler_top`` that arrive together."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

import pytest

from scaler_protocol.monitor.messages import FunctionStatus
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.past import find_past
from scaler_scheduler.top.application import Application
from scaler_scheduler.top.lines import Line, text_of
from scaler_scheduler.top.source import ScreenSource
from scaler_scheduler.top.terminal import Terminal
from tests.support.monitor_stream import START_TIME, synthetic_messages
from tests.support.monitoring import snapshot


class Source:
    """A model that does not change, of which the screen is painted again and again."""

    repaint_seconds = 0.0
    now = 1.0

    def __init__(self, model: Model) -> None:
        self.model = model

    def register(self, poller: object) -> None:
        pass

    def take(self) -> None:
        pass

    def pressed(self, key: str) -> bool:
        return False

    def go_to(self, text: str) -> float | None:
        return find_past(self.model, text, "scaler_top")

    def line(self, width: int, blocks: bool) -> Line:
        return ()


class FakeTerminal:
    """Types some keys at once, and quits when what they lead to has been painted."""

    size = (100, 30)
    shows_blocks = takes_more = True

    def __init__(self, keys: Sequence[str]) -> None:
        self._turns = iter([keys, "q"])
        self.screens: list[str] = []

    def follow_size(self) -> None:
        pass

    def typed(self) -> Iterator[str]:
        yield from next(self._turns)

    def paint(self, lines: Sequence[Line]) -> None:
        self.screens.append("\n".join(map(text_of, lines)))


def screen_after(monkeypatch: pytest.MonkeyPatch, model: Model, *keys: str) -> str:
    read_fd, write_fd = os.pipe()
    with open(read_fd) as stdin, open(write_fd, "w"):
        monkeypatch.setattr("sys.stdin", stdin)
        terminal = FakeTerminal(keys)
        source = cast(ScreenSource, Source(model))
        Application(source, cast(Terminal, terminal), "tcp://h:1", page="functions").run()
    return terminal.screens[-1]


def test_each_acts_on_what_the_one_before_it_has_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    functions = [FunctionStatus(bytes([n]) * 16, f"number{n}", 0, 9 - n, succeeded=9 - n, number=n) for n in range(4)]
    model = Model(0.0)
    model.apply(replace(snapshot(), functions=tuple(functions)), 1.0)
    assert "02" * 16 in screen_after(monkeypatch, model, "down", "down", "enter")


def test_a_typed_time_shows_what_happened_then(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(0.0)
    for message in synthetic_messages(40.0, 4, 50):
        model.apply(message, 1.0)
    clock = datetime.datetime.fromtimestamp
    past = f":{clock(START_TIME + 15):%H:%M:%S}"
    assert f"20s until {clock(START_TIME + 25)}" in screen_after(monkeypatch, model, *past, "enter")
    assert f"10s until {clock(START_TIME + 20)}" in screen_after(monkeypatch, model, *past, "enter", "+")
    assert "20s until now" in screen_after(monkeypatch, model, *past, "enter", "escape")
    unknown = screen_after(monkeypatch, model, *f":{clock(START_TIME - 3600):%H:%M}", "enter")
    assert "Cannot go to" in unknown and "started with --event-log DIR" in unknown
