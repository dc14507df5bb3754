"""The state of a cluster as monitors show it, for programs."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from scaler.client.representations import table
from scaler.utility.exceptions import ScalerError
from scaler_protocol.monitor import feed
from scaler_protocol.monitor.messages import (
    ActorStatus,
    AgentStatus,
    ClientStatus,
    FunctionStatus,
    GraphStatus,
    GroupStatus,
    HostStoreStatus,
    MapStatus,
    PeerState,
    SchedulerStatus,
    Snapshot,
    TaskCounts,
    Unfinished,
    WaitGroup,
)
from scaler_protocol.monitor.running import RunningTaskRow, longest_running, running_rows


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """One worker process.

    ``pid`` is 0 and ``is_ready`` False until the process has started. ``agent`` is the name of the agent that started
    it. ``is_connected``: the scheduler hears from that agent. ``is_busy``: a task is running; ``is_blocked``: that task
    waits for tasks of its own. ``cpu_percent`` (of one CPU) and ``rss_bytes`` are as old as the agent's last
    report (``--heartbeat-interval``)."""

    name: str
    host: str
    agent: str
    pid: int
    is_connected: bool
    is_ready: bool
    is_busy: bool
    is_blocked: bool
    cpu_percent: float
    rss_bytes: int


@dataclass(frozen=True, slots=True)
class RunningTaskInfo:
    """A task that had run for a second or longer when its agent last reported.

    ``worker`` is like ``vm-3 nested 1`` for a process of the agent ``vm-3`` that runs nested tasks in addition to
    the workers. ``seconds``: how long it has run. ``cpu_percent`` and ``rss_bytes`` are those of its process.
    ``is_blocked``: it waits for its own tasks or for a lock. ``suspicion``: why it looks stuck, or empty. ``client`` is
    the beginning of the id of its client, as monitors show it. ``actor_name`` is the name of the actor that it is, or
    of which it is a call; empty if there is none."""

    function: str
    task: int
    host: str
    worker: str
    pid: int
    seconds: float
    cpu_percent: float
    rss_bytes: int
    is_blocked: bool
    suspicion: str
    client: str
    priority: int
    actor_name: str


@dataclass(frozen=True, slots=True, repr=False)
class ClusterInfo:
    """A cluster at one moment. ``snapshot`` has everything that monitors receive; the attributes name its parts. Of
    functions, waits, graphs and actors, the 200 most interesting ones are listed."""

    snapshot: Snapshot
    workers: tuple[WorkerInfo, ...]

    @property
    def scheduler(self) -> SchedulerStatus:
        return self.snapshot.scheduler

    @property
    def tasks(self) -> TaskCounts:
        """Tasks of all clients by state; those that have ended are counted since the scheduler started."""
        return self.snapshot.tasks

    @property
    def unfinished(self) -> Unfinished:
        """Unfinished tasks of all clients: waiting, queued on hosts, and running."""
        return self.snapshot.unfinished

    @property
    def running(self) -> tuple[RunningTaskInfo, ...]:
        """The tasks of all clients that have run for a second or longer: those that look stuck first, then those that
        started first."""
        rows = longest_running(running_rows(self.snapshot, {}))
        return tuple(map(_running_task, rows))

    @property
    def agents(self) -> tuple[AgentStatus, ...]:
        """One for each host with workers."""
        return self.snapshot.agents

    @property
    def clients(self) -> tuple[ClientStatus, ...]:
        return self.snapshot.clients

    @property
    def groups(self) -> tuple[GroupStatus, ...]:
        """The groups of these clients, with the weights and limits that operators have set."""
        return self.snapshot.groups

    @property
    def actors(self) -> tuple[ActorStatus, ...]:
        """Actors with their names, and how many of their calls run and wait."""
        return self.snapshot.actors

    @property
    def functions(self) -> tuple[FunctionStatus, ...]:
        """Tasks by function, over all clients."""
        return self.snapshot.functions

    @property
    def waits(self) -> tuple[WaitGroup, ...]:
        """The reasons why tasks are not running: for each function, client and reason how many tasks wait, since when,
        and from which priority to which."""
        return self.snapshot.waits

    @property
    def graphs(self) -> tuple[GraphStatus, ...]:
        """Graphs that have not ended."""
        return self.snapshot.graphs

    @property
    def maps(self) -> tuple[MapStatus, ...]:
        """The latest maps of each client, those with most unfinished tasks first."""
        return self.snapshot.maps

    @property
    def stores(self) -> tuple[HostStoreStatus, ...]:
        """The object stores of hosts."""
        return self.snapshot.stores

    def facts(self) -> list[tuple[str, str]]:
        """Return what a user wants to see at a glance: names and values."""
        workers = [worker for worker in self.workers if worker.is_connected]
        unfinished = self.unfinished
        hosts = len({worker.host for worker in workers})
        return [
            ("Workers", f"{len(workers)} on {hosts} {'host' if hosts == 1 else 'hosts'}"),
            ("Busy workers", str(sum(worker.is_busy for worker in workers))),
            ("Tasks running", f"{unfinished.running:,}"),
            ("Tasks queued on hosts", f"{unfinished.queued:,}"),
            ("Tasks waiting", f"{unfinished.waiting:,}"),
            ("Clients", str(len(self.clients))),
        ]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name.lower()}: {value}" for name, value in self.facts())
        return f"<ClusterInfo {self.scheduler.address} {shown}>"

    def _repr_html_(self) -> str:
        """Return what notebooks show."""
        return table(f"Scaler cluster of {self.scheduler.address}", self.facts())


def info_of(payload: bytes) -> ClusterInfo:
    """Decode the snapshot that the scheduler sends to a client. Raises ScalerError if it did not fit into a message."""
    if not payload:
        raise ScalerError("Cannot describe the cluster: it is too large for one message. Watch its monitor address.")
    snapshot = feed.decode(zlib.decompress(payload)).message
    assert isinstance(snapshot, Snapshot)
    return ClusterInfo(snapshot, tuple(worker for agent in snapshot.agents for worker in _workers_of(agent)))


def _running_task(row: RunningTaskRow) -> RunningTaskInfo:
    task = row.task
    return RunningTaskInfo(
        function=task.function,
        task=task.task,
        host=row.agent.host,
        worker=row.worker,
        pid=task.pid,
        seconds=task.seconds,
        cpu_percent=task.cpu_percent,
        rss_bytes=task.rss_bytes,
        is_blocked=task.blocked,
        suspicion=row.suspicion,
        client=task.session.hex()[:8],
        priority=task.priority,
        actor_name=task.actor_name,
    )


def _workers_of(agent: AgentStatus) -> Iterator[WorkerInfo]:
    for worker in agent.workers:
        yield WorkerInfo(
            name=worker.name,
            host=agent.host,
            agent=agent.name,
            pid=worker.pid,
            is_connected=agent.state in (PeerState.CONNECTED, PeerState.PAUSED),
            is_ready=worker.initialized,
            is_busy=worker.has_task,
            is_blocked=worker.slot_lent,
            cpu_percent=worker.cpu_percent,
            rss_bytes=worker.rss_bytes,
        )
