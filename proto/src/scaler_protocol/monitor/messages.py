"""The messages of the monitor stream, as plain values.

The scheduler's core fills a :class:`Snapshot`; ``feed`` encodes it; a screen's ``model`` makes rows of it. A snapshot
is complete: a watcher that comes late or misses some needs only the next one. Counts are totals since the scheduler
started and never sampled. Between snapshots, :class:`Events` carry what happened to each task.
"""

from __future__ import annotations

import enum
from dataclasses import replace
from typing import NamedTuple, Union

from scaler_protocol.messages import WorkerStatus
from scaler_protocol.value import value

MONITOR_MAJOR = 1
MONITOR_MINOR = 2
"""A watcher refuses another major; fields and message kinds are added under the same one."""


DURATION_BOUNDS_SECONDS = tuple(4**power / 1e6 for power in range(4, 17))
"""The bounds of distributions of durations, from 256 us to 72 minutes. Distributions of durations count those below the
first one, between successive ones, and the others. Powers of four microseconds, because the scheduler's own buckets are
parts of powers of two."""


class PeerState(enum.IntEnum):
    """The state of an agent, as seen by the scheduler. The values are part of the wire format and never change."""

    CONNECTED = 0
    SUSPECT = 1  # silent: gets no new tasks
    LOST = 2
    PAUSED = 3  # gets no new tasks because an operator has paused it, or because it leaves (AgentStatus.draining)


@value(frozen=True, slots=True)
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


@value(frozen=True, slots=True)
class TaskCounts:
    """Tasks by state: the first two are now, the others since the scheduler started."""

    unassigned: int = 0
    running: int = 0  # assigned to an agent and unfinished: running, or queued on its host
    success: int = 0
    failed: int = 0
    canceled: int = 0
    not_found: int = 0


class Unfinished(NamedTuple):
    """The unfinished tasks, by where they are; together they are ``unassigned`` and ``running`` of ``TaskCounts``."""

    waiting: int  # not assigned to an agent
    queued: int  # assigned to an agent, and waiting on its host
    running: int  # in a worker process, as far as the agents have reported


@value(frozen=True, slots=True)
class MessageCount:
    """Messages of one kind, by the class name of their body (``Tasks``, ``HeartbeatEcho``)."""

    name: str
    count: int


@value(frozen=True, slots=True)
class RunningTaskStatus:
    """A task that has run for a second or longer when its agent last reported, and has not ended."""

    session: bytes
    function: str
    digest: bytes = b""  # of the function
    task: int = 0
    attempt: int = 0
    worker: int = 0  # index of the worker; beyond the workers: a process for nested tasks
    pid: int = 0
    seconds: float = 0.0  # since it started
    idle_seconds: float = 0.0  # since its process was last seen to use processor time
    usual_seconds: float = 0.0  # how long tasks of this function take; 0: not known
    cpu_percent: float = 0.0  # of its process
    rss_bytes: int = 0  # of its process
    blocked: bool = False  # it waits for tasks of its own, or for a lock
    module: str = ""  # of the function
    actor: bool = False  # it is an actor, which runs until it is ended
    map_number: int = 0  # of the map to which it belongs, inside its session; 0: none
    graph: int = 0  # the number of the last task of its graph; 0: none
    actor_name: str = ""  # of the actor that it is, or of which it is a call; empty: none
    priority: int = 0


@value(frozen=True, slots=True)
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
    running: tuple[RunningTaskStatus, ...] = ()  # at most one for each process
    memory_limit_bytes: int = 0  # what its host or control group may use; 0: not known
    capabilities: str = ""  # that each of its workers offers: "gpu=1, linux"
    capabilities_left: str = ""  # that no task has taken, of all its workers: "gpu 2 of 4"; not of unlimited ones
    draining: bool = False  # it leaves when its running tasks have ended

    @property
    def state_name(self) -> str:
        """The state as monitors show it: connected, suspect, paused, draining or lost."""
        return "draining" if self.draining and self.state is PeerState.PAUSED else self.state.name.lower()


@value(frozen=True, slots=True)
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
    group: str = ""
    weight: float = 1.0  # within its group
    share: float = 0.0  # of all running time, that the client and those in its tasks are due; 0: it has no tasks
    used_seconds: float = 0.0  # the running time of its tasks and of those in its tasks; 0 for a nested client
    failed: int = 0  # of the finished ones, as is the next one
    canceled: int = 0
    user: str = ""  # its login name, as it says
    key_name: str = ""  # the name of its key, which it has proved; empty: none
    program: str = ""  # as it says
    asked_weight: float = 0.0  # the weight that it has asked for; 0: not known


@value(frozen=True, slots=True)
class GroupStatus:
    """A group of clients, and what operators have set for it."""

    name: str
    weight: float = 1.0  # among the groups
    worker_limit: int = 0  # how many workers it may use; 0: any number


