"""Clients share real workers."""

from __future__ import annotations

import time

import pytest

from scaler import Client, SchedulerClusterCombo
from tests.cluster.conftest import Gate
from tests.support import functions

TASKS = 1000


def pause(seconds: float) -> None:
    time.sleep(seconds)


def test_a_client_with_few_tasks_does_not_wait_for_a_flood(combo: SchedulerClusterCombo, client: Client) -> None:
    with Client(combo.get_address()) as flooding:
        flooding.map(pause, [0.01] * 4)
        flood = [flooding.submit(pause, 0.01) for _ in range(TASKS)]
        for future in [client.submit(pause, 0.01) for _ in range(10)]:
            future.result()
        assert sum(future.done() for future in flood) < TASKS // 2
        flooding.clear()


def test_a_limited_group_never_has_more_workers() -> None:
    with SchedulerClusterCombo(3, group_limits="ci=1") as combo, Client(combo.get_address(), group="ci") as client:
        spans = client.map(span, [0.02] * 30)
    spans.sort()
    assert all(before[1] <= after[0] for before, after in zip(spans, spans[1:], strict=False))


def span(seconds: float) -> tuple[float, float]:
    """When it ran, on a clock that all processes share."""
    started = time.monotonic()
    time.sleep(seconds)
    return started, time.monotonic()


def test_monitors_see_groups(combo: SchedulerClusterCombo, gate: Gate) -> None:
    with Client(combo.get_address(), group="team/nightly", weight=2) as client:
        future = client.submit(functions.wait_at_gate, *gate.paths)
        rows = [row for row in client.cluster_info().clients if row.group == "team/nightly"]
        assert [(row.weight, row.share) for row in rows] == [(2.0, 1.0)]
        gate.open()
        future.result()


def test_settings_that_cannot_be() -> None:
    for weight in (0, -1, float("nan"), float("inf"), 1e9):
        with pytest.raises(ValueError, match="Cannot use this weight"):
            Client("tcp://127.0.0.1:1", weight=weight)
    for group in ("", "a\nb", "g" * 201):
        with pytest.raises(ValueError, match="Cannot use this group"):
            Client("tcp://127.0.0.1:1", group=group)
    with pytest.raises(TypeError, match="weight must be a number"):
        Client("tcp://127.0.0.1:1", weight="2")  # type: ignore[arg-type]
