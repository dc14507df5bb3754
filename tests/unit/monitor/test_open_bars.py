"""Bars of running tasks in the task stream."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler_protocol.limits import NO_WORKER
from scaler_protocol.monitor.entities import Fact, page_of
from scaler_protocol.monitor.links import WORKER, EntityLink
from scaler_protocol.monitor.messages import Snapshot
from scaler_protocol.monitor.model import Model
from scaler_scheduler.top.lines import text_of
from scaler_scheduler.top.screen import draw
from scaler_scheduler.top.view import View
from scaler_scheduler.web.answers import stream
from tests.support.monitor_stream import synthetic_messages

MESSAGES = list(synthetic_messages(4, 40, 300))


@pytest.fixture
def model() -> Model:
    """The first worker of each agent has run a task for a minute when the last snapshot arrives."""
    made = Model(0.0)
    for message in MESSAGES:
        made.apply(message, 0.0)
    return made


def latest(model: Model) -> Snapshot:
    assert model.snapshot is not None
    return model.snapshot


def test_a_running_task_is_a_bar_from_its_start_to_the_last_snapshot(model: Model) -> None:
    time = latest(model).time
    rows = model.stream_rows()
    bars = model.open_bars(time - 90.0, time + 10.0, 1000, [row.worker_index for row in rows])
    assert len(bars) == len(latest(model).agents)
    for bar in bars:
        assert rows[bar.row].worker.name == bar.running.worker
        assert (round(bar.x0), round(bar.x1)) == (round((bar.running.started - time + 90.0) * 10), 900)
        assert bar.function is not None and model.activity.function_name(bar.function) == bar.running.task.function


def test_a_bar_that_began_earlier_begins_at_the_left_edge(model: Model) -> None:
    time = latest(model).time
    workers = [row.worker_index for row in model.stream_rows()]
    assert {(bar.x0, round(bar.x1)) for bar in model.open_bars(time - 10.0, time, 100, workers)} == {(0.0, 100)}
    assert {(bar.x0, round(bar.x1)) for bar in model.open_bars(time - 20.0, time - 10.0, 100, workers)} == {(0.0, 100)}
    assert model.open_bars(time - 90.0, time - 70.0, 100, workers) == []
    assert model.open_bars(time + 1.0, time + 2.0, 100, workers) == []
    assert model.open_bars(time - 10.0, time, 100, []) == []


def test_a_nested_task_has_a_row_and_a_bar_before_another_one_has_ended_there(model: Model) -> None:
    last = latest(model)
    agent = last.agents[0]
    nested = replace(agent.running[0], task=99, worker=len(agent.workers) + 1)
    model.apply(replace(last, agents=(replace(agent, running=(nested,)), *last.agents[1:])), 1.0)
    rows = model.stream_rows()
    bars = model.open_bars(last.time - 90.0, last.time, 100, [row.worker_index for row in rows])
    (bar,) = [each for each in bars if each.running.task.task == 99]
    assert rows[bar.row].name == bar.running.worker == f"{agent.name} nested 2"
    page = page_of(model, EntityLink(WORKER, (agent.host, bar.running.worker)))
    assert page is not None and Fact("state", "runs a nested task") in page.facts


def test_what_no_record_has_named_has_no_colour_and_no_named_row(model: Model) -> None:
    last = latest(model)
    unknown = replace(last.agents[0].running[0], digest=b"?" * 16, worker=NO_WORKER)
    stranger = replace(last.agents[1], session=b"!" * 16)
    model.apply(replace(last, agents=(replace(last.agents[0], running=(unknown,)), stranger)), 1.0)
    rows = model.stream_rows()
    (bar,) = model.open_bars(last.time - 90.0, last.time, 100, [row.worker_index for row in rows])
    assert (bar.function, rows[bar.row].worker.number) == (None, None)


@pytest.mark.parametrize("blocks", [True, False])
def test_the_terminal_draws_an_arrow_with_the_name(blocks: bool) -> None:
    model = Model(0.0)
    for message in (MESSAGES[1], MESSAGES[-1]):
        model.apply(message, 0.0)
    lines = [text_of(line) for line in draw(model, View(page="stream"), 120, 30, 0.0, "", blocks).lines]
    line = "━" if blocks else "="
    assert any(line * 5 in each and each.rstrip().endswith(">") for each in lines)
    assert "running" in lines[3] and f"{line} running" in lines[-1]


def test_the_page_of_a_browser_gets_place_and_facts(model: Model) -> None:
    query = {"what": "stream", "end": None, "span": 30, "width": 800, "first": 0, "rows": 50}
    answer = stream(model, query, "stream").decode("latin-1")
    assert '"stuck": true' in answer and '"running for", "60 s"' in answer