@value(frozen=True, slots=True)
class EndedClientStatus:
    """A client whose session has ended, or, without a session, ``count`` of them."""

    session: bytes = b""
    host: str = ""
    pid: int = 0
    group: str = ""
    finished: int = 0
    used_seconds: float = 0.0
    count: int = 1
    failed: int = 0  # of the finished ones, as is the next one
    canceled: int = 0
    user: str = ""  # its login name, as it says
    key_name: str = ""  # the name of its key, which it has proved; empty: none
    program: str = ""  # as it says


def user_of_client(client: ClientStatus | EndedClientStatus) -> str:
    """Return who uses a client: what it says, and the name of its key if that differs."""
    if not client.key_name or client.key_name == client.user:
        return client.user
    return f"{client.user} (key {client.key_name})" if client.user else client.key_name


@value(frozen=True, slots=True)
class FunctionStatus:
    """Tasks of the functions of one module and name, over all clients since the scheduler started. ``digest``: of
    one of them."""

    digest: bytes
    name: str
    unfinished: int = 0
    finished: int = 0
    succeeded: int = 0
    failed: int = 0
    canceled: int = 0
    duration_seconds: float = 0.0  # of all executions that ended at workers, together
    cpu_seconds: float = 0.0  # of the same
    executions: int = 0  # how many these are
    median_seconds: float = 0.0  # that they were running, as all of these four; this and the next one within a quarter
    p95_seconds: float = 0.0  # that 95 % of them do not exceed
    longest_seconds: float = 0.0
    duration_counts: tuple[int, ...] = ()  # executions between successive ``DURATION_BOUNDS_SECONDS``
    wait_counts: tuple[int, ...] = ()  # the same of first attempts, by how long they waited for a worker
    dependencies_seconds: float = 0.0  # that they waited for results of other tasks, together
    waiting_seconds: float = 0.0  # that they waited for a worker
    fetching_seconds: float = 0.0  # this and the next two are parts of ``duration_seconds``: waiting for objects
    loading_seconds: float = 0.0  # arguments
    storing_seconds: float = 0.0  # results
    number: int = 0  # of its colour, from 1 on, the same for all monitors; 0: it has none
    module: str = ""  # in which the functions are defined; empty: not known

    @property
    def running_seconds(self) -> float:
        """The rest of ``duration_seconds``."""
        return max(0.0, self.duration_seconds - self.fetching_seconds - self.loading_seconds - self.storing_seconds)


@value(frozen=True, slots=True)
class Setting:
    """One setting of the scheduler, by the name of its flag, as text."""

    name: str
    value: str


@value(frozen=True, slots=True)
class WaitGroup:
    """Tasks of one function and client that do not run, all for the same reason (a sentence), with one of them as an
    example."""

    digest: bytes
    function: str
    reason: str
    count: int = 0
    oldest_seconds: float = 0.0  # how long the one that came first has waited
    session: bytes = b""
    task: int = 0
    module: str = ""  # of the function
    demand: str = ""  # the capabilities that they need: "gpu=1, linux=1"
    place: str = ""  # a sentence about what is served before ``task``, or offered instead; empty: nothing
    priority: int = 0  # of ``task``
    lowest_priority: int = 0  # of all tasks of the group; earlier schedulers send 0 for both
    highest_priority: int = 0


@value(frozen=True, slots=True)
class GraphStatus:
    """One graph that is not over. ``graph`` is the number of its last task, which names it inside its session."""

    session: bytes
    graph: int
    nodes: int = 0
    waiting: int = 0  # for their inputs
    ready: int = 0
    running: int = 0
    done: int = 0
    failed: int = 0  # or cancelled, for example because what they need failed
    canceled: int = 0  # of the failed ones


@value(frozen=True, slots=True)
class MapStatus:
    """One call of ``map``. ``number``: inside its session."""

    session: bytes
    number: int
    function: str = ""
    total: int = 0  # tasks that have come so far
    unfinished: int = 0
    running: int = 0  # of these: assigned to an agent
    failed: int = 0  # or cancelled
    module: str = ""  # of the function
    canceled: int = 0  # of the failed ones
    to_come: int = 0  # tasks that the client has still to submit, as far as it has said
    is_open: bool = False  # further tasks may come, and their number is not known


UNLIMITED_RESTARTS = 2**31 - 1
"""The ``restarts_limit`` of an actor that is made again as often as it dies."""


@value(frozen=True, slots=True)
class ActorStatus:
    """An actor that an agent has, or that waits for a worker. ``task``: the number of the task that makes it."""

    session: bytes
    task: int = 0
    function: str = ""  # its class
    host: str = ""  # empty: it waits for a worker
    worker: str = ""  # empty: not known
    is_made: bool = False  # it takes calls
    running: int = 0  # calls that run: at most as many as its ``max_concurrency``
    waiting: int = 0  # its other unfinished calls
    restarts: int = 0  # how often its process or its host has died
    restarts_limit: int = 0  # how often it is made again after that
    seconds: float = 0.0  # since its client asked for it, or stated it after a restart of the scheduler
    module: str = ""  # of the class
    name: str = ""  # that get_actor finds; empty: none


