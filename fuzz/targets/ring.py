"""The ring of event records that the scheduler shares with its publisher, with either side scribbling over it.

Without scribbles, what was written is read once and in order. With them the reader says ValueError or returns what lies
in the memory, and the writer goes on.
"""

from __future__ import annotations

from fuzz.choices import Choices
from fuzz.messages import a_result_run
from scaler_protocol.monitor import records
from scaler_protocol.monitor.records import Kind
from scaler_protocol.monitor.ring import RING_HEADER_BYTES, RingReader, RingWriter, failed_rows

SIZES = (96, 480, 4096, 2**20 + 4096)
MEMORIES = {size: bytearray(RING_HEADER_BYTES + size) for size in SIZES}
ZEROS = {size: bytes(RING_HEADER_BYTES + size) for size in SIZES}
"""To make the largest ring for an input costs more than most inputs, so each is used again, and cleared before."""

STARTS = (0, 0, 2**20 - 96, 2**40)
"""First values of both counters: a large ring begins again where its writer has passed the first MiB."""

HEAD, TAIL = 64, 128
COUNTERS = (0, 8, 48, 480, 2**32, 2**63, 2**64 - 48, 2**64 - 1)


class Shared:
    """Both ends. Records are numbered by their field ``first``."""

    def __init__(self, size: int, start: int) -> None:
        self.memory = MEMORIES[size]
        memoryview(self.memory)[:] = ZEROS[size]  # without another copy, unlike an assignment to the bytearray
        for place in (HEAD, TAIL):
            self.memory[place : place + 8] = start.to_bytes(8, "little")
        self.writer, self.reader = RingWriter(self.memory), RingReader(self.memory)
        self.written: list[int] = []
        self.is_scribbled = False

    def step(self, choices: Choices) -> None:
        operation = choices.below(6)
        if operation == 0:
            self.write(choices)
        elif operation == 1:
            self.note(self.writer.write_plain(Kind.HANDED, 1, 5, 0, len(self.written), 0, 0, 1))
        elif operation == 2:
            self.write_run(choices)
        elif operation == 3:
            self.scribble(choices)
        else:
            self.take(choices.pick([0, 48, 200, 2**20]))

    def write(self, choices: Choices) -> None:
        body = choices.take(choices.below(64))
        self.note(self.writer.write(records.record(Kind.SUBMITTED, time=5, first=len(self.written), body=body)))

    def note(self, was_written: bool) -> None:
        if was_written:
            self.written.append(len(self.written))

    def write_run(self, choices: Choices) -> None:
        run = a_result_run(choices)
        fates = None
        if choices.flag():
            fates = bytearray(choices.pick([0, 4, 0x84, 0xFF]) for _ in range(run.count))
        half = run.count // 2
        segments = [(0, 3), (half, 4)] if half and choices.flag() else [(0, 3)]
        before = self.writer.recorded
        self.writer.write_ended(run, 5, 0, 0, segments, fates)
        self.written += [-1] * (self.writer.recorded - before)
        assert all(row < run.count for row in failed_rows(run, bytes(range(13))))

    def scribble(self, choices: Choices) -> None:
        """Over the counters, or over the records."""
        self.is_scribbled = True
        if choices.flag():
            place, new = choices.pick([HEAD, TAIL]), choices.pick(COUNTERS).to_bytes(8, "little")
        else:
            place, new = RING_HEADER_BYTES + choices.number(2) % 96, choices.take(1 + choices.below(8))
        self.memory[place : place + len(new)] = new[: len(self.memory) - place]

    def take(self, limit_bytes: int) -> None:
        try:
            data, count, _ = self.reader.take(limit_bytes)
        except ValueError:
            assert self.is_scribbled
            return
        if not self.is_scribbled:
            found = list(records.records(data))
            assert len(found) == count
            expected, self.written = self.written[:count], self.written[count:]
            assert all(number in (-1, record.first) for number, record in zip(expected, found, strict=True))
            self.check_gap(count)

    def check_gap(self, count: int) -> None:
        assert self.reader.read <= self.writer.recorded and self.reader.dropped <= self.writer.dropped


def one_input(data: bytes) -> None:
    choices = Choices(data)
    size = choices.pick(SIZES[:3] if len(data) < 64 else SIZES)
    shared = Shared(size, STARTS[data[-1] % len(STARTS)] if data else 0)
    while choices.more:
        shared.step(choices)
