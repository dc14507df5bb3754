"""Alerts: one list of rules, which every monitor shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler_protocol.monitor.alerts import HOLD_SECONDS, AlertBoard, alerts_text
from scaler_protocol.monitor.messages import (
    AgentStatus,
    HostStoreStatus,
    PeerState,
    Snapshot,
    TaskCounts,
    WaitGroup,
)
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.reasons import MISSING_CAPABILITIES, NO_AVAILABLE_WORKER, NO_WORKERS
from scaler_scheduler.top.screen import draw
from scaler_scheduler.top.view import View
from scaler_scheduler.web.status import live_status
from tests.support.monitoring import agent_status, snapshot

GIB = 1024**3
T0 = 1_000_000.0


def host(name: str, free: float, limit: float = 16.0, number: int = 0) -> AgentStatus:
    """``free`` and ``limit`` in GiB."""
    agent = agent_status(number, 1, host=name)
    return replace(agent, rss_free_bytes=int(free * GIB), memory_limit_bytes=int(limit * GIB))


def store(name: str, used: float = 0.0, disk_free: float = 50.0, disk: float = 100.0) -> HostStoreStatus:
    """Shares of a capacity of 1 GiB; the disk in GiB."""
    return HostStoreStatus(
        name,
        used_bytes=int(used * GIB),
        capacity_bytes=GIB,
        disk_free_bytes=int(disk_free * GIB),
        disk_capacity_bytes=int(disk * GIB),
    )


def shot(*agents: AgentStatus, tasks: TaskCounts | None = None, **parts: object) -> Snapshot:
    return replace(snapshot(agents or (host("a", 8),)), tasks=tasks or TaskCounts(), **parts)  # type: ignore[arg-type]


def found(*snapshots: Snapshot, seconds: float = 1.0) -> list[tuple[str, str]]:
    """Rule and text of each alert after these snapshots, one every ``seconds``."""
    board = AlertBoard()
    for number, each in enumerate(snapshots):
        board.follow(each, T0 + seconds * number)
    return [(each.rule, each.text) for each in board.active]


def test_nothing_is_wrong_in_an_ordinary_cluster() -> None:
    assert found(shot(host("a", 8), stores=(store("a"),))) == []
    assert found(shot(agent_status(0, 2))) == []  # an earlier agent, which does not know its limit
    assert found(shot(stores=(HostStoreStatus("a", capacity_bytes=GIB),))) == []  # an earlier store


@pytest.mark.parametrize(
    "free, limit, alert", [(0.3, 16, True), (1.5, 16, False), (0.5, 4, False), (0.3, 4, True), (7, 256, True)]
)
def test_little_memory_is_measured_by_what_the_host_may_use(free: float, limit: float, alert: bool) -> None:
    assert bool(found(shot(host("a", free, limit)))) is alert


def test_the_host_with_the_least_memory_is_named() -> None:
    ((rule, text),) = found(shot(host("a", 0.9), host("b", 0.25, number=1), host("c", 8, number=2)))
    assert rule == "memory"
    assert text == "Memory is about to run out: b has 256.0 MiB of 16.0 GiB, and 1 other host."


def test_memory_that_is_used_up_within_a_minute_is_foreseen() -> None:
    falling = [shot(host("a", 6 - 0.1 * second)) for second in range(12)]
    ((rule, text),) = found(*falling)
    assert rule == "memory" and "which last for 49 s at the present rate" in text
    assert found(*falling, seconds=5.0) == []  # in four minutes
    assert found(*falling[::-1]) == []


def test_the_disk_of_a_store() -> None:
    ((rule, text),) = found(shot(stores=(store("a"), store("b", disk_free=2))))
    assert (rule, text) == ("disk", "The disk for objects is nearly full: b has 2.0 GiB of 100.0 GiB.")


def test_a_store_that_is_full_for_a_minute() -> None:
    full = shot(stores=(store("a", used=0.95),))
    assert found(full, full, seconds=50) == []
    assert found(full, full, seconds=61)[0][0] == "store"


def test_tasks_that_no_worker_can_run() -> None:
    sentence = MISSING_CAPABILITIES.capitalize() + " (gpu=1)."
    early = WaitGroup(b"", "render", sentence, 3, 9.0)
    assert found(shot(waits=(early,))) == []
    late = replace(early, oldest_seconds=75.0)
    other = replace(early, function="other", oldest_seconds=12.0, count=1)
    assert found(shot(waits=(other, late))) == [
        (
            "capabilities",
            "4 tasks wait, the first one, of render, for 75 s: No connected worker has the capabilities it needs "
            "(gpu=1). Start workers with the missing capabilities.",
        )
    ]
    none = WaitGroup(b"", "f", NO_WORKERS.capitalize() + ".", 1, 20.0)
    ((rule, text),) = found(shot(waits=(none,)))
    assert rule == "workers" and text.startswith("A task of f waits for 20 s: No worker is connected.")


def test_failures_of_the_last_minute_count() -> None:
    before = shot(tasks=TaskCounts(success=1000, failed=900))
    assert found(before) == []
    after = shot(tasks=TaskCounts(success=1030, failed=908))
    assert found(before, after) == [("failures", "8 of the 38 tasks that ended within the last minute failed.")]
    assert found(before, shot(tasks=TaskCounts(success=1100, failed=908))) == []
    assert found(before, shot(tasks=TaskCounts(success=1000, failed=904))) == []
    assert found(before, after, after, seconds=61) == []
    restarted = shot(tasks=TaskCounts(success=1, failed=1))
    assert found(before, restarted) == []


def test_an_alert_keeps_its_start_and_stays_for_a_moment() -> None:
    board = AlertBoard()
    tight, ease = shot(host("a", 0.2)), shot(host("a", 8))
    board.follow(tight, T0)
    board.follow(ease, T0 + 1)
    board.follow(tight, T0 + 2)
    assert [each.since for each in board.active] == [T0]
    board.follow(ease, T0 + 2 + HOLD_SECONDS)
    assert board.active
    board.follow(ease, T0 + 3 + HOLD_SECONDS)
    assert board.active == ()


def test_critical_alerts_come_first_and_there_is_one_for_each_rule() -> None:
    silent = [agent_status(number, 1, state=PeerState.SUSPECT, host=f"h{number}") for number in range(5_000)]
    tight = [host(f"t{number}", 0.1, number=10_000 + number) for number in range(5_000)]
    rules = [rule for rule, _ in found(shot(*silent, *tight))]
    assert rules == ["memory", "silent"]


def test_long_and_hostile_names_are_cut() -> None:
    ((_, text),) = found(shot(host("\x1b[2J" + "n" * 10_000, 0.1)))
    assert len(text) < 200 and "\x1b" not in text


def test_every_monitor_shows_them() -> None:
    model = Model(0.0)
    model.apply(replace(shot(host("a", 0.2), stores=(store("a", disk_free=1),)), time=T0), 0.0)
    first = "Memory is about to run out: a has 204.8 MiB of 16.0 GiB."
    assert alerts_text(model.alerts) == f"{first} (1 other alert)"
    assert live_status(model, 0.0, "tcp://h:1")["alerts"][0] == ("critical", first, "0 s", "agents")
    assert live_status(model, 0.0, "tcp://h:1")["badges"]["alerts"] == ("2", True)
    lines = ["".join(span.text for span in line) for line in draw(model, View(), 120, 30, 0.0, "x").lines]
    assert any(line.startswith(first) for line in lines)
    page = ["".join(span.text for span in line) for line in draw(model, View(page="alerts"), 120, 30, 0.0, "x").lines]
    assert sum("critical" in line for line in page) == 2
    status = pytest.importorskip("scaler_gui.models.status")
    assert status.live_status(model, 0.0, "tcp://h:1").trouble.startswith(first)


def test_the_scheduler_uses_the_reasons_that_monitors_recognize() -> None:
    from scaler_scheduler.core import explanation

    assert explanation.NO_WORKERS is NO_WORKERS and explanation.MISSING_CAPABILITIES is MISSING_CAPABILITIES
    assert explanation.NO_AVAILABLE_WORKER is NO_AVAILABLE_WORKER
