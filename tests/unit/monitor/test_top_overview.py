"""The first page of ``scaler_top``, and the pages of single things."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler_protocol.monitor.format import display_width
from scaler_protocol.monitor.messages import PeerState
from scaler_protocol.monitor.model import Model
from scaler_scheduler.top.lines import Style, text_of
from scaler_scheduler.top.screen import Screen, draw
from scaler_scheduler.top.view import PAGES, View
from tests.support.monitor_stream import synthetic_messages
from tests.support.monitoring import agent_status, snapshot

SIZES = [(1, 1), (5, 3), (20, 5), (40, 10), (60, 14), (80, 24), (119, 30), (120, 40), (200, 50), (250, 60)]


@pytest.fixture(scope="module")
def model() -> Model:
    made = Model(0.0)
    for message in synthetic_messages(8, 24, 300):
        made.apply(message, 100.0)
    return made


def shown(model: Model, width: int, height: int, *, page: str = "overview", blocks: bool = True) -> list[str]:
    screen = draw(model, View(page=page), width, height, 100.0, "address", blocks)
    return [text_of(line).rstrip() for line in screen.lines]


def pressed(model: Model, page: str, *keys: str, width: int = 100, height: int = 40) -> tuple[View, Screen]:
    view = View(page=page)
    screen = draw(model, view, width, height, 100.0, "address")
    for key in keys:
        view = view.pressed(key, screen.page_rows, screen.selected, screen.targets)
        screen = draw(model, view, width, height, 100.0, "address")
    return view, screen


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("blocks", [True, False])
def test_it_fits_every_terminal(model: Model, width: int, height: int, blocks: bool) -> None:
    empty, crowded = Model(0.0), Model(0.0)
    empty.apply(replace(snapshot(), functions=(), clients=()), 100.0)
    crowded.apply(snapshot(tuple(agent_status(number, 80, host=f"host-{number}") for number in range(60))), 100.0)
    for each in (model, empty, crowded):
        lines = shown(each, width, height, blocks=blocks)
        assert len(lines) <= height
        assert all(display_width(line) <= width for line in lines)
        assert blocks or all(line.isascii() for line in lines)


def test_80x24_answers_whether_all_is_well_who_runs_what_and_how_long_it_takes(model: Model) -> None:
    text = "\n".join(shown(model, 80, 24))
    for word in ("Tasks ", "Workers ", "CPU ", "Memory ", "to do,", "until ", "24 of 24 busy", "Throughput 300/s"):
        assert word in text
    assert "Running" in text and "stuck?" in text
    assert "abababab notebook (pid 777)" in text and "s left" in text
    assert shown(model, 80, 24)[-1].startswith("? keys  q quit  t running")


def test_a_wide_terminal_is_used(model: Model) -> None:
    lines = shown(model, 200, 50)
    text = "\n".join(lines)
    for title in ("Progress", "Running", "Clients", "Functions", "Hosts", "Failures"):
        assert title in text
    assert sum(len(line) > 110 for line in lines) > 15


def test_a_silent_host_and_full_memory_stand_out() -> None:
    made = Model(0.0)
    silent = replace(
        agent_status(1, 2, state=PeerState.SUSPECT, host="quiet", silent_seconds=40.0), rss_free_bytes=1024
    )
    full = replace(agent_status(0, 4, host="full"), rss_free_bytes=1024, memory_limit_bytes=1 << 30)
    made.apply(snapshot((full, silent)), 100.0)
    screen = draw(made, View(page="overview"), 100, 40, 100.0, "address")
    styles = {span.style for line in screen.lines for span in line if "silent for 40 s" in span.text}
    assert Style.WARNING in styles
    memory = next(line for line in screen.lines if text_of(line).startswith("Memory   ["))
    assert Style.BAD in {span.style for span in memory}


@pytest.mark.parametrize("word", ["paused", "draining"])
def test_a_host_that_is_paused_or_leaves_says_so(word: str) -> None:
    made = Model(0.0)
    agent = agent_status(0, 2, state=PeerState.PAUSED, host="resting")
    made.apply(snapshot((replace(agent, draining=word == "draining"),)), 100.0)
    (line,) = [line for line in shown(made, 100, 40) if line.startswith("resting ")]
    assert f" {word} " in line


def test_keys_for_sorting_and_moving_do_nothing_there(model: Model) -> None:
    view = View(page="overview")
    assert all(view.pressed(key, 10) == view for key in ("s", "S", "r", "down", "end", "enter", "x"))
    assert view.pressed("i", 10).page == "workers"
    assert view.pressed("g", 10).page == "progress"
    assert view.pressed("backtab", 10).page == [*PAGES.values()][-1]


@pytest.mark.parametrize("page", ["running", "functions", "objects", "graphs", "tasks", "clients"])
def test_enter_shows_all_that_is_known_of_a_row(model: Model, page: str) -> None:
    view, screen = pressed(model, page, "enter")
    lines = [text_of(line) for line in screen.lines]
    assert view.details_of is not None
    assert any(name in lines[3] for name in ("Task ", "Host ", "Graph ", "Client ", "simulate"))
    back, _ = pressed(model, page, "enter", "escape")
    assert back.details_of is None and back.page == page


def test_a_failed_task_tells_its_traceback(model: Model) -> None:
    place = [row[4] for row in model.rows("tasks")[0]].index("exception")
    _, screen = pressed(model, "tasks", *["down"] * place, "enter", width=80, height=60)
    text = "\n".join(text_of(line) for line in screen.lines)
    assert "state  exception" in text


def test_what_is_gone_says_so(model: Model) -> None:
    view, _ = pressed(model, "running", "enter")
    empty = Model(0.0)
    empty.apply(snapshot(), 100.0)
    screen = draw(empty, view, 80, 24, 100.0, "address")
    assert "nothing is known of it any more" in "\n".join(text_of(line) for line in screen.lines)
