"""Reads event logs: the monitor stream at any time of a recording."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, NamedTuple

from scaler_protocol.monitor import feed
from scaler_protocol.monitor.format import TIME_LIMIT_SECONDS, is_time
from scaler_protocol.monitor.log_frames import SNAPSHOT, SUFFIX, BadLog, Frame, frames, read_frame
from scaler_protocol.monitor.messages import Events, MonitorMessage, Snapshot
from scaler_protocol.monitor.moments import find_moment
from scaler_protocol.monitor.recorded_names import RecordedNames

PROBLEM_LIMIT = 100
_USUAL_STEP_SECONDS = 60.0
"""Between two frames, while a scheduler is watched and runs."""


class Step(NamedTuple):
    """A frame that was read: its time, and what it says; None when it was only looked through for names, or cannot be
    read."""

    time: float
    message: MonitorMessage | None = None


@dataclass(frozen=True, slots=True)
class _Place:
    """A frame of one of the files."""

    file: int
    frame: Frame


class Replay:
    """The logs in a folder, as one recording. ValueError with one plain sentence when there is none to read.

    ``problems`` has a sentence for each thing that could not be read; the rest is played."""

    def __init__(self, directory: Path | str) -> None:
        self.problems: list[str] = []
        self._folder = Path(directory)
        self._files: list[BinaryIO] = []
        self._places: list[_Place] = []
        self._times: list[float] = []
        self._read_to: float | None = None
        self._names = RecordedNames()
        self._names_to = 0
        self._epoch = 0
        try:
            self._index()
        except BaseException:
            self.close()
            raise
        order = sorted(range(len(self._places)), key=lambda index: (self._times[index], index))
        self._places = [self._places[index] for index in order]
        self._times = [self._times[index] for index in order]

    @property
    def start(self) -> float:
        """Unix seconds of the first message."""
        return self._times[0]

    @property
    def end(self) -> float:
        """Unix seconds of the last message."""
        return self._times[-1]

    def clock_at(self, moment: float) -> float:
        """Return what the scheduler's clock showed at a moment: something later if it was set back afterwards."""
        return moment + self._ahead_seconds(max(0, bisect_right(self._times, moment) - 1))

    def find(self, text: str) -> float:
        """Return the last moment at which the clock showed a time, as people write it. ValueError, with a sentence, if
        there is none."""
        spans = self._spans()
        errors = []
        for start, end, ahead in reversed(spans):
            try:
                return find_moment(text, start + ahead, end + ahead) - ahead
            except ValueError as error:
                errors.append(error)
        raise errors[0]

    def messages(self, start: float, stop: float) -> Iterator[MonitorMessage]:
        """Messages after ``start`` up to ``stop``; from the first one when ``start`` is not after that. When this does
        not go on where the last call stopped, what a watcher needs to know comes first: all names, and the last
        snapshot."""
        return (step.message for step in self.steps(start, stop) if step.message is not None)

    def steps(self, start: float, stop: float) -> Iterator[Step]:
        """Like :meth:`messages`, but read at most one frame for a step: for callers with other work to do meanwhile.
        Reading that was given up cannot be continued."""
        goes_on = self._read_to == start
        first = 0 if start <= self.start and not goes_on else bisect_right(self._times, start)
        last = bisect_right(self._times, stop)
        self._read_to = None
        if not goes_on:
            yield from self._context(first)
        for index in range(first, last):
            yield Step(self._times[index], self._read(self._places[index]))
        self._read_to = stop

    def some_snapshots(self, most: int) -> Iterator[Step]:
        """At most so many snapshots, spread over the recording, each read when it is asked for."""
        indices = [index for index, place in enumerate(self._places) if place.frame.kind == SNAPSHOT]
        step = max(1, -(-len(indices) // max(1, most)))
        for index in indices[::step]:
            yield Step(self._times[index], self._read(self._places[index]))

    def close(self) -> None:
        for file in self._files:
            file.close()

    # ---- inside --------------------------------------------------------------------------------------------------

    def _ahead_seconds(self, index: int) -> float:
        """Return how far the clock was ahead of the moment at which a frame is played."""
        return round(self._places[index].frame.time - self._times[index], 3)

    def _spans(self) -> list[tuple[float, float, float]]:
        """Return the first and the last moment between two changes of the clock, and how far it was ahead."""
        spans: list[tuple[float, float, float]] = []
        for index, time in enumerate(self._times):
            ahead = self._ahead_seconds(index)
            if spans and spans[-1][2] == ahead:
                spans[-1] = (spans[-1][0], time, ahead)
            else:
                spans.append((time, time, ahead))
        return spans

    def _index(self) -> None:
        paths = sorted(self._folder.glob(f"*{SUFFIX}"))
        if not paths:
            raise ValueError(f"there are no event logs (*{SUFFIX}) in {self._folder}")
        for path in paths:
            self._index_file(path)
        if not self._places:
            raise ValueError(f"there are no playable recordings in {self._folder}: {self.problems[0]}")
        self._times = self._played_times()

    def _index_file(self, path: Path) -> None:
        before = len(self._places)
        if not path.is_file():  # to open a pipe would wait for a writer, and a device has no end
            self._complain(f"{path.name}: not a regular file")
            return
        try:
            file = path.open("rb")
            self._files.append(file)
            for found in frames(file):
                self._index_frame(_Place(len(self._files) - 1, found), before)
        except OSError as error:
            self._complain(f"cannot read {path}: {error.strerror}")
            return
        except BadLog as error:
            self._complain(f"{path.name}: {error}")
            return
        if len(self._places) == before:
            self._complain(f"{path.name}: nothing was recorded")

    def _index_frame(self, place: _Place, first: int) -> None:
        """Its time decides where it is played, so one that is out of order must be whole: clocks are set, and bytes
        damaged."""
        is_first, time = len(self._places) == first, place.frame.time
        if is_first or not is_time(time) or not 0 <= time - self._places[-1].frame.time <= _USUAL_STEP_SECONDS:
            try:
                read_frame(self._files[place.file], place.frame)
            except BadLog as error:
                self._complain(f"{self._name(place)}: {error}")
                return
        if is_time(time):
            self._places.append(place)

    def _played_times(self) -> list[float]:
        """Return when each frame is played: at its own time, unless the clock was set back afterwards. Then what came
        before comes earlier, so that the frames of a scheduler stay in their order."""
        times: list[float] = []
        epochs = [file.name.rpartition("-")[2] for file in self._files]
        epoch, following, shift = "", 0.0, 0.0
        for place in reversed(self._places):
            if epochs[place.file] != epoch:
                epoch, following, shift = epochs[place.file], TIME_LIMIT_SECONDS, 0.0
            time = place.frame.time
            shift = min(shift, following - time) if time > following else 0.0
            following = max(0.0, time + shift)
            times.append(following)
        return times[::-1]

    def _context(self, first: int) -> Iterator[Step]:
        """The state known before the frame at ``first``."""
        snapshot = yield from self._last_snapshot(first)
        yield from self._read_names(first)
        epoch = snapshot.scheduler.epoch if snapshot is not None else self._epoch
        if first:
            time = self._times[first - 1]
            for part in self._names.parts(epoch):
                yield Step(time, Events(time, 0, part, 0, 0, epoch))

    def _last_snapshot(self, first: int) -> Generator[Step, None, Snapshot | None]:
        for index in range(first - 1, -1, -1):
            place = self._places[index]
            if place.frame.kind == SNAPSHOT:
                message = self._read(place)
                found = message if isinstance(message, Snapshot) else None
                yield Step(self._times[index], found)
                if found is not None:
                    return found
        return None

    def _read_names(self, first: int) -> Iterator[Step]:
        """Read the names in all frames before ``first``. Each frame is looked through once."""
        while self._names_to < first:
            time, message = self._times[self._names_to], self._read(self._places[self._names_to])
            self._names_to += 1
            if isinstance(message, Events):
                self._epoch = message.epoch or self._epoch
                self._names.add(self._epoch, message.records)
            yield Step(time)

    def _read(self, place: _Place) -> MonitorMessage | None:
        try:
            message = feed.decode(read_frame(self._files[place.file], place.frame)).message
        except OSError as error:
            self._complain(f"{self._name(place)}: cannot be read: {error.strerror}")
            return None
        except (BadLog, feed.FeedError) as error:
            self._complain(f"{self._name(place)}: {error}")
            return None
        if isinstance(message, Snapshot) and not message.time:
            return replace(message, time=place.frame.time)
        return message

    def _name(self, place: _Place) -> str:
        return Path(self._files[place.file].name).name

    def _complain(self, problem: str) -> None:
        if problem not in self.problems and len(self.problems) < PROBLEM_LIMIT:
            self.problems.append(problem)