@value(frozen=True, slots=True)
class HostStoreStatus:
    """The object store of one host. ``endpoint``: the address for the stores of other hosts; empty: it has none."""

    host: str
    objects: int = 0
    used_bytes: int = 0
    capacity_bytes: int = 0
    spilled_bytes: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    endpoint: str = ""
    disk_free_bytes: int = 0  # of the file system to which it spills; this and the next one are 0 if not known
    disk_capacity_bytes: int = 0


@value(frozen=True, slots=True)
class HostTraffic:
    """The bytes that the object store of the host ``target`` has received from that of ``source``."""

    source: str
    target: str
    received_bytes: int = 0


@value(frozen=True, slots=True)
class ObjectStatus:
    """One large object. ``number``: of the task whose result it is, 0 for a function, otherwise one of the numbers of
    ``ObjectKey``. ``session``: of the client that sent it, or to which the task belongs."""

    session: bytes
    number: int
    digest: bytes = b""  # of a function; empty: it is none
    size_bytes: int = 0
    copies: int = 0  # hosts that have it
    hosts: str = ""  # these, for people
    readers: int = 0  # unfinished tasks that need it
    reader_tasks: str = ""  # the numbers of the first of them
    host_names: tuple[str, ...] = ()  # the first of the hosts that have it


@value(frozen=True, slots=True)
class EventTotals:
    """Event records since the recording began; ``dropped`` are missing from the stream because it could not keep up."""

    recorded: int = 0
    dropped: int = 0


@value(frozen=True, slots=True)
class Snapshot:
    """Everything a plain monitor shows, at one moment. Tables that could grow without bound show their 200 most
    interesting rows; ``function_count``, ``wait_count`` and ``graph_count`` are how many there are in truth."""

    scheduler: SchedulerStatus
    tasks: TaskCounts = TaskCounts()
    sent: tuple[MessageCount, ...] = ()
    received: tuple[MessageCount, ...] = ()
    agents: tuple[AgentStatus, ...] = ()
    clients: tuple[ClientStatus, ...] = ()
    functions: tuple[FunctionStatus, ...] = ()
    time: float = 0.0  # seconds since 1970
    settings: tuple[Setting, ...] = ()
    waits: tuple[WaitGroup, ...] = ()
    graphs: tuple[GraphStatus, ...] = ()
    stores: tuple[HostStoreStatus, ...] = ()
    events: EventTotals = EventTotals()
    function_count: int = 0
    wait_count: int = 0
    graph_count: int = 0
    trouble: str = ""
    """A problem that does not stop the scheduler, as a sentence."""

    ended_clients: tuple[EndedClientStatus, ...] = ()
    objects: tuple[ObjectStatus, ...] = ()
    """The largest objects."""

    maps: tuple[MapStatus, ...] = ()
    """The latest maps of each client."""

    traffic: tuple[HostTraffic, ...] = ()
    """Between hosts."""

    groups: tuple[GroupStatus, ...] = ()
    """The groups of the clients."""

    actors: tuple[ActorStatus, ...] = ()
    """The actors with most unfinished calls."""

    actor_count: int = 0
    """The number of actors."""

    @property
    def unfinished(self) -> Unfinished:
        """Agents report their processes every few seconds, so an agent cannot run more than it has now."""
        running = min(self.tasks.running, sum(min(agent.sent, _busy_processes(agent)) for agent in self.agents))
        return Unfinished(self.tasks.unassigned, self.tasks.running - running, running)

    def with_process(self, cpu_percent: float, rss_bytes: int) -> Snapshot:
        """The same snapshot with what the operating system says of the scheduler's process."""
        scheduler = replace(self.scheduler, cpu_percent=cpu_percent, rss_bytes=rss_bytes)
        return replace(self, scheduler=scheduler)


def _busy_processes(agent: AgentStatus) -> int:
    """Return the number of busy processes. Those for nested tasks are known only while they run a task that takes
    long."""
    nested = sum(task.worker >= len(agent.workers) for task in agent.running)
    return nested + sum(worker.has_task for worker in agent.workers)


@value(frozen=True, slots=True)
class Events:
    """Records of what happened, back to back as the core wrote them (see ``records``). Records are numbered; ``first``
    is the number of the first one here. A watcher that expected a lower number has missed some, one that expected a
    higher number has seen some of these already."""

    time: float  # seconds since 1970: when this batch was made
    first: int = 0
    records: bytes = b""
    dropped: int = 0  # records lost before this batch, since the recording began
    count: int = 0  # records in this batch
    epoch: int = 0  # of the scheduler: numbers and indices belong to one epoch


MonitorMessage = Union[Snapshot, Events]
"""The union of message kinds on the stream."""
