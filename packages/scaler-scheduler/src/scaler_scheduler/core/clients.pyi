"""The scheduler's state of one client (contract of clients.pyx).

It is compiled because the hot path reads it with every message.
"""

from collections import deque

from scaler_protocol.codec import ResultRun
from scaler_protocol.link import Link
from scaler_protocol.messages import Envelope, Hello, ObjectKey, TaskName, UnsentCount
from scaler_scheduler.core.census import Census
from scaler_scheduler.core.connections import PeerConnection
from scaler_scheduler.core.deliveries import Delivery
from scaler_scheduler.core.holds import Holds
from scaler_scheduler.core.known_agents import KnownAgents
from scaler_scheduler.core.task_table import TaskTable
from scaler_scheduler.core.totals import Totals

class ClientPeer:
    """One client session."""

    # ---- identity and connection -----------------------------------------------------------------------------------

    session: bytes
    shown_id: bytes
    hello: Hello
    user: bytes
    """The holder of the key that the client connected with."""

    connection: PeerConnection
    route: bytes | None
    """The session of the agent that relays for a nested client."""

    link: Link
    is_broken: bool
    """The link cannot continue: the next Hello begins a new session."""

    gone_at: float | None
    """The time at which the connection ended, until the client comes back."""

    # ---- nesting ---------------------------------------------------------------------------------------------------

    parent: TaskName | None
    """The task that a nested client lives in, until its session ends."""

    is_nested: bool
    """It lives in a task, or has done so: its running time is that of its root client."""

    depth: int
    is_orphan: bool
    """No peer takes results any more."""

    # ---- tasks -----------------------------------------------------------------------------------------------------

    table: TaskTable
    @property
    def holds(self) -> Holds:
        """Resubmitted tasks, which wait in case an agent has them. Nodes of graphs wait until these do not."""

    @property
    def once_holds(self) -> Holds:
        """The same of tasks that must not start twice."""

    @property
    def known_agents(self) -> KnownAgents:
        """The agents of which the client knows that they may start these."""

    has_called: bool
    """The client has called an actor at some time."""

    waiting: deque[tuple[int, int]]
    """Tasks outside the bounded queue, as ranges."""

    states_until: float
    """The time until which the client may state what it has from before a restart of the scheduler."""

    has_stated: bool
    """The client has stated something since its Hello."""

    stated_cancels: dict[int, bool]
    asked_cancels: dict[int, bool]
    """After a restart: tasks that their agents were asked to cancel if they had not started (``unstarted_cancels``)."""

    unsent: tuple[UnsentCount, ...]
    """The calls that wait in the client for results of other tasks, as it says, by function."""

    unsent_since: float
    """The time at which the client said so first, after there were none."""

    certificates: dict[int, list[bytes]]
    """The certificates of worker processes that died, by task, as agents reported them."""

    failures: dict[int, int]
    """The number of failures of each task."""

    # ---- functions and objects -------------------------------------------------------------------------------------

    functions: dict[bytes, int]
    """The bytes of each function, by digest."""

    serializers: dict[bytes, int]
    definition_bytes: int
    unwanted: dict[bytes, bool]
    """Functions that the client has released."""

    objects: dict[ObjectKey, bool]

    # ---- results ---------------------------------------------------------------------------------------------------

    outgoing: list[tuple[ResultRun, Delivery | None]]
    rows: list[tuple[int, int, int, bytes, int, int, int]]
    """task, attempt, status, payload, duration, cpu time, memory peak"""

    deliveries: dict[int, tuple[list[Delivery], int]]
    """The results in an unacknowledged message, and its bytes, by the number of the message."""

    unacknowledged_bytes: int
    is_paused: bool
    """Too many bytes are unacknowledged: no further tasks are dispatched."""

    owing_since: float
    """The time since which the client waits for an acknowledgement."""

    output_left_out_bytes: int
    has_stored: bool
    """Objects of the client, or large results of its tasks, were at agents or in stores at some time."""

    large: dict[int, float]
    """Large results that agents hold, and since when."""

    large_bytes: dict[int, int]
    """Their sizes, as the agents say them."""

    fetching: dict[int, bool]
    """Results that the client has requested."""

    def __init__(self, hello: Hello, route: bytes | None, totals: Totals, now: float) -> None: ...
    @property
    def is_reachable(self) -> bool:
        """False: nothing takes the results of this client any more."""

    def row(self, task: int, status: int, payload: bytes = b"", attempt: int = 0) -> None:
        """Add a result that the scheduler makes itself."""

    def sent(self, envelope: Envelope, deliveries: list[Delivery], size: int) -> None:
        """Remember what to release when ``envelope`` is acknowledged."""

    def amend_bytes(self, size: int) -> None:
        """A count was wrong: so many bytes are unacknowledged."""

    def on_acknowledged(self, envelope: Envelope) -> None:
        """The client has received this message: its results need not be kept for it."""
    def drop_deliveries(self) -> None:
        """Forget all results that are not acknowledged: they count as delivered."""

    def states(self, now: float) -> None:
        """The client states what it has, and may state more: give it more time."""

    def take_note_of_left_out(self) -> bytes:
        """Return the note that replaces the output that the client did not get, and begin a new count of it."""

    def forget(self, task: int) -> None:
        """Drop the data of an ended task that only few tasks have."""

    def compare_bytes(self, census: Census) -> None:
        """Compare the byte counts with the messages that they count."""
