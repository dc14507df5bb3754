"""Which worker process others take tasks from: a function of what each of them holds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from scaler_worker.core.prefetch import LEAST_DISPATCH_SECONDS
from scaler_worker.core.work_stealing import MOVE_NODE_SECONDS, victim

NOW = 100.0
PAYING = 3 * LEAST_DISPATCH_SECONDS


def process(seconds: float, nodes: int = 0, tasks: int = 0, running_since: float | None = None) -> Any:
    held = [SimpleNamespace(unfinished=nodes, is_node=True), SimpleNamespace(unfinished=tasks, is_node=False)]
    board = SimpleNamespace(running=None if running_since is None else object(), started=running_since or 0.0)
    return SimpleNamespace(
        seconds=seconds,
        is_dedicated=False,
        environment=None,
        board=board,
        dispatched=held,
        unfinished=lambda: nodes + tasks,
    )


def chosen(*full: Any, idle: int = 1, is_crowded: bool = False) -> Any:
    roster: Any = SimpleNamespace(
        is_crowded=is_crowded,
        idle=dict.fromkeys(range(idle), SimpleNamespace(environment=None)),
        full=dict(enumerate(full)),
    )
    prefetcher: Any = SimpleNamespace(work_of=lambda each: each.seconds)
    return victim(roster, prefetcher, NOW)


def test_the_one_with_the_most_work_gives_some_away() -> None:
    less, more = process(PAYING, tasks=10), process(2 * PAYING, tasks=20)
    assert chosen(less, more) is more


def test_nothing_is_taken_if_moving_takes_longer_than_running() -> None:
    nodes = 100
    assert chosen(process(0.9 * nodes * MOVE_NODE_SECONDS, nodes=nodes)) is None
    assert chosen(process(LEAST_DISPATCH_SECONDS, tasks=1)) is None


def test_one_that_would_not_pay_does_not_hide_another_that_does() -> None:
    fullest, other = process(2 * PAYING, nodes=1000), process(PAYING, tasks=10)
    assert chosen(fullest, other) is other


def test_one_that_runs_longer_than_expected_gives_its_tasks_away() -> None:
    fullest = process(PAYING, nodes=1000)
    late = process(0.0, tasks=3, running_since=NOW - 2 * LEAST_DISPATCH_SECONDS)
    assert chosen(fullest, late) is late


@pytest.mark.parametrize("full", [(), (process(PAYING, tasks=10),)])
def test_a_crowded_host_moves_nothing(full: tuple[Any, ...]) -> None:
    assert chosen(*full, is_crowded=True) is None
