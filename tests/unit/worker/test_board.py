"""The shared board: claims, records, what survives."""

from __future__ import annotations

import os
import pickle
import random
import select
import struct
import time
from collections.abc import Iterator

import pytest

from scaler_protocol.messages import Status
from scaler_worker.board import BOARD_BYTES, DISPATCHED, STARTED_CELL, WINDOW, Board, DispatchedRun
from scaler_worker.worker_process.runner import Runner
from tests.unit.worker.playbook import DictStore, StageWorkerProcess, definition, run_of

POSITION = 80


def echo(value: object) -> object:
    return value


def fail(value: object) -> object:
    raise ValueError(f"no {value}")


def speak(value: int) -> None:
    """More to stdout each time, and one byte to stderr."""
    (pipes,) = WRITTEN_TO
    pipes.pair.process.runner.note_printed()
    os.write(pipes.stdout, b"x" * value)
    os.write(pipes.stderr, b"y")


def fail_aloud(value: int) -> None:
    speak(value)
    raise ValueError


def rest(value: int) -> None:
    time.sleep(0.0001)


class Pair:
    """Both sides of one board."""

    def __init__(self, function: object = echo) -> None:
        self.process = StageWorkerProcess(0, DictStore())
        self.board = self.process.board
        self.define(function)
        self.dispatched: list[DispatchedRun] = []
        self.next_sequence = 0

    def define(self, function: object) -> None:
        known = definition(function)  # type: ignore[arg-type]
        self.process._functions[known.digest] = known

    def hand(self, run: object) -> DispatchedRun:
        self.board.dispatch(self.next_sequence, run.count)  # type: ignore[attr-defined]
        entry = DispatchedRun(run, self.next_sequence)  # type: ignore[arg-type]
        self.dispatched.append(entry)
        self.next_sequence += entry.count
        self.process.pending.append(run)  # type: ignore[arg-type]
        return entry

    def rows(self) -> list[tuple[int, int, int, bytes]]:
        return [
            (row[0], row[1], row[2], bytes(row[3]))
            for run in self.board.harvest(self.dispatched, 0.0).runs
            for row in run.rows()
        ]


def test_memory_must_be_large_enough() -> None:
    with pytest.raises(ValueError):
        Board(bytearray(BOARD_BYTES - 1))


def test_results_come_in_order_with_their_names() -> None:
    pair = Pair()
    entry = pair.hand(run_of(3, first=70, function=echo, attempt=4))
    pair.process.run()
    assert pair.rows() == [(task, 4, Status.SUCCESS, pickle.dumps(task, -1)) for task in (70, 71, 72)]
    assert entry.unfinished == 0 and pair.board.harvested == 3
    assert not pair.board.has_results()


def test_results_of_a_named_worker_state_how_long_ago_they_were_made() -> None:
    pair = Pair()
    before = time.monotonic()
    pair.hand(run_of(1000, function=echo))
    pair.process.run()
    after = time.monotonic()
    (run,) = pair.board.harvest(pair.dispatched, after + 5.0, 3).runs
    assert run.age_column is not None
    ages = run.age_column.tolist()
    assert run.worker == 3 and len(ages) == run.count == 1000
    assert ages == sorted(ages, reverse=True)
    assert 5e6 - 1 <= ages[-1] <= ages[0] <= 1e6 * (after + 5.0 - before) + 1


def test_a_withdrawn_task_does_not_run() -> None:
    pair = Pair()
    pair.hand(run_of(5, function=echo))
    assert pair.board.withdraw(2)
    assert not pair.board.withdraw(2)
    pair.process.run()
    assert [row[0] for row in pair.rows()] == [0, 1, 3, 4]


def test_a_started_task_cannot_be_withdrawn() -> None:
    pair = Pair()
    pair.hand(run_of(2, function=echo))
    pair.process.run()
    assert not pair.board.withdraw(0)
    assert pair.board.withdraw_newest(0, 2, 9) == []


def test_the_newest_are_withdrawn_first() -> None:
    pair = Pair()
    pair.hand(run_of(5, function=echo))
    assert pair.board.withdraw_newest(0, 5, 2) == [4, 3]
    assert pair.board.withdraw_newest(0, 5, 9) == [2, 1, 0]


def test_another_view_of_the_memory_goes_on_where_the_first_was() -> None:
    memory = bytearray(BOARD_BYTES)
    agent, process = Board(memory), Board(memory)
    store = StageWorkerProcess(0, DictStore())
    known = definition(echo)
    store._functions[known.digest] = known
    runner = Runner(process, store)
    run = run_of(4, function=echo)
    agent.dispatch(0, 4)
    runner.run_tasks([run])
    harvest = agent.harvest([DispatchedRun(run, 0)], 0.0)
    assert sum(each.count for each in harvest.runs) == 4


