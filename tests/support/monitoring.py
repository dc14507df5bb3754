"""Snapshots made up for tests of monitors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import zmq

from scaler_protocol.messages import WorkerStatus
from scaler_protocol.monitor.messages import (
    AgentStatus,
    ClientStatus,
    FunctionStatus,
    MessageCount,
    PeerState,
    SchedulerStatus,
    Snapshot,
    TaskCounts,
)

MIB = 1024 * 1024
SENT = {"Acknowledgement": 5_204, "HeartbeatEcho": 283_701, "Results": 53_766, "Tasks": 53_782, "Welcome": 9}
RECEIVED = {"AgentAttach": 2, "Heartbeat": 283_701, "Hello": 9, "Results": 53_794, "Tasks": 50_215, "Goodbye": 3}


@contextmanager
def monitor_address_with_keys() -> Iterator[str]:
    """A monitor address that lets in nobody who has no keys."""
    with zmq.Context() as context, context.socket(zmq.XPUB) as publisher:
        publisher.setsockopt(zmq.CURVE_SERVER, 1)
        publisher.setsockopt(zmq.CURVE_SECRETKEY, zmq.curve_keypair()[1])
        port = publisher.bind_to_random_port("tcp://127.0.0.1")
        yield f"tcp://127.0.0.1:{port}"


def worker_status(number: int, *, name: str = "", has_task: bool = False, cpu_percent: float = 0.0) -> WorkerStatus:
    return WorkerStatus(name or f"w{number}", 20_000 + number, cpu_percent, 113 * MIB, True, has_task, False)


def agent_status(
    number: int = 0,
    workers: int = 4,
    *,
    state: PeerState = PeerState.CONNECTED,
    host: str = "sd-1e7d-dfba",
    sent: int = 10,
    queued: int = 3,
    silent_seconds: float = 0.0,
) -> AgentStatus:
    statuses = tuple(
        worker_status(number * 100 + index, has_task=index % 2 == 0, cpu_percent=number + index / 2)
        for index in range(workers)
    )
    return AgentStatus(
        session=bytes([number % 256, number // 256]) * 8,
        name=f"agent-{number}",
        host=host,
        pid=10_000 + number,
        state=state,
        cpu_percent=0.5,
        rss_bytes=111 * MIB,
        rss_free_bytes=4096 * MIB,
        queued=queued,
        lag_seconds=0.0007,
        sent=sent,
        free=1000 * workers - sent,
        silent_seconds=silent_seconds,
        workers=statuses,
    )


def snapshot(agents: tuple[AgentStatus, ...] = (), *, epoch: int = 7, success: int = 53_704) -> Snapshot:
    return Snapshot(
        scheduler=SchedulerStatus("tcp://127.0.0.1:2345", epoch, "1.0.0", "sd-1e7d-dfba", 4242, 60.0, 1.5, 130 * MIB),
        tasks=TaskCounts(unassigned=2_000, running=10, success=success, failed=14, canceled=48, not_found=0),
        sent=tuple(MessageCount(name, count) for name, count in SENT.items()),
        received=tuple(MessageCount(name, count) for name, count in RECEIVED.items()),
        agents=agents,
        clients=(
            ClientStatus(b"\xab" * 16, "notebook", 777, True, 2_000, 10, 53_704),
            ClientStatus(b"\xcd" * 16, "batch-host", 778, True, 0, 0, 62),
        ),
        functions=(
            FunctionStatus(b"\x01" * 16, "simulate", 2_010, 53_000),
            FunctionStatus(b"\x02" * 16, "collect.<locals>.<lambda>", 0, 766),
        ),
    )
