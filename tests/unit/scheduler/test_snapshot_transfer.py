"""A snapshot arrives at the publisher as it left the scheduler."""

from __future__ import annotations

from scaler_protocol.messages import WorkerStatus
from scaler_protocol.monitor.messages import (
    AgentStatus,
    PeerState,
    RunningTaskStatus,
    SchedulerStatus,
    Snapshot,
    TaskCounts,
)
from scaler_scheduler.shell import snapshot_transfer

WORKERS = (
    WorkerStatus("a-0", 17, 12.5, 2**40, True, True, False),
    WorkerStatus("a-\udcff", 0, 0.0, 0, False, False, True),
)
RUNNING = (RunningTaskStatus(b"c" * 16, "f", b"d" * 16, 2**40, 2, 1, 17, 60.5, 59.5, 0.5, 99.5, 2**41, True),)
SCHEDULER = SchedulerStatus(address="tcp://127.0.0.1:1", epoch=1, version="1", host="h", pid=1, uptime_seconds=1.5)


def test_every_field_of_agents_and_workers_arrives() -> None:
    agents = (
        AgentStatus(b"s" * 16, "a", "host", 5, PeerState.SUSPECT, 1.5, 2, 3, 4, 0.25, 6, 7, 8.5, WORKERS, RUNNING),
        AgentStatus(b"t" * 16, "b", "host", 6),
    )
    snapshot = Snapshot(SCHEDULER, TaskCounts(success=3), agents=agents, time=4.5)
    assert snapshot_transfer.load(snapshot_transfer.dump(snapshot, 9)) == (snapshot, 9)
