"""What is read or written of agents and clients with every message (contract of peers.pyx): the compiled part of
``Agent`` and of ``Client``."""

from scaler_protocol.codec import ResultRun
from scaler_protocol.link import Link
from scaler_protocol.messages import Envelope, TaskName
from scaler_protocol.task_run import TaskRun
from scaler_scheduler.core.agent_loads import AgentLoad
from scaler_scheduler.core.deliveries import Delivery
from scaler_scheduler.core.task_table import TaskTable

class Peer:
    """One session. ``route`` is the agent that relays for it, or None for a connection of its own."""

    session: bytes
    route: bytes | None
    link: Link
    connected: bool
    sent_at: float
    withheld: int | None
    """What clients have: the number to acknowledge instead of the true one."""

class AgentPeer(Peer):
    """``load`` holds the counters that per-task code changes; all else is per message."""

    index: int
    load: AgentLoad
    attached: bool
    suspect: bool
    is_leaving: bool
    heard_at: float
    excused_seconds: float
    """How much of the time since then the scheduler itself did not run."""

    attached_at: float
    known: set[bytes]
    outbox: list[TaskRun]
    releases: list[int]
    version: int
    def __init__(self, session: bytes, index: int, now: float) -> None: ...
    @property
    def is_available(self) -> bool:
        """May be given new tasks."""

class ClientPeer(Peer):
    table: TaskTable
    is_broken: bool
    is_orphan: bool
    is_paused: bool
    depth: int
    parent: TaskName | None
    owing_since: float
    outgoing: list[tuple[ResultRun, Delivery | None]]
    rows: list[tuple[int, int, int, bytes, int, int, int]]
    """task, attempt, status, payload, duration, cpu time, memory peak"""

    unacknowledged_bytes: int
    deliveries: dict[int, tuple[list[Delivery], int]]
    """By the number of the message that is not acknowledged yet: what it brings, and its bytes."""

    def __init__(self, table: TaskTable, route: bytes | None, budget_bytes: int) -> None:
        """``budget_bytes``: what it may leave unacknowledged before its tasks pause."""

    @property
    def is_reachable(self) -> bool:
        """Results can still be of use to somebody."""

    def row(self, task: int, status: int, payload: bytes = b"", attempt: int = 0) -> None:
        """A result that the scheduler makes itself."""

    def sent(self, envelope: Envelope, deliveries: list[Delivery], size: int) -> None:
        """Remember what to release when ``envelope`` is acknowledged."""

    def on_acknowledged(self, envelope: Envelope) -> None:
        """Release what ``envelope`` brought."""

    def amend_bytes(self, size: int) -> None:
        """A count was wrong: so many are unacknowledged."""

    def drop_deliveries(self) -> None:
        """Nobody waits for these results any more: they count as arrived."""
