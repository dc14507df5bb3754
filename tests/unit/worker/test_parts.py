"""What the duration of a task consists of, as its worker process reports it."""

from __future__ import annotations

import struct
import time
from dataclasses import replace
from typing import ClassVar

import pytest

from scaler_protocol.codec import ResultRun
from scaler_protocol.messages import Status, TaskOptions
from scaler_protocol.task_phases import waits_before
from tests.unit.worker.playbook import run_of
from tests.unit.worker.test_board import Pair, echo

MILLISECONDS_LEAST = 20


def pause() -> None:
    time.sleep(MILLISECONDS_LEAST / 1000)


class SlowToLoad:
    def __setstate__(self, state: object) -> None:
        pause()

    def __getstate__(self) -> object:
        return {"anything": 1}


class SlowToStore:
    def __reduce__(self) -> object:
        pause()
        return (int, ())


def give_slow(value: object) -> object:
    return SlowToStore()


def take(value: object) -> int:
    return 5


def fail_slowly(value: object) -> object:
    pause()
    raise ValueError("on purpose")


def harvested(function: object, *arguments: object) -> ResultRun:
    pair = Pair(function)
    pair.hand(run_of(len(arguments), function=function, slots=arguments))  # type: ignore[arg-type]
    pair.process.run()
    (run,) = pair.board.harvest(pair.dispatched, 0.0).runs
    return run


def parts_of(run: ResultRun) -> list[tuple[int, ...]]:
    return list(struct.iter_unpack("<4I", run.parts or b""))


def test_quick_arguments_and_results_have_no_parts() -> None:
    run = harvested(echo, 1, "text", None, b"bytes", 2.5, True)
    assert run.parts is None
    assert all(run.status(row) == Status.SUCCESS for row in range(run.count))


def test_loading_arguments_is_a_part() -> None:
    run = harvested(take, 1, SlowToLoad())
    ((row, fetching, loading, storing),) = parts_of(run)
    assert (row, fetching, storing) == (1, 0, 0)
    assert 1000 * MILLISECONDS_LEAST <= loading <= run.duration_us(1)


def test_storing_results_is_a_part() -> None:
    run = harvested(give_slow, 1)
    ((row, fetching, loading, storing),) = parts_of(run)
    assert (row, fetching, loading) == (0, 0, 0)
    assert 1000 * MILLISECONDS_LEAST <= storing <= run.duration_us(0)


def test_a_failure_was_running() -> None:
    run = harvested(fail_slowly, 1)
    assert run.status(0) == Status.EXCEPTION and run.duration_us(0) >= 1000 * MILLISECONDS_LEAST
    assert run.parts is None


def test_a_result_after_parts_is_intact() -> None:
    run = harvested(echo, SlowToLoad(), 7, SlowToLoad(), 8)
    assert [row for row, *_ in parts_of(run)] == [0, 2]
    assert [len(run.payload(row)) > 0 for row in range(4)] == [True] * 4
    part = run.slice(1, 4)
    assert [row for row, *_ in parts_of(part)] == [1]
    assert run.slice(1, 2).parts is None


class Watched:
    """A function that watches its phases. ``seen``: the phases before its call, and the times after it."""

    seen: ClassVar[list[tuple[int, ...]]] = []

    def __init__(self) -> None:
        self.__qualname__ = "watched"

    def __call__(self, value: object) -> object:
        (pair,) = WATCHING
        phases = pair.process.runner.watch_phases(self, lambda called, stored: self.seen.append((called, stored)))
        assert pair.process.runner.watch_phases(echo, print) is None
        if phases is not None:
            self.seen.append(phases)
        return SlowToStore()


WATCHING: list[Pair] = []


def test_a_task_may_watch_its_phases() -> None:
    pair = Pair(Watched())
    WATCHING[:] = [pair]
    pair.hand(run_of(1, function=Watched(), slots=(SlowToLoad(),)))  # type: ignore[arg-type]
    pair.process.run()
    (submitted, ready, started, fetching, loaded), (called, stored) = Watched.seen
    assert submitted == ready == started
    least = 1_000_000 * MILLISECONDS_LEAST
    assert fetching == 0 and loaded - started >= least and called >= loaded and stored - called >= least
    assert pair.process.runner.watch_phases(echo, print) is None


def test_waits_before_a_task_are_on_the_clock_of_its_host() -> None:
    started, wall = time.monotonic_ns(), time.time()
    task = TaskOptions(submitted_at=wall - 10)
    node = replace(task, graph=3, ready_at=wall - 4)

    def seconds(options: TaskOptions, attempt: int = 1) -> list[int]:
        return [round((started - each) * 1e-9) for each in waits_before(started, options, attempt)]

    assert seconds(TaskOptions()) == [0, 0]
    assert seconds(task) == [10, 10] and seconds(node) == [10, 4]
    assert seconds(replace(node, ready_at=0.0)) == [10, 0]  # its inputs were made on its own host
    assert seconds(task, attempt=2) == [0, 0]
    assert seconds(replace(task, submitted_at=wall + 5)) == [0, 0]  # the clock of the client is ahead
    assert seconds(replace(node, ready_at=wall - 20)) == [10, 10]


@pytest.mark.parametrize("rows", [(4,), (1, 1), (2, 1)])
def test_rows_that_do_not_exist_are_refused(rows: tuple[int, ...]) -> None:
    run = harvested(echo, 1, 2, 3, 4)
    with pytest.raises(ValueError, match="rows"):
        run.set_parts(b"".join(struct.pack("<4I", row, 1, 1, 1) for row in rows))
