"""Event logs as files: frames are found, read, decoded and played, or said to be damaged; logs are appended to.

No file makes a reader take more memory or time than its size justifies.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

from fuzz.choices import Choices
from fuzz.events import a_snapshot, some_events
from fuzz.scratch import scratch
from scaler_protocol.monitor import feed
from scaler_protocol.monitor.eventlog import EventLogWriter, NotAnEventLog
from scaler_protocol.monitor.log_frames import EVENTS, MAGIC, SNAPSHOT, BadLog, frame, frames, read_frame
from scaler_protocol.monitor.player import Player
from scaler_protocol.monitor.replay import Replay

MOST_FRAMES = 50
LONGEST_INPUT_BYTES = 8192


def one_input(data: bytes) -> None:
    read(io.BytesIO(data))
    log = scratch() / "fuzzed.events"
    log.write_bytes(data)
    try:
        play(Replay(log.parent))
    except ValueError as error:
        assert str(error)
    append(log)


def read(file: io.BytesIO) -> None:
    try:
        for found in frames(file):
            feed.decode(read_frame(file, found))
    except (BadLog, feed.FeedError) as error:
        assert str(error)


def play(replay: Replay) -> None:
    try:
        player = Player(replay)
        for fraction in (0.0, 1.0, 0.3):
            player.seek_fraction(fraction)
            for _ in range(MOST_FRAMES):
                if not player.read():
                    break
            assert isinstance(player.reading, str) and isinstance(player.problem, str)
        player.advance(1.0)
    finally:
        replay.close()


def append(log: Path) -> None:
    """A log whose end is damaged goes on behind its last whole frame."""
    try:
        writer = EventLogWriter(str(log))
    except NotAnEventLog:
        return
    writer.write(EVENTS, 5.0, b"message")
    assert writer.is_whole
    writer.close()
    with log.open("rb") as file:
        found = list(frames(file))
        assert read_frame(file, found[-1]) == b"message"


def seeds() -> Iterator[bytes]:
    for seed in range(8):
        choices = Choices(bytes(range(seed, 250)))
        log = MAGIC
        for number in range(4):
            log += frame(EVENTS, 1.7e9 + number, feed.encode(some_events(choices)))
            log += frame(SNAPSHOT, 1.7e9 + number, feed.encode(a_snapshot(choices)))
        yield log
    yield from (MAGIC, b"scaler events 1\n", b"scaler events 9\n", b"")
