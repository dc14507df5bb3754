"""Which tasks an agent reports as running."""

from __future__ import annotations

import time

from scaler_protocol.messages import Heartbeat, RunningTask
from scaler_worker.board import STARTED_CELL
from tests.unit.worker.playbook import CLIENT, Stage, run_of


class LongTask:
    """A stage whose first worker process runs a task, which started when the stage began."""

    def __init__(self) -> None:
        self.stage = Stage(2)
        self.stage.give(run_of(3, first=5))
        self.process = self.stage.core.slots.processes[0]
        self.started = self.stage.now
        board = self.stage.processes[0].board
        self.words = memoryview(self.stage.processes[0].memory).cast("Q")
        self.begin(0)
        assert board.running == 0

    def begin(self, sequence: int) -> None:
        """As a worker process notes the task under way on its board."""
        self.stage.processes[0].memory[4096 + sequence] = STARTED_CELL
        self.words[64 // 8], self.words[72 // 8] = sequence + 1, int(self.started * 1e9)

    def report(self, after: float, cpu_percent: float = 0.0) -> tuple[RunningTask, ...]:
        figures = {self.process.pid: (cpu_percent, 4096)}
        return self.stage.core.slots.running_tasks.report(figures, self.started + after)


def test_only_tasks_that_have_run_for_a_second_are_reported() -> None:
    long = LongTask()
    assert long.report(0.9) == ()
    (row,) = long.report(1.1, 12.5)
    assert (row.session, row.task, row.attempt, row.worker, row.pid) == (CLIENT, 5, 1, 0, long.process.pid)
    assert (row.cpu_percent, row.rss_bytes, row.blocked) == (12.5, 4096, False)
    assert abs(row.started_at - long.started) < 1e-6


def test_idle_time_counts_from_the_last_use_of_the_processor() -> None:
    long = LongTask()
    active = [long.report(after, cpu)[0].active_at for after, cpu in ((2, 0.0), (4, 50.0), (6, 0.2), (8, 0.0))]
    assert [round(each - long.started) for each in active] == [0, 4, 4, 4]
    long.started += 8
    long.begin(1)
    assert [round(row.active_at - long.started) for row in long.report(2)] == [0]


def test_a_blocked_task_and_one_of_a_spare_process_say_so() -> None:
    long = LongTask()
    assert long.stage.core.slots.block(0)
    assert long.report(2)[0].blocked
    long.process.place = 2  # the first one after the two workers
    assert long.report(2)[0].worker == 2


def test_a_start_that_cannot_be_true_is_not_reported() -> None:
    long = LongTask()
    for started in (0, 2**64 - 1):
        long.words[72 // 8] = started
        assert long.report(100) == ()


def test_reports_reach_the_scheduler() -> None:
    long = LongTask()
    rows = long.report(5)
    long.stage.core.report(0.0, 0, 0, (), time.monotonic(), rows)
    long.stage.turn()
    assert [each.running_tasks for each in long.stage.bodies(Heartbeat)][-1] == rows
