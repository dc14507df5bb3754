"""Messages of a page of scaler_ui: it is shown what it asks for, or refused; nothing else raises.

Answers are JSON, whatever names the monitor has received.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from fuzz.choices import Choices
from fuzz.events import a_snapshot, some_events
from scaler_protocol.monitor.model import Model
from scaler_scheduler.web.answers import _ANSWERS
from scaler_scheduler.web.page import Page

LOOK = bytes(range(7, 250))
REFUSED = (KeyError, ValueError, TypeError, OverflowError)
"""The server ends a page with these; with AttributeError and RecursionError only while it reads a message."""

ODD = (
    None, True, False, -1, 0, 1, 5, 1000, 2**31, 2**63, -(2**70), 0.5, -1e308, float("inf"), float("nan"), "", "name",
    "0" * 32, "x" * 300, "\0", "functions", "tasks", "count", [], [1, [2]], {}, {"a": 1},
)  # fmt: skip
NAMES = (
    "table", "filter", "sort", "descending", "offset", "limit", "key", "kind", "name", "session", "graph", "number",
    "start", "stop", "width", "serial", "latest", "points", "history",
)  # fmt: skip


@cache
def some_model() -> Model:
    """The same for all inputs: what is fuzzed is the page."""
    model = Model(0.0, task_limit=200)
    choices = Choices(LOOK * 4)
    for now in range(6):
        model.apply(a_snapshot(choices) if now % 2 else some_events(choices), float(now))
    return model


def odd_query(choices: Choices) -> dict[str, Any]:
    """One that no page asks, mostly with names that queries have."""
    names = [choices.pick(NAMES) for _ in range(choices.below(12))]
    return {"what": choices.pick([*_ANSWERS, "stream", "samples", 5])} | {name: choices.pick(ODD) for name in names}


def lines(data: bytes) -> Iterator[bytes]:
    """Messages: the lines of the input, or queries made of its bytes."""
    if data[:1] != b"\0":
        yield from data.split(b"\n")[:4]
        return
    choices = Choices(data[1:])
    while choices.more:
        watch = {str(number): odd_query(choices) for number in range(choices.below(3))}
        yield json.dumps({"watch": watch, "seen": choices.pick(ODD)}).encode()


def one_input(data: bytes) -> None:
    page = Page()
    for line in lines(data):
        try:
            said = dict(json.loads(line))
            if "seen" in said:
                page.saw(int(said["seen"]))
            if "watch" in said:
                page.watch(dict(said["watch"]))
        except (*REFUSED, AttributeError, RecursionError):
            return
        for quick in (False, True):
            try:
                messages = page.push(some_model(), {}, quick)
            except REFUSED:
                return
            for message in messages:
                if isinstance(message, str):
                    json.loads(message)


def seeds() -> Iterator[bytes]:
    table = {"table": "functions", "filter": "", "sort": None, "descending": False, "offset": 0, "limit": 50}
    others = {"key": "0" * 32, "name": "name", "session": "0" * 16, "start": 0, "stop": 9, "width": 100, "number": 1}
    for what in (*_ANSWERS, "stream", "samples", "task"):
        yield json.dumps({"watch": {"a": {"what": what, **table, **others}}, "seen": 1}).encode()
    for first in range(8):
        yield b"\0" + bytes(range(first, 200, 3))
