"""The parts of executions inside the bars of the task streams."""

from __future__ import annotations

import json
import struct

import pytest

from scaler_protocol.monitor import bar_parts, records
from scaler_protocol.monitor.messages import Events, SchedulerStatus, Snapshot
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.records import Naming
from scaler_scheduler.top.lines import text_of
from scaler_scheduler.top.screen import draw
from scaler_scheduler.top.view import View
from scaler_scheduler.web.answers import answer, stream

SECOND = 1_000_000
PARTS = (2 * SECOND, SECOND, 3 * SECOND)
"""Fetching, loading and storing of an execution that takes ten seconds."""


def model_of(*parts: tuple[int, int, int, int, int], durations: tuple[int, ...] = (10 * SECOND,)) -> Model:
    """Tasks 1, 2, ... of one worker, which ended 100 seconds after 1970, with these rows of parts."""
    tasks = range(1, len(durations) + 1)
    names = (
        records.name_record(Naming.SESSION, 0, {"session": "ab" * 16, "host": "h", "pid": 1}),
        records.name_record(Naming.FUNCTION, 0, {"digest": "01" * 16, "name": "simulate"}),
        records.name_record(Naming.AGENT, 0, {"name": "node", "host": "node", "pid": 2, "workers": ["node-0"]}),
    )
    ended = records.ended_record(
        tasks, durations, [1] * len(durations), [0] * len(durations),
        time=100 * SECOND, session=0, function=0, agent=0, worker=0,
    )  # fmt: skip
    some = (*names, ended, *([records.parts_record(parts, time=100 * SECOND, session=0)] if parts else []))
    model = Model(0.0)
    model.apply(Events(100.5, 0, b"".join(some), 0, len(some), 1), 0.0)
    model.apply(Snapshot(SchedulerStatus("tcp://127.0.0.1:1", 1), time=100.5), 0.0)
    return model


def found(model: Model, start: float, stop: float, width: int, least: float = 4) -> list[tuple[str, float, float]]:
    workers = [row.worker_index for row in model.stream_rows()]
    bars = model.bars(start, stop, width, workers)
    parts = model.bar_parts(bars, start, stop, width, least)
    return [(part.name, round(part.x0, 3), round(part.x1, 3)) for part in parts]


def test_parts_stand_where_their_time_was() -> None:
    model = model_of((1, 1, *PARTS))
    assert found(model, 80.0, 100.0, 200) == [("fetching", 100, 120), ("loading", 120, 130), ("storing", 170, 200)]


def test_parts_end_at_the_edges() -> None:
    model = model_of((1, 1, *PARTS))
    assert found(model, 91.0, 98.0, 70) == [("fetching", 0, 10), ("loading", 10, 20), ("storing", 60, 70)]
    assert found(model, 93.0, 97.0, 40) == []


def test_narrow_bars_and_narrow_parts_have_none() -> None:
    model = model_of((1, 1, *PARTS))
    assert found(model, 0.0, 100.0, 40, least=5) == []
    assert found(model, 0.0, 100.0, 40) == [("fetching", 36, 36.8), ("storing", 38.8, 40)]


def test_other_attempts_and_merged_tasks_have_none() -> None:
    assert found(model_of((1, 2, *PARTS)), 80.0, 100.0, 200) == []
    assert found(model_of(), 80.0, 100.0, 200) == []
    merged = model_of((1, 1, 10, 10, 10), (2, 1, 10, 10, 10), durations=(50, 50))
    assert found(merged, 80.0, 101.0, 200, least=0.1) == []


def test_a_flood_of_wide_bars_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bar_parts, "BARS_LIMIT", 1)
    both = model_of((1, 1, *PARTS), (2, 1, *PARTS), durations=(10 * SECOND, 10 * SECOND))
    assert [name for name, *_ in found(both, 80.0, 100.0, 200)] == ["fetching", "loading", "storing"]


@pytest.mark.parametrize(("blocks", "marks"), [(True, "▂▄█▆"), (False, ".:a'")])
def test_a_terminal_draws_them_lower(blocks: bool, marks: str) -> None:
    model = model_of((1, 1, *PARTS))
    lines = [text_of(line) for line in draw(model, View(page="stream"), 100, 24, 0.0, "", blocks).lines]
    row = next(line for line in lines if line.startswith("node|node-0"))
    assert [mark for mark in marks if mark in row.partition("|")[2].partition("|")[2]] == list(marks)
    for mark, name in zip(marks[:2] + marks[3:], ("fetching", "loading", "storing"), strict=True):
        assert f"{mark} {name}" in lines[-1]


def test_a_browser_gets_places_and_a_tooltip_with_each_part() -> None:
    model = model_of((1, 1, *PARTS))
    query = {"what": "stream", "end": 100.0, "span": 20.0, "width": 200, "first": 0, "rows": 50}
    data = stream(model, query, "stream")
    head = json.loads(data[4 : 4 + struct.unpack_from("<I", data)[0]])
    assert head["parts"] == [[0, "fetching", 100, 120], [0, "loading", 120, 130], [0, "storing", 170, 200]]
    assert set(head["tints"]) == {"fetching", "loading", "storing"}
    facts = answer(model, {"what": "task", "serial": 0})["facts"]
    assert facts[-4:] == [("fetching", "2s"), ("loading", "1s"), ("running", "4s"), ("storing", "3s")]
