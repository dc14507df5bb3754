"""The messages of the monitor stream, as plain values.

The scheduler's core fills a :class:`Snapshot`; ``feed`` encodes it; a screen's ``model`` makes rows of it. A snapshot
is complete: a watcher that comes late or misses some needs only the next one. Counts are totals since the scheduler
started and never sampled.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from scaler_protocol.messages import WorkerStatus

MONITOR_MAJOR = 1
MONITOR_MINOR = 0
"""A watcher refuses another major; fields and message kinds are added under the same one."""


class PeerState(enum.IntEnum):
    """How the scheduler sees an agent. Each value is on the wire for ever."""

    CONNECTED = 0
    SUSPECT = 1  # silent: gets no new tasks
    LOST = 2


@dataclass(frozen=True, slots=True)
class SchedulerStatus:
    """The scheduler's own process. The core leaves ``cpu_percent`` and ``rss_bytes`` to its shell (see
    :meth:`Snapshot.with_process`)."""

    address: str
    epoch: int
    version: str = ""
    host: str = ""
    pid: int = 0
    uptime_seconds: float = 0.0
    cpu_percent: float = 0.0
    rss_bytes: int = 0


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """Tasks by state: the first two are now, the others since the scheduler started."""

    unassigned: int = 0
    running: int = 0  # handed to an agent and unfinished
    success: int = 0
    failed: int = 0
    canceled: int = 0
    not_found: int = 0


@dataclass(frozen=True, slots=True)
class MessageCount:
    """Messages of one kind, by the class name of their body (``Tasks``, ``HeartbeatEcho``)."""

    name: str
    count: int


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """One agent and its workers: its last heartbeat, and what the scheduler knows of it. The model divides ``sent``
    and ``free`` over the agent's rows."""

    session: bytes
    name: str
    host: str
    pid: int
    state: PeerState = PeerState.CONNECTED
    cpu_percent: float = 0.0
    rss_bytes: int = 0
    rss_free_bytes: int = 0
    queued: int = 0  # reported by the agent: waiting there
    lag_seconds: float = 0.0
    sent: int = 0  # handed over by the scheduler and unfinished
    free: int = 0  # how many more tasks the scheduler might hand over
    silent_seconds: float = 0.0  # since anything was heard from it
    workers: tuple[WorkerStatus, ...] = ()


@dataclass(frozen=True, slots=True)
class ClientStatus:
    """One client session and its tasks."""

    session: bytes
    host: str = ""
    pid: int = 0
    connected: bool = True
    unassigned: int = 0
    running: int = 0
    finished: int = 0
    parent_session: bytes = b""  # a nested client: the client whose task it lives in


@dataclass(frozen=True, slots=True)
class FunctionStatus:
    """Tasks of one function, over all clients."""

    digest: bytes
    name: str
    unfinished: int = 0
    finished: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a plain monitor shows, at one moment."""

    scheduler: SchedulerStatus
    tasks: TaskCounts = TaskCounts()
    sent: tuple[MessageCount, ...] = ()
    received: tuple[MessageCount, ...] = ()
    agents: tuple[AgentStatus, ...] = ()
    clients: tuple[ClientStatus, ...] = ()
    functions: tuple[FunctionStatus, ...] = ()

    def with_process(self, cpu_percent: float, rss_bytes: int) -> Snapshot:
        """The same snapshot with what the operating system says of the scheduler's process."""
        scheduler = replace(self.scheduler, cpu_percent=cpu_percent, rss_bytes=rss_bytes)
        return replace(self, scheduler=scheduler)


MonitorMessage = Snapshot
"""The union of message kinds on the stream."""
