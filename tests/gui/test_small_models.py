"""The other models without widgets: addresses, alerts, spans of charts, sentences, CSV."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from scaler_gui.models import recent
from scaler_gui.models.alerts import QUIET_SECONDS, FailureAlerts, sentence
from scaler_gui.models.csv_text import write_csv
from scaler_gui.models.graph_view import Camera
from scaler_gui.models.overview import SPANS, Overview, figures, running_text, series
from scaler_gui.models.places import problem_of
from scaler_gui.models.recent import RecentAddress
from scaler_gui.models.status import live_status
from scaler_gui.models.tips import plain_tip
from scaler_protocol.monitor.messages import Snapshot
from scaler_protocol.monitor.model import Model
from tests.support.monitor_stream import synthetic_messages

# ---- addresses -------------------------------------------------------------------------------------------------------


def test_the_newest_address_is_first_and_each_stands_once() -> None:
    places = [RecentAddress(f"ipc:///tmp/{n}") for n in range(recent.LIMIT)]
    found = recent.with_newest(places, RecentAddress("ipc:///tmp/3", "/keys"))
    assert found[0] == RecentAddress("ipc:///tmp/3", "/keys")
    assert len(found) == recent.LIMIT
    assert recent.with_newest(found, RecentAddress("tcp://host:1"))[-1] != found[-1]


@pytest.mark.parametrize("text", ["", "{", "[1]", '[{"a": 1}]', "null", '{"address": "x"}'])
def test_damaged_settings_hold_no_addresses(text: str) -> None:
    assert recent.from_text(text) == []


def test_addresses_are_kept_as_they_are() -> None:
    places = [RecentAddress("tcp://höst:1", "/a b"), RecentAddress("ipc:///tmp/x")]
    assert recent.from_text(recent.to_text(places)) == places


@pytest.mark.parametrize(
    ("address", "words"),
    [("host:1", "is not an address"), ("tcp://host", "has no port"), ("inproc://x", "from another process")],
)
def test_places_where_one_cannot_connect(address: str, words: str) -> None:
    assert words in problem_of(RecentAddress(address))


def test_key_files_must_be_there(tmp_path: Path) -> None:
    place = RecentAddress("tcp://host:1", str(tmp_path))
    assert "has no observe.key and no scheduler.pub" in problem_of(place)
    for name in ("observe.key", "observe.pub", "scheduler.pub"):
        (tmp_path / name).touch()
    assert problem_of(place) == ""


# ---- alerts ----------------------------------------------------------------------------------------------------------


def test_failures_before_the_start_are_not_told() -> None:
    alerts = FailureAlerts()
    assert alerts.due(1, 500, 0.0) == 0
    assert alerts.due(1, 500, 1.0) == 0
    assert alerts.due(1, 502, 2.0) == 2


def test_many_failures_are_told_in_one() -> None:
    alerts = FailureAlerts()
    alerts.due(1, 0, 0.0)
    assert alerts.due(1, 1, 1.0) == 1
    assert [alerts.due(1, 1 + n, 1.0 + n * 0.1) for n in range(1, 50)] == [0] * 49
    assert alerts.due(1, 100, 1.0 + QUIET_SECONDS) == 99


def test_a_restarted_scheduler_counts_anew() -> None:
    alerts = FailureAlerts()
    alerts.due(1, 10, 0.0)
    assert alerts.due(2, 3, 100.0) == 0
    assert alerts.due(2, 4, 200.0) == 1


def test_what_is_told() -> None:
    assert sentence(1, "KeyError: 'x'") == "A task failed: KeyError: 'x'"
    assert sentence(1200) == "1,200 tasks failed."


# ---- overview --------------------------------------------------------------------------------------------------------


def test_charts_follow_until_they_are_moved() -> None:
    overview = Overview()
    assert overview.span(1000.0)[1] == 1000.0
    overview.pan(-0.5, 1000.0)
    before = overview.span(1000.0)
    assert not overview.follows and overview.span(2000.0) == before
    overview.show(900.0, 2000.0, 2000.0)
    assert overview.follows and overview.span(2500.0) == (1400.0, 2500.0)


def test_zoom_of_charts_has_steps_and_ends() -> None:
    overview = Overview()
    for _ in range(20):
        overview.zoom(-1, overview.span(1000.0)[1] - overview.span(1000.0)[0])
    assert overview.span(1000.0) == (1000.0 - SPANS[0], 1000.0)
    for _ in range(20):
        overview.zoom(1, overview.span(1e7)[1] - overview.span(1e7)[0])
    assert overview.span(1e7)[0] == 1e7 - SPANS[-1]


def test_numbers_are_those_of_the_last_snapshot() -> None:
    model = Model(0.0)
    assert {figure.title: figure.text for figure in figures(model)}["succeeded"] == "0"
    for number, message in enumerate(synthetic_messages(5.0, 8, 300)):
        model.apply(message, number * 0.1)
    assert model.snapshot is not None
    shown = {figure.title: figure for figure in figures(model)}
    assert shown["succeeded"].text == f"{model.snapshot.tasks.success:,}"
    assert shown["failed"].text == f"{model.snapshot.tasks.failed:,}"
    assert shown["busy workers"].text.endswith("/ 8")
    lines = series(model, "throughput", 0.0)
    assert [line.name for line in lines] == ["tasks", "failures"] and len(lines[0].times) >= 4


def test_the_longest_running_tasks_are_one_line_with_a_tone() -> None:
    model = Model(0.0)
    assert running_text(model) == ("No task has run for a second or longer.", "", "")
    for message in synthetic_messages(1.0, 8, 300):
        model.apply(message, 0.0)
    text, tone, whole = running_text(model)
    assert text.startswith("Longest running: simulate 60 s on ") and tone == "warning"
    assert whole.splitlines()[0] in text and "stuck?" in whole


# ---- sentences -------------------------------------------------------------------------------------------------------


def test_a_silent_address_is_said_after_a_moment() -> None:
    model = Model(100.0)
    assert live_status(model, 101.0, "tcp://host:1").trouble == ""
    trouble = live_status(model, 110.0, "tcp://host:1").trouble
    assert trouble == (
        "Nothing heard from tcp://host:1 for 10 s: does the scheduler run, and is this its monitor address?"
    )


def test_what_the_scheduler_cannot_do_is_said() -> None:
    model, messages = Model(100.0), list(synthetic_messages(1.0, 2, 50))
    for message in messages:
        model.apply(message, 100.0)
    assert model.snapshot is not None
    model.apply(replace(model.snapshot, trouble="The event log x cannot be written."), 100.0)
    assert live_status(model, 101.0, "a").trouble == "The event log x cannot be written."


def test_a_lost_scheduler_is_said_and_forgotten_when_it_is_back() -> None:
    model, messages = Model(100.0), list(synthetic_messages(2.0, 2, 50))
    for message in messages:
        model.apply(message, 100.0)
    assert live_status(model, 101.0, "a").trouble == ""
    assert live_status(model, 160.0, "a").trouble.startswith("The scheduler has been silent for 60 s")
    model.apply(messages[-1], 161.0)
    assert live_status(model, 161.0, "a").trouble == ""


def test_what_cannot_be_read_is_one_sentence() -> None:
    model = Model(100.0)
    model.refuse("the scheduler uses monitor protocol 9, this program 1: use both from the same release")
    trouble = live_status(model, 100.0, "a").trouble
    assert trouble == "The scheduler uses monitor protocol 9, this program 1: use both from the same release."


# ---- drawings and CSV ------------------------------------------------------------------------------------------------


def test_zoom_of_a_drawing_keeps_what_is_under_the_pointer() -> None:
    camera = Camera()
    camera.fit((0.0, 0.0, 100.0, 50.0), 800, 400)
    before = camera.to_place(200, 100, 800, 400)
    camera.zoom(3.0, 200, 100, 800, 400)
    assert camera.to_place(200, 100, 800, 400) == pytest.approx(before)
    assert not camera.fits


def test_csv_has_values_and_no_formulas(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    assert write_csv(path, ("name", "bytes"), [("=cmd()", 1.5), ("a,b", -3), ("", None)]) == 3
    assert path.read_text().splitlines() == ["name,bytes", "'=cmd(),1.5", '"a,b",-3', ","]


def test_young_charts_leave_no_room_empty() -> None:
    assert Overview().span(1000.0, first=940.0) == (940.0, 1000.0)
    assert Overview().span(1000.0, first=999.0) == (985.0, 1000.0)
    assert Overview().span(1000.0, first=0.0) == (700.0, 1000.0)


def test_charts_of_an_idle_cluster_are_drawn_now_and_then() -> None:
    model, overview = Model(0.0), Overview()
    messages = list(synthetic_messages(3.0, 2, 100))
    model.apply(messages[0], 0.0)
    begin = model.time
    assert overview.is_due(model, begin + 100.0)
    assert not overview.is_due(model, begin + 101.0)
    assert overview.is_due(model, begin + 105.0)
    model.apply(messages[-1], 1.0)
    assert overview.is_due(model, begin + 106.0), "tasks have ended"
    overview.pan(-0.5, 106.0)
    assert overview.is_due(model, begin + 106.0), "its user has moved it"


def test_charts_of_a_long_time_are_drawn_when_they_have_moved_by_a_step() -> None:
    snapshots = [each for each in synthetic_messages(12.0, 2, 100) if isinstance(each, Snapshot)]
    model = Model(0.0)
    model.apply(snapshots[0], 0.0)
    short, long = Overview(), Overview()
    long.zoom(1, 300.0)
    due = []
    for second, snapshot in enumerate(snapshots[1:9]):
        model.apply(snapshot, 0.0)
        due.append((short.is_due(model, model.time), long.is_due(model, snapshots[0].time + 2000 + second)))
    assert [each for each, _ in due] == [True] * 8, "there is little to see yet"
    assert [each for _, each in due] == [True, False, False, False, True, False, False, False]


def test_a_tooltip_shows_what_looks_like_html_as_it_is() -> None:
    assert plain_tip("simulate") == "simulate"
    assert "<img" not in plain_tip("<img src='file:///etc/hostname'>")
