"""The scheduler's state of one agent (contract of agents.pyx).

It is compiled because the hot path and placement read it with every message. The counters that change with every task
are in ``load``.
"""

from collections.abc import Sequence

from scaler_protocol.link import Link
from scaler_protocol.log_lines import LatestLines
from scaler_protocol.messages import AgentAttach, Capability, Heartbeat, Hello, StoreStatus, WorkerStatus
from scaler_protocol.task_run import TaskRun
from scaler_scheduler.core.agent_loads import AgentLoad
from scaler_scheduler.core.connections import PeerConnection
from scaler_scheduler.core.supplies import WorkerManager

class Agent:
    """One agent session."""

    # ---- identity and connection -----------------------------------------------------------------------------------

    session: bytes
    shown_id: bytes
    index: int
    """The number that tables store for this agent."""

    hello: Hello
    user: bytes
    """The holder of the key that the agent connected with."""

    connection: PeerConnection
    route: None
    link: Link

    # ---- what the agent says of itself -----------------------------------------------------------------------------

    name: str
    host: str
    pid: int
    worker_names: tuple[str, ...]
    manager_name: str
    """The worker manager that started it; empty: none."""

    manager: WorkerManager | None
    """This session is not of an agent, but of this worker manager."""

    capabilities: dict[str, int]
    """Amounts per worker, in millionths."""

    capacity: dict[str, int]
    """Amounts of all workers together, in millionths."""

    shown_capabilities: str
    """The first of ``capabilities``, for people: ``gpu=1, linux``. Those without limit have no amount."""

    heartbeat: Heartbeat | None
    heartbeat_at: float
    """The time at which ``heartbeat`` arrived."""

    workers: tuple[WorkerStatus, ...]
    """The rows of the last heartbeat that had any."""

    store: bytes
    store_endpoint: str
    store_status: StoreStatus | None
    log: LatestLines
    """The newest lines that it has logged."""

    @property
    def has_introduced_itself(self) -> bool:
        """Its first message has said whether it is an agent or a worker manager."""

    # ---- whether it may be given tasks -----------------------------------------------------------------------------

    load: AgentLoad
    attached: bool
    attached_at: float
    has_reported: bool
    """It has said all that it has from before a restart of the scheduler."""

    suspect: bool
    """Silent for longer than its pings explain: it gets no tasks."""

    is_relieved: bool
    """Silent for so long that its short tasks were queued again."""

    is_leaving: bool
    is_paused: bool
    """A client has asked that it gets no tasks."""

    is_drained: bool
    """It was told to leave: its host stays, as far as is known."""

    drained_at: float

    heard_at: float
    idle_at: float
    """The last tick at which it had no tasks."""

    excused_seconds: float
    """The part of the time since ``heard_at`` in which the scheduler itself did not run."""

    lost_at: float | None
    """The time at which the agent is given up, unless it reconnects."""

    version: int
    """Changes whenever placement looks at the agent; older heap entries are stale."""

    warmth: int
    """Greater than that of all agents that were given tasks before this one."""

    # ---- work stealing ---------------------------------------------------------------------------------------------

    withdraw_pending: bool
    fruitless_withdraws: int
    rest_until: float

    # ---- what the agent will be sent -------------------------------------------------------------------------------

    known: set[bytes]
    """Functions and serializers that it has."""

    outbox: list[TaskRun]
    releases: list[int]
    cancels: dict[bytes, tuple[list[int], list[int]]]
    actors: dict[tuple[bytes, int], int]
    """The attempts of the actors that it has said to have, by session and task."""

    def __init__(self, hello: Hello, index: int, now: float, agents_with_cancels: dict[int, Agent]) -> None:
        """``agents_with_cancels`` collects the agents that have cancels to be sent."""

    @property
    def is_available(self) -> bool:
        """The agent may be given new tasks."""

    @property
    def is_broken(self) -> bool:
        """The link has not begun: nothing is lost when it begins again."""

    def attach(self, body: AgentAttach, per_worker_queue_size: int, now: float) -> None:
        """Store what the agent says of itself."""

    def can_serve(self, demand: tuple[tuple[str, int], ...]) -> bool:
        """Return whether one of its workers has what a task demands."""

    def cancel(self, session: bytes, tasks: Sequence[int], attempts: Sequence[int]) -> None:
        """Have the agent stop these tasks. The message is sent at the end of the turn."""

    def shown_capabilities_left(self) -> str:
        """Return what no task has taken of ``capacity``, for people: ``gpu 2 of 4``. Those without limit are left
        out."""

    def title(self) -> str:
        """The agent's name for logs."""

def due_agents(agents: dict[bytes, Agent], turn: int, turns: int) -> list[Agent]:
    """Return the agents that a tick looks at. Each of ``turns`` successive turns looks at some of those that are well
    and have no tasks: there may be thousands of them."""

def agents_with_unread(agents: dict[bytes, Agent], limit: int) -> list[Agent]:
    """Return the agents that have not acknowledged more than ``limit`` messages."""

def agents_to_answer(agents: dict[bytes, Agent]) -> list[Agent]:
    """Return the agents that have not been told which of their results are released, or that messages of theirs have
    arrived."""

def agents_with_actors(agents: dict[bytes, Agent]) -> list[Agent]:
    """Return the agents that have reported actors."""

def demand_of(capabilities: tuple[Capability, ...]) -> tuple[tuple[str, int], ...]:
    """Return the capabilities that a task requires, in millionths, as a key: tasks with equal keys share a queue."""

def shown_demand(demand: tuple[tuple[str, int], ...]) -> str:
    """Return a demand as users write it: ``gpu=0.5, linux=1``."""

def shown_offer(capabilities: dict[str, int]) -> str:
    """Return the first of the capabilities of each worker, for people: ``gpu=1, linux``. Those without limit have no
    amount."""
