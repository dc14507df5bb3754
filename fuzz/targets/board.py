"""The memory that an agent shares with a worker process, written over by user code: counters, cells, records.

What an honest process finished is harvested once and in order. Whatever else is there, the agent reads nothing outside
of the memory, takes no result of a task that is not there, and says what cannot be true.
"""

from __future__ import annotations

import struct

from fuzz.choices import Choices
from scaler_protocol.codec import ResultRun, TaskRun
from scaler_protocol.messages import Status, TaskOptions
from scaler_worker.board import BOARD_BYTES, DISPATCHED, STARTED_CELL, WINDOW, Board, DispatchedRun, Harvest
from tests.unit.protocol import samples

RUNNING, STARTED, POSITION, INTERRUPT, LEASE, HEAD, TAIL = 64, 72, 80, 128, 192, 256, 320
CELLS = 4096
ARENA = CELLS + WINDOW
COUNTERS = (RUNNING, STARTED, POSITION, INTERRUPT, LEASE, HEAD, TAIL)
NUMBERS = (0, 1, 7, 8, 48, 56, 2**20, 2**31, 2**32 - 1, 2**62, 2**63, 2**64 - 48, 2**64 - 1)
STATUSES = (Status.SUCCESS, Status.EXCEPTION, Status.CANCELLED, Status.SUCCESS_LARGE, 200, 255)
RECORD = struct.Struct("<QQQQIIQ")
MOST_STEPS = 64
SCRIBBLED = ARENA + 512
"""All that user code writes over lies before this."""

MEMORY = bytearray(BOARD_BYTES)
"""Used again and again, and zero between two inputs: to make it, or to clear all of it, costs more than an input."""