class Pipes:
    """stdout and stderr of a worker process, and what its agent notes of them."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.ended: list[tuple[int, tuple[int, int], tuple[int, int]]] = []
        (self.reader, self.stdout), (self.stderr_reader, self.stderr) = os.pipe(), os.pipe()
        self.unread = select.epoll()
        for descriptor in (self.reader, self.stderr_reader):
            self.unread.register(descriptor, select.EPOLLIN)
        pair.process.runner.watch_output(self.stdout, self.stderr, self.unread.fileno())
        pair.board.output = self

    def on_task_ended(
        self, entry: DispatchedRun, sequence: int, stdout: tuple[int, int], stderr: tuple[int, int]
    ) -> bytes:
        self.ended.append((sequence, stdout, stderr))
        return b"stderr"

    def read(self, count: int) -> None:
        self.pair.board.begin_read(1)
        self.pair.board.end_read(1, len(os.read(self.reader, count)))

    def close(self) -> None:
        self.unread.close()
        for descriptor in (self.reader, self.stdout, self.stderr_reader, self.stderr):
            os.close(descriptor)


WRITTEN_TO: list[Pipes] = []


@pytest.fixture
def pipes() -> Iterator[Pipes]:
    made = Pipes(Pair(speak))
    WRITTEN_TO.append(made)
    yield made
    WRITTEN_TO.clear()
    made.close()


def test_results_say_which_text_the_tasks_have_written(pipes: Pipes) -> None:
    pair = pipes.pair
    pair.hand(run_of(3, first=1, function=speak))
    os.write(pipes.stdout, b"earlier")
    pipes.read(4)
    pair.process.wake()
    pair.process.run()
    pair.rows()
    assert pipes.ended == [(0, (7, 8), (0, 1)), (1, (8, 10), (1, 2)), (2, (10, 13), (2, 3))]
    assert [pair.board.output_mark(stream) for stream in (1, 2)] == [13, 3]


def test_tasks_that_print_nothing_are_not_mentioned(pipes: Pipes) -> None:
    pair = pipes.pair
    pair.define(rest)
    pair.hand(run_of(3, function=rest))
    pair.process.run()
    assert len(pair.rows()) == 3 and not pipes.ended


def test_the_payload_of_a_failure_is_followed_by_its_stderr(pipes: Pipes) -> None:
    pair = pipes.pair
    pair.define(fail_aloud)
    pair.hand(run_of(1, function=fail_aloud))
    pair.process.run()
    ((_, _, status, payload),) = pair.rows()
    assert status == Status.EXCEPTION and payload.endswith(b".stderr")


def test_closed_descriptors_leave_the_output_undecided(pipes: Pipes) -> None:
    pair = pipes.pair
    pair.hand(run_of(1, function=speak))
    pair.process.runner.watch_output(-1, -1, 2**30)
    pair.process.run()
    assert len(pair.rows()) == 1 and not pipes.ended


def test_cells_are_used_again_within_the_window() -> None:
    pair = Pair()
    for _ in range(3):
        pair.dispatched.clear()
        pair.hand(run_of(WINDOW // 2 + 7, function=echo))
        pair.process.run()
        assert len(pair.rows()) == WINDOW // 2 + 7
    assert pair.board.room() == WINDOW


def test_a_call_that_is_just_being_claimed_is_not_taken_for_one_that_runs_for_long() -> None:
    memory = bytearray(BOARD_BYTES)
    board = Board(memory)
    board.unordered = True
    board.dispatch(0, 10_000)
    struct.pack_into("<Q", memory, POSITION, 1)  # the process moves this first, and may be stopped here
    board.room()
    assert board.cell(0) == DISPATCHED and board.withdraw(0)


def test_records_of_all_sizes_wrap_around() -> None:
    chooser = random.Random(5)
    pair = Pair()
    for _ in range(60):
        pair.dispatched.clear()
        values = [bytes(chooser.randrange(0, 30_000)) for _ in range(10)]
        pair.hand(run_of(10, function=echo, slots=values))
        pair.process.run()
        assert [pickle.loads(row[3]) for row in pair.rows()] == values


def test_failures_are_results() -> None:
    pair = Pair(fail)
    pair.hand(run_of(1, function=fail))
    pair.process.run()
    ((_, _, status, payload),) = pair.rows()
    data, name, message, trace = pickle.loads(payload)
    assert (status, name, message) == (Status.EXCEPTION, "ValueError", "no 0")
    assert "in fail" in trace and isinstance(pickle.loads(data), ValueError)


def test_the_claimed_and_unfinished_task_is_known() -> None:
    pair = Pair()
    seen: list[object] = []

    def look(value: object) -> None:
        seen.append((pair.board.running, [pair.board.cell(each) for each in range(3)]))

    pair.process.function = lambda run: look  # type: ignore[method-assign]
    pair.hand(run_of(3, function=echo))
    pair.process.run()
    assert seen[1] == (1, [STARTED_CELL, STARTED_CELL, DISPATCHED])
    assert pair.board.running is None
