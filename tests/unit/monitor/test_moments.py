"""Times as people write them: of a clock or with a date, over midnight, and when clocks are changed."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator

import pytest

from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.moments import find_moment, is_moment, moment_of
from scaler_protocol.monitor.past import find_past
from tests.support.monitor_stream import START_TIME, synthetic_messages


@pytest.fixture(autouse=True)
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The local time zone, in which summer time ends on 2026-10-25 and has begun on 2026-03-29."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
        time.tzset()
        yield
    time.tzset()


def at(text: str) -> float:
    return datetime.datetime.fromisoformat(text).timestamp()


def found(text: str, start: str, end: str) -> str:
    """The moment that a text means, in UTC."""
    moment = find_moment(text, at(start), at(end))
    return datetime.datetime.fromtimestamp(moment, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")


def test_a_clock_time_is_the_last_one_of_the_recording() -> None:
    days = "2026-06-01T12:00", "2026-06-04T02:00"
    assert found("03:00", *days) == "2026-06-03 01:00:00"
    assert found("1:30", *days) == "2026-06-03 23:30:00"
    assert found("2026-06-02T03:00", *days) == found("2026-06-02 03:00", *days) == "2026-06-02 01:00:00"
    assert found("03:00+00:00", *days) == "2026-06-03 03:00:00"


def test_a_recording_may_cross_midnight() -> None:
    night = "2026-06-01T23:00:10", "2026-06-02T01:00"
    assert found("00:00", *night) == "2026-06-01 22:00:00"
    assert found("23:30", *night) == "2026-06-01 21:30:00"
    assert found("23:00", *night) == "2026-06-01 21:00:10"  # a part of this minute is there
    assert found("01:00", *night) == "2026-06-01 23:00:00"


def test_a_time_outside_is_refused_with_what_there_is() -> None:
    for text in ("03:00", "2026-06-03T00:00", "23:00:09"):
        with pytest.raises(ValueError, match=f"Cannot go to {text}: only the time from 2026-06-01 23:00:10 to .*"):
            found(text, "2026-06-01T23:00:10", "2026-06-02T01:00")


@pytest.mark.parametrize("text", ["soon", "", "25:00", "03:00:99", "2026-13-01T00:00"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="Cannot read the time"):
        found(text, "2026-06-01T23:00", "2026-06-02T01:00")
    with pytest.raises(ValueError, match="Cannot read the time"):
        moment_of(text, at("2026-06-01T23:00"))


def test_clocks_show_an_hour_twice_when_summer_time_ends() -> None:
    night = "2026-10-25T00:00", "2026-10-25T09:00"
    assert found("02:30", *night) == "2026-10-25 01:30:00"
    assert found("02:30", "2026-10-25T00:00", "2026-10-25T02:45+02:00") == "2026-10-25 00:30:00"
    assert found("2026-10-25T02:30+02:00", *night) == "2026-10-25 00:30:00"
    assert found("03:00", *night) == "2026-10-25 02:00:00"


def test_clocks_leave_an_hour_out_when_summer_time_begins() -> None:
    assert found("02:30", "2026-03-29T00:00", "2026-03-29T09:00") == "2026-03-29 01:30:00"
    assert found("03:00", "2026-03-29T00:00", "2026-03-29T09:00") == "2026-03-29 01:00:00"


def test_names_are_no_times() -> None:
    assert is_moment("03:00") and is_moment(" 3:00:01.5 ") and is_moment("2026-06-01 03:00")
    assert not any(map(is_moment, ("", "17", "vm-3", "f:1", "0123abcd/7", "pricing.run")))


def test_a_live_monitor_knows_what_it_has_seen() -> None:
    model = Model(0.0)
    for message in synthetic_messages(20, 4, 10, start=START_TIME):
        model.apply(message, 0.0)
    clock = datetime.datetime.fromtimestamp(START_TIME + 3).strftime("%H:%M:%S")
    assert find_past(model, clock, "scaler_top") == START_TIME + 3
    earlier = datetime.datetime.fromtimestamp(START_TIME - 3600).strftime("%H:%M:%S")
    with pytest.raises(ValueError, match="--event-log DIR"):
        find_past(model, earlier, "scaler_top")
    with pytest.raises(ValueError, match="Cannot go to"):
        find_past(Model(0.0), earlier, "scaler_top")
