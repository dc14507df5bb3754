"""Recordings: a page moves through one, and is told where it stands."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from scaler_protocol.monitor import feed
from scaler_protocol.monitor.eventlog import EVENTS, SNAPSHOT, EventLogWriter
from scaler_protocol.monitor.messages import Snapshot
from scaler_scheduler.web import sources
from scaler_scheduler.web.sources import RecordedSource
from tests.support.monitor_stream import START_TIME, synthetic_messages

SECONDS = 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    log = EventLogWriter(str(tmp_path / "1700000000-7.events"))
    for message in synthetic_messages(SECONDS, 4, 100):
        log.write(SNAPSHOT if isinstance(message, Snapshot) else EVENTS, message.time, feed.encode(message))
    log.close()
    return tmp_path


def wished(source: RecordedSource, **wish: object) -> None:
    source.control(wish)
    while not source.advance():
        pass


def position(source: RecordedSource) -> float:
    return float(source.status()["replay"]["position"]) - START_TIME


def test_a_page_jumps_pauses_and_plays_again_from_the_start(folder: Path) -> None:
    source = RecordedSource(str(folder))
    wished(source, play=False)
    wished(source, play=False, seek=START_TIME + 3, speed=64)
    replay = source.status()["replay"]
    assert (replay["position"], replay["playing"], replay["speed"]) == (START_TIME + 3, False, 64)
    assert (replay["start"], replay["end"], replay["reading"]) == (START_TIME, START_TIME + SECONDS, "")
    wished(source, seek=1e12)
    assert position(source) == SECONDS
    assert source.model.time == START_TIME + SECONDS
    source.control({"play": True})
    assert position(source) == 0
    assert source.status()["replay"]["playing"]
    source.close()


def test_a_long_way_takes_several_turns_and_the_page_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = RecordedSource(str(folder))
    wished(source, play=False)
    monkeypatch.setattr(sources, "TURN_SECONDS", 0.0)
    source.control({"seek": START_TIME + SECONDS})
    assert source.advance() is False
    assert source.status()["replay"]["reading"].startswith("reading ")
    while not source.advance():
        pass
    assert source.status()["replay"]["reading"] == ""
    assert source.model.time == START_TIME + SECONDS
    source.close()


@pytest.mark.parametrize("nonsense", [{"seek": "x"}, {"speed": None}])
def test_nonsense_is_refused(folder: Path, nonsense: dict[str, object]) -> None:
    source = RecordedSource(str(folder))
    with pytest.raises((ValueError, TypeError)):
        source.control(nonsense)
    source.close()


def test_the_page_is_told_what_cannot_be_read(folder: Path) -> None:
    path = next(folder.iterdir())
    path.write_bytes(path.read_bytes()[:-100])
    source = RecordedSource(str(folder))
    source.advance()
    (kind, text), *others = source.status()["notices"]
    assert (kind, others) == ("warning", [])
    assert text.startswith(f"{path.name}: truncated, the last ") and text.endswith(" The rest is shown.")
    assert source.status()["facts"][0] == (str(folder), False)
    source.close()


def test_a_page_goes_to_a_time_as_people_write_it(folder: Path) -> None:
    source = RecordedSource(str(folder), datetime.datetime.fromtimestamp(START_TIME + 5).isoformat())
    assert position(source) == 5
    wished(source, play=False)
    wished(source, go_to=f"{datetime.datetime.fromtimestamp(START_TIME + 7):%H:%M:%S}")
    assert position(source) == 7 and source.status()["notices"] == []
    wished(source, go_to="1999-01-01T00:00")
    ((kind, text),) = source.status()["notices"]
    assert kind == "warning" and text.startswith("Cannot go to 1999-01-01T00:00") and position(source) == 7
    wished(source, seek=START_TIME)
    assert source.status()["notices"] == []
    source.close()
    with pytest.raises(ValueError, match="Cannot go to"):
        RecordedSource(str(folder), "1999-01-01T00:00")
