"""The task stream without widgets: what is in sight, marks of time, pixels."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy
import pytest

from scaler_gui.models import stream_rows
from scaler_gui.models.stream_image import ink, paint, stretched
from scaler_gui.models.stream_window import ROW_HEIGHTS, SHORTEST_SECONDS, StreamWindow
from scaler_gui.models.time_axis import span_text, ticks
from scaler_protocol.messages import Status
from scaler_protocol.monitor import task_stream
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.palette import CANCELED_COLOUR, FAILED_COLOUR, function_colour
from scaler_protocol.monitor.task_log import TaskLog
from tests.support.monitor_stream import synthetic_messages
from tests.unit.monitor.test_actor_names import model as model_of_actors

WHITE = "#ffffff"


def packed(colour: str) -> int:
    return 0xFF000000 | int(colour[1:], 16)


def window(oldest: float = 1000.0, newest: float = 2000.0) -> StreamWindow:
    made = StreamWindow()
    made.set_data(oldest, newest)
    return made


# ---- what is in sight ------------------------------------------------------------------------------------------------


def test_it_follows_the_newest_until_it_is_moved() -> None:
    shown = window()
    shown.set_data(1000.0, 2010.0)
    assert shown.end == 2010.0
    shown.pan(-0.5)
    shown.set_data(1000.0, 2050.0)
    assert not shown.follows and shown.end == 2010.0 - 0.5 * shown.span_seconds
    shown.follow()
    assert shown.end == 2050.0


def test_moving_to_the_newest_follows_again() -> None:
    shown = window()
    shown.pan(-0.5)
    shown.pan(0.3)
    assert not shown.follows
    shown.pan(0.3)
    assert shown.follows


@pytest.mark.parametrize("anchor", [0.0, 0.25, 0.5])
def test_zoom_keeps_what_is_under_the_pointer(anchor: float) -> None:
    shown = window()
    shown.show(1400.0, 1500.0)
    before = shown.start + anchor * shown.span_seconds
    shown.zoom(0.1, anchor)
    assert shown.span_seconds == pytest.approx(10.0)
    assert shown.start + anchor * shown.span_seconds == pytest.approx(before)


def test_zoom_at_the_newest_end_goes_on_following() -> None:
    shown = window()
    shown.zoom(0.01)
    assert shown.follows and shown.end == 2000.0
    shown.zoom(1e-12)
    assert shown.span_seconds == SHORTEST_SECONDS


def test_one_cannot_get_lost() -> None:
    shown = window()
    for _ in range(1000):
        shown.pan(-1.0)
    assert shown.end > 1000.0
    for _ in range(2000):
        shown.pan(1.0)
    assert shown.start < 2000.0


def test_fit_shows_all() -> None:
    shown = window()
    shown.fit()
    assert shown.start <= 1000.0 and shown.end >= 2000.0


def test_rows_scroll_within_what_there_is() -> None:
    shown = window()
    shown.scroll_rows(1000, visible_rows=10, all_rows=40)
    assert shown.first_row == 30
    shown.scroll_rows(-1000, visible_rows=10, all_rows=40)
    assert shown.first_row == 0
    shown.fit_rows(4, 600)
    assert shown.row_height == ROW_HEIGHTS[-1]
    shown.fit_rows(400, 600)
    assert shown.row_height == 16
    for _ in range(20):
        shown.resize_rows(1)
    shown.fit_rows(400, 600)
    assert shown.row_height == ROW_HEIGHTS[-1]


# ---- marks of time ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("span", [30e-6, 0.004, 0.7, 12.0, 700.0, 9_000.0, 200_000.0, 4e6])
def test_marks_are_few_and_tell_themselves_apart(span: float) -> None:
    found = ticks(1_700_000_000.0, 1_700_000_000.0 + span, 8)
    labels = [tick.label for tick in found]
    assert 2 <= len(labels) <= 9
    assert all(one != next_one for one, next_one in zip(labels, labels[1:], strict=False))


@pytest.mark.parametrize(("seconds", "text"), [(2e-5, "20 us"), (0.5, "500 ms"), (30, "30 s"), (90, "1.5 min")])
def test_spans_in_words(seconds: float, text: str) -> None:
    assert span_text(seconds) == text


# ---- pixels ----------------------------------------------------------------------------------------------------------


def log_of(*tasks: tuple[float, float, int, int, int]) -> TaskLog:
    """(start, end, function, worker, status), times in seconds."""
    log = TaskLog()
    for number, (start, end, function, worker, status) in enumerate(tasks):
        log.append(number, round(end * 1e6), round((end - start) * 1e6), 0, function, worker, 1, status)
    return log


def image_of(log: TaskLog, start: float, stop: float, width: int, workers: list[int]) -> numpy.ndarray:
    found = task_stream.bars(log, round(start * 1e6), round(stop * 1e6), width, workers)
    return paint(found, len(workers), width, ink(WHITE), lambda index: index)


def test_a_long_task_has_the_colour_of_its_function() -> None:
    image = image_of(log_of((10.0, 60.0, 3, 7, Status.SUCCESS)), 0.0, 100.0, 100, [7])
    assert set(image[0, 10:59]) == {packed(function_colour(3))}
    assert set(image[0, :10]) == set(image[0, 60:]) == {packed(WHITE)}


def test_neighbours_are_parted() -> None:
    image = image_of(log_of((0, 50, 1, 0, Status.SUCCESS), (50, 100, 1, 0, Status.SUCCESS)), 0.0, 100.0, 100, [0])
    assert image[0, 49] == packed(WHITE) and image[0, 50] == packed(function_colour(1))


@pytest.mark.parametrize(("status", "colour"), [(Status.EXCEPTION, FAILED_COLOUR), (Status.CANCELLED, CANCELED_COLOUR)])
def test_one_failure_among_many_short_tasks_is_seen(status: int, colour: str) -> None:
    tasks = [(n / 100, n / 100 + 0.005, 0, 0, status if n == 4321 else Status.SUCCESS) for n in range(10_000)]
    image = image_of(log_of(*tasks), 0.0, 100.0, 100, [0])
    assert image[0, 43] == packed(colour)


@pytest.mark.parametrize("status", [Status.CANCELLED, Status.PROCESSOR_DIED])
def test_an_actor_that_has_ended_lies_beneath_its_calls(status: int) -> None:
    log = log_of((10, 20, 1, 0, 0), (30, 30.5, 1, 0, 0), (40, 90, 2, 0, 0), (5, 95, 3, 0, status))
    image = image_of(log, 0.0, 100.0, 100, [0])
    ended = packed(CANCELED_COLOUR if status == Status.CANCELLED else FAILED_COLOUR)
    assert [image[0, x] for x in (7, 15, 25, 60, 92)] == [
        ended, packed(function_colour(1)), ended, packed(function_colour(2)), ended,
    ]  # fmt: skip
    assert image[0, 30] != ended
    found = task_stream.bars(log, 0, 100_000_000, 100, [0])
    assert [found.functions[stream_rows.bar_at(found, 0, x)] for x in (7, 15, 25, 60)] == [3, 1, 3, 2]
    assert list(stream_rows.open_ends(found)) == [10, 20, 31, 90]


def test_idle_pixels_are_fainter_than_busy_ones() -> None:
    few = image_of(log_of(*((n, n + 0.01, 0, 0, Status.SUCCESS) for n in range(100))), 0.0, 100.0, 100, [0])
    many = image_of(log_of(*((n, n + 0.99, 0, 0, Status.SUCCESS) for n in range(100))), 0.0, 100.0, 100, [0])
    assert (few[0, 50] & 0xFF0000) > (many[0, 50] & 0xFF0000)


def test_rows_are_as_tall_as_wanted_with_a_gap() -> None:
    image = image_of(log_of((0, 100, 0, 0, 0), (0, 100, 0, 1, 0)), 0.0, 100.0, 100, [0, 1])
    tall = stretched(image, 12, WHITE)
    assert tall.shape == (24, 100)
    assert list(tall[:12, 50]) == [packed(function_colour(0))] * 10 + [packed(WHITE)] * 2


def test_nothing_to_paint() -> None:
    assert set(image_of(TaskLog(), 0.0, 1.0, 10, [0, 1]).ravel()) == {packed(WHITE)}


def test_a_million_bars_are_painted_in_a_moment() -> None:
    log = TaskLog()
    for number in range(1_000_000):
        log.append(number, number * 30 + 900, 20 + number % 800, 0, number % 6, number % 40, 1, 0)
    began = time.perf_counter()
    for span in (30.0, 3.0, 0.03):
        stretched(image_of(log, 30.0 - span, 30.0, 1600, list(range(40))), 16, WHITE)
    assert time.perf_counter() - began < 1.5  # about 0.1 s on an idle machine


# ---- words -----------------------------------------------------------------------------------------------------------


def test_a_bar_says_what_it_stands_for() -> None:
    model = Model(0.0)
    for number, message in enumerate(synthetic_messages(3.0, 4, 400)):
        model.apply(message, float(number))
    rows = model.stream_rows()
    found = model.bars(model.time - 3.0, model.time, 1000, [row.worker_index for row in rows])
    bar = stream_rows.bar_at(found, found.rows[0], (found.x0[0] + found.x1[0]) / 2)
    assert bar is not None
    lines = stream_rows.tip(model, found, bar).splitlines()
    assert lines[1].startswith("task ") and ", ran " in lines[2] and " to " in lines[3]
    assert stream_rows.bar_at(found, 0, -50.0) is None
    assert len(stream_rows.labels(rows)) == len(rows)
    assert stream_rows.functions_in(found, 3)


def test_the_name_of_a_running_task_has_room_where_its_row_has_no_other_bars() -> None:
    model = Model(0.0)
    for message in synthetic_messages(2, 8, 100):
        model.apply(message, 0.0)
    workers = [each.worker_index for each in model.stream_rows()]
    shown = model.bars(model.time - 10, model.time, 100, workers)
    row = shown.rows[0]
    open_bar = model.open_bars(model.time - 10, model.time, 100, workers)[0]._replace(row=row)
    first, last = (
        edge(x for x, at in zip(edges, shown.rows, strict=True) if at == row)
        for edge, edges in ((min, shown.x0), (max, shown.x1))
    )
    assert stream_rows.name_room(shown, open_bar._replace(x0=first - 30, x1=last + 10)) == (first - 30, first)
    assert stream_rows.name_room(shown, open_bar._replace(x0=first - 10, x1=last + 30)) == (last, last + 30)
    assert stream_rows.name_room(shown, open_bar._replace(x0=last + 5, x1=last + 9)) == (last + 5, last + 9)
    assert stream_rows.name_room(shown, open_bar._replace(row=1000, x0=5.0, x1=9.0)) == (5, 9)


def test_a_running_task_has_a_tip_where_its_bar_is() -> None:
    model = Model(0.0)
    for message in synthetic_messages(2, 8, 100):
        model.apply(message, 0.0)
    bars = model.open_bars(model.time - 10, model.time, 100, [row.worker_index for row in model.stream_rows()])
    assert stream_rows.open_bar_at(bars, bars[0].row, 50.0) == bars[0]
    assert stream_rows.open_bar_at(bars, bars[0].row, 150.0) is None
    lines = stream_rows.open_tip(bars[0]).splitlines()
    assert lines[0] == "simulate" and lines[1].startswith("task 1000000 of client")
    assert lines[2].startswith("stuck? ") and "for 60 s since" in lines[2]
    running = bars[0].running
    call = bars[0]._replace(running=replace(running, task=replace(running.task, actor_name="ledger")))
    assert stream_rows.open_tip(call).splitlines()[1] == "actor ledger"


def test_the_tip_of_a_call_names_its_actor() -> None:
    model = model_of_actors()
    workers = [row.worker_index for row in model.stream_rows()]
    found = model.bars(1.0, 3.0, 100, workers)
    seconds = {stream_rows.tip(model, found, bar).splitlines()[1] for bar in range(len(found.rows))}
    assert {"actor ledger", "actor audit"} == {line for line in seconds if not line.startswith("task ")}