class BoardBench:
    """One board, and both sides of it. ``is_honest``: nothing was written that a worker process does not write."""

    def __init__(self) -> None:
        self.board = Board(MEMORY)
        self.dispatched: list[DispatchedRun] = []
        self.next_sequence = 0
        self.claimed: int | None = None
        self.position = 0
        self.head = 0
        self.expected: list[tuple[int, int, bytes]] = []
        self.is_honest = True

    def step(self, choices: Choices) -> None:
        operation = choices.below(10)
        if operation == 0:
            self.dispatch(choices)
        elif operation in (1, 2):
            self.claim()
        elif operation in (3, 4):
            self.finish(choices)
        elif operation == 5:
            self.withdraw(choices)
        elif operation == 6:
            self.scribble(choices)
        elif operation == 7:
            self.forge(choices)
        else:
            self.harvest(choices)

    def clear(self) -> None:
        end = max(SCRIBBLED, ARENA + self.head)
        MEMORY[:end] = bytes(end)

    # ---- the agent ---------------------------------------------------------------------------------------------

    def dispatch(self, choices: Choices) -> None:
        count = 1 + choices.below(8)
        if self.board.room() < count:
            return
        options = TaskOptions(graph=choices.below(2), intermediate=choices.flag())
        slots: list[list[bytes]] = [[] for _ in range(count)]
        run = TaskRun(samples.SESSION, samples.FUNCTION, "f", b"", 100 + self.next_sequence, 1, (), options, slots)
        self.board.dispatch(self.next_sequence, count)
        self.dispatched.append(DispatchedRun(run, self.next_sequence))
        self.next_sequence += count

    def withdraw(self, choices: Choices) -> None:
        sequence = choices.below(64)
        before = self.board.is_open(sequence)
        if self.board.withdraw(sequence):
            assert before and sequence < self.next_sequence
        first = choices.below(64)
        for taken in self.board.withdraw_newest(first, first + choices.below(16), choices.below(8)):
            assert first <= taken < self.next_sequence

    def harvest(self, choices: Choices) -> None:
        before = sum(entry.unfinished for entry in self.dispatched)
        harvest = self.board.harvest(self.dispatched, 0.0, choices.pick([None, 0, 3]))
        ended = before - sum(entry.unfinished for entry in self.dispatched)
        assert all(entry.unfinished >= 0 for entry in self.dispatched)
        assert ended == sum(count for _, count, _ in harvest.totals)
        assert ended == sum(run.count for run in harvest.runs) + len(harvest.interrupted)
        self.check(harvest)

    def check(self, harvest: Harvest) -> None:
        rows = [(row[0] - 100, row[2], bytes(row[3])) for run in harvest.runs for row in rows_of(run)]
        assert all(0 <= row[0] < self.next_sequence for row in rows), "a result of a task that is not there"
        if self.is_honest:
            assert self.board.broken is None
            kept = [(task - 100, status, payload) for _, task, status, payload in harvest.kept]
            assert [row[:2] for row in self.expected if row[1] != Status.CANCELLED] == [row[:2] for row in rows]
            assert all(row in self.expected for row in kept)
        self.expected.clear()

    # ---- the worker process ------------------------------------------------------------------------------------

    def claim(self) -> None:
        """The next task that is still there, after the last one has ended."""
        while self.claimed is None and self.position < self.next_sequence:
            sequence, self.position = self.position, self.position + 1
            self.put(POSITION, self.position)
            if MEMORY[CELLS + sequence % WINDOW] == DISPATCHED:
                MEMORY[CELLS + sequence % WINDOW] = STARTED_CELL
                self.put(RUNNING, sequence + 1)
                self.claimed = sequence

    def finish(self, choices: Choices) -> None:
        if self.claimed is None:
            return
        sequence, self.claimed, status = self.claimed, None, choices.pick(STATUSES[:4])
        payload = bytes(choices.pick([8, 24])) if status == Status.SUCCESS_LARGE else choices.take(choices.below(40))
        self.put(RUNNING, 0)
        self.append(sequence, status, payload, len(payload))
        if self.board.broken is None:
            self.expected.append((sequence, status, payload))

    def append(self, sequence: int, status: int, payload: bytes, size: int) -> None:
        at = ARENA + self.head % (BOARD_BYTES - ARENA)
        record = RECORD.pack(sequence, 1000, 500, 0, size, status, 0) + payload
        record += bytes(-len(record) % 8)
        if at + len(record) + RECORD.size > BOARD_BYTES:
            return
        MEMORY[at : at + len(record)] = record
        self.head += len(record)
        self.put(HEAD, self.head)

    def put(self, place: int, value: int) -> None:
        struct.pack_into("<Q", MEMORY, place, value % 2**64)

    # ---- user code ---------------------------------------------------------------------------------------------

    def scribble(self, choices: Choices) -> None:
        self.is_honest = False
        if choices.flag():
            self.put(choices.pick(COUNTERS), choices.pick(NUMBERS))
            return
        place = choices.pick([CELLS, ARENA]) + choices.number(2) % 256
        new = choices.take(1 + choices.below(16))
        MEMORY[place : place + len(new)] = new

    def forge(self, choices: Choices) -> None:
        """A record that no worker process writes."""
        self.is_honest = False
        size, sequence = choices.pick(NUMBERS[:9]), choices.pick([choices.below(64), choices.pick(NUMBERS)])
        self.append(sequence, choices.pick(STATUSES), choices.take(choices.below(16)), size)


def rows_of(run: ResultRun) -> list[tuple[int, int, int, memoryview, int, int, int]]:
    assert run.age_column is None or len(run.age_column) == run.count
    return list(run.rows())


def one_input(data: bytes) -> None:
    choices = Choices(data)
    bench = BoardBench()
    try:
        play(bench, choices)
    finally:
        bench.clear()


def play(bench: BoardBench, choices: Choices) -> None:
    for _ in range(MOST_STEPS):
        if not choices.more:
            break
        bench.step(choices)
        assert bench.board.running is None or bench.board.running < bench.next_sequence
        assert bench.board.started >= 0 and bench.board.cell(choices.below(64)) >= 0
    bench.harvest(choices)
