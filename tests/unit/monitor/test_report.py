"""``scaler_top --report``, and the marks of failures on the time bar of a recording."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from scaler_protocol.monitor.failure_marks import FailureMarks
from scaler_protocol.monitor.format import format_moment
from scaler_protocol.monitor.log_frames import SUFFIX
from scaler_protocol.monitor.messages import Snapshot
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.moments import moment_of
from scaler_protocol.monitor.palette import PART_TINTS
from scaler_protocol.monitor.player import Player
from scaler_protocol.monitor.replay import Replay
from scaler_scheduler.top.lines import Style, text_of
from scaler_scheduler.top.replay import line
from scaler_scheduler.top.report import report_of, write_report
from tests.support.monitor_stream import START_TIME, synthetic_messages
from tests.unit.monitor.test_bar_parts import PARTS, model_of
from tests.unit.monitor.test_replay import log_of

SECONDS = 20.0


@pytest.fixture
def replay(tmp_path: Path) -> Replay:
    (tmp_path / f"20231114T221320Z-7{SUFFIX}").write_bytes(log_of(list(synthetic_messages(SECONDS, 12, 200))))
    return Replay(tmp_path)


def test_a_report_stands_alone_and_tells_what_happened(replay: Replay, tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    assert "out.html" in write_report(replay, str(path), replay.start, replay.end)
    text = path.read_text()
    assert "<script" not in text and "http" not in re.sub(r"tcp://", "", text).replace("https://", "").replace(
        "http-equiv", ""
    )
    assert "default-src 'none'; style-src 'unsafe-inline'" in text
    for word in ("Throughput", "Task stream", "simulate", "negative price", "Traceback", "abababab", "node-0-3"):
        assert word in text
    assert text.count("<svg") == 5
    HTMLParser().feed(text)
    assert len(text) < 2_000_000


def test_a_window_of_the_recording(replay: Replay, tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    write_report(replay, str(path), START_TIME + 5.0, START_TIME + 6.0)
    assert ", 1s;" in path.read_text()


def test_a_report_says_that_it_begins_with_a_restart_of_the_scheduler(replay: Replay, tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    assert "restarted" not in write_report(replay, str(path), replay.start, replay.end)
    messages = list(synthetic_messages(SECONDS, 12, 200))
    last = next(each for each in reversed(messages) if isinstance(each, Snapshot))
    scheduler = dataclasses.replace(last.scheduler, epoch=8)
    after = dataclasses.replace(last, scheduler=scheduler, time=last.time + 60.0)
    (tmp_path / f"20231114T221440Z-8{SUFFIX}").write_bytes(log_of([after]))
    both = Replay(tmp_path)
    said = write_report(both, str(path), both.start, both.end)
    moment = format_moment(after.time)
    assert f"The scheduler was restarted at {moment}." in said and said.partition("Open it in a browser. ")[2]
    assert said.partition("Open it in a browser. ")[2] in path.read_text()
    until = said.partition("--trace-until ")[2].partition(" ")[0]
    write_report(both, str(path), both.start, moment_of(until, both.start))
    assert "restarted" not in path.read_text() and "negative price" in path.read_text()


def test_names_are_text_whatever_they_contain() -> None:
    model = Model(0.0)
    for message in synthetic_messages(2.0, 4, 50):
        model.apply(message, 0.0)
    for index, named in model.activity.functions.items():
        model.activity.functions[index] = named._replace(name="<script>alert(1)</script>'\"")
    text = "".join(report_of(model, START_TIME, START_TIME + 2.0))
    assert "<script>" not in text


def test_bars_have_the_parts_of_their_time() -> None:
    model = model_of((1, 1, *PARTS))
    text = "".join(report_of(model, 80.0, 101.0))
    for name, (colour, opacity) in PART_TINTS.items():
        assert f"fill='{colour}' fill-opacity='{opacity}'" in text and f"<i class='{name}'></i>{name}" in text
    without = "".join(report_of(model_of(), 80.0, 101.0))
    assert "fill-opacity" not in without and "<i class=" not in without


def test_nothing_was_recorded() -> None:
    assert "no snapshot" in "".join(report_of(Model(0.0), 1.0, 2.0))


def test_failures_are_marked_where_they_happened(replay: Replay) -> None:
    marks = FailureMarks(replay)
    marks.read(3)
    early = list(marks.shares)
    marks.read(10_000)
    assert len(marks.shares) > len(early) and marks.shares == sorted(marks.shares)
    assert all(0.0 <= share <= 1.0 for share in marks.shares)
    drawn = line(Player(replay), 100, False, [0.0, 0.5, 1.0])
    assert sum(span.style is Style.BAD for span in drawn) == 3
    assert len(text_of(drawn)) == 100 and text_of(drawn).split()[1].count("-") == 2


def test_a_long_recording_costs_no_more_marks_than_a_short_one(replay: Replay) -> None:
    assert len(list(replay.some_snapshots(5))) <= 5
