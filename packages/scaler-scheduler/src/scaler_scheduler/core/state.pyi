"""Everything that the scheduler knows (contract of state.pyx): one structure, which the rules read and change.

A rule is a function ``on_x(state, peer, body, now)`` or a step of one. The groups below say what belongs together. The
structure is compiled because ``hot_path`` reads it with every message; it has no behaviour of its own.
"""

from scaler_protocol.forgotten_tasks import ForgottenTasks
from scaler_protocol.log_lines import LatestLines
from scaler_protocol.messages import FunctionDefinition, ObjectKey, TaskOptions
from scaler_scheduler.core.absent_sessions import AbsentSessions
from scaler_scheduler.core.action_rates import ActionRates
from scaler_scheduler.core.actor_queues import ActorQueues
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.departure_table import Departure
from scaler_scheduler.core.effects import Effect
from scaler_scheduler.core.ended_clients import EndedClients
from scaler_scheduler.core.events import Recorder
from scaler_scheduler.core.fair_shares import Shares
from scaler_scheduler.core.function_loads import FunctionLoad
from scaler_scheduler.core.function_totals import FunctionTotals
from scaler_scheduler.core.lineage import Lineage
from scaler_scheduler.core.lock_table import LockTable
from scaler_scheduler.core.named_table import NamedTable
from scaler_scheduler.core.objects import ObjectStore
from scaler_scheduler.core.output_table import OutputTable
from scaler_scheduler.core.placement import Placement
from scaler_scheduler.core.profile_table import ProfileTable
from scaler_scheduler.core.relays import Relays
from scaler_scheduler.core.repetition import Repetition
from scaler_scheduler.core.settings import Settings
from scaler_scheduler.core.software_table import SoftwareTable
from scaler_scheduler.core.stack_table import StackTable
from scaler_scheduler.core.totals import Totals
from scaler_scheduler.core.transfers import Transfers
from scaler_scheduler.core.unclaimed import Unclaimed
from scaler_scheduler.core.work_stealing import Balancer

class SchedulerState:
    # ---- configuration ---------------------------------------------------------------------------------------------

    settings: Settings
    started_at: float

    # ---- peers -----------------------------------------------------------------------------------------------------

    clients: dict[bytes, ClientPeer]
    """The clients by session."""

    agents: dict[bytes, Agent]
    """The agents by session."""

    agent_by_index: dict[int, Agent]
    """The agents by the number that tables store for an agent."""

    agents_by_store: dict[bytes, list[Agent]]
    """Agents of one host share an object store."""

    next_agent_index: int
    actors: ActorQueues
    """The calls of actors that no agent has yet."""

    lineage: Lineage
    """The nested clients of each task."""

    nested_to_cancel: list[ClientPeer]
    """Nested clients whose tasks are being cancelled just now, in a loop instead of a recursion."""

    ignored: dict[bytes, bool]
    """Sessions of which only a Hello is considered, oldest first."""

    unclaimed: Unclaimed
    """Reports of agents after a restart, for clients that have not come back yet."""

    absent: AbsentSessions
    """The clients of an earlier scheduler that may come back."""

    forgotten: ForgottenTasks
    """Tasks that agents were told to drop because their clients were away."""

    # ---- functions and serializers ---------------------------------------------------------------------------------

    functions: dict[bytes, FunctionDefinition]
    """The functions by digest, like the following tables."""

    function_users: dict[bytes, int]
    """The number of clients that have a function."""

    function_loads: dict[bytes, FunctionLoad]
    ended_clients: EndedClients
    function_totals: FunctionTotals
    """The number of tasks of each function, and their durations."""

    serializers: dict[bytes, FunctionDefinition]
    serializer_users: dict[bytes, int]

    # ---- queues ----------------------------------------------------------------------------------------------------

    placement: Placement
    shares: Shares
    """The queues, and the placement of queued tasks."""

    balancer: Balancer
    """Work stealing."""

    is_bounded: bool
    """The number of waiting tasks is limited."""

    clients_waiting: dict[bytes, ClientPeer]
    """Clients with tasks outside the bounded queue, in the order of their turns."""

    graph_clients: dict[bytes, ClientPeer]
    """Clients that have submitted graphs."""

    introductions: dict[bytes, ClientPeer]
    """Clients that may have to be told of agents before their tasks with ``rerun=False`` can run."""

    clients_to_part: dict[bytes, ClientPeer]
    """Clients that are to be told that agents are gone."""

    deepened_options: dict[tuple[TaskOptions, int], TaskOptions]
    """Options of nested tasks, by the options that their client gave and the client's depth."""

    # ---- objects, and what clients share by name -------------------------------------------------------------------

    objects: ObjectStore
    relays: Relays
    transfers: Transfers
    departures: dict[bytes, Departure]
    """The agents that leave and have values, by session."""

    unknown_owners: dict[bytes, dict[bytes, float]]
    """The owners of objects in stores that are not clients, by the session of the agent that names them: until when
    each may yet appear."""

    lost_inputs: dict[bytes, dict[tuple[int, ...], list[int]]]
    """The tasks outside graphs that wait until the results that they need have been made again, by session and by the
    tasks that have these results."""

    awaited_values: dict[ObjectKey, dict[bytes, bool]]
    """The values that agents wait for because they are being made again: whether each agent, by session, needs the
    bytes themselves."""

    stated_copies: dict[bytes, dict[ObjectKey, dict[bytes, float]]]
    """Copies of results that agents have since before a restart of the scheduler: by owner, key and agent, since when
    the scheduler knows."""

    locks: LockTable
    named: NamedTable
    action_rates: ActionRates
    stacks: StackTable
    profiles: ProfileTable
    software: SoftwareTable
    outputs: OutputTable
    log: LatestLines
    """The newest lines that the scheduler has logged."""

    # ---- timers: when something is due, None when nothing is -------------------------------------------------------

    next_tick_at: float | None
    acknowledge_at: float | None
    housekeeping_at: float | None
    quit_at: float | None
    warn_at: float | None
    recount_at: float
    stalled_at: float
    """The last time at which the scheduler noticed that it had not run for a while."""

    # ---- outbox: what the end of the turn sends --------------------------------------------------------------------

    effects: list[Effect]
    clients_with_results: dict[bytes, ClientPeer]
    """Clients that have results to send."""

    clients_to_acknowledge: dict[bytes, ClientPeer]
    """Clients that wait for an acknowledgement, oldest first."""

    agents_with_cancels: dict[int, Agent]
    """Agents that have cancels to send."""

    # ---- shutdown --------------------------------------------------------------------------------------------------

    is_stopping: bool
    has_quit: bool
    shutdown_requested_by: dict[bytes, bool]

    # ---- monitoring ------------------------------------------------------------------------------------------------

    totals: Totals
    events: Recorder
    malformed_warnings: Repetition
    refusal_warnings: Repetition
    lock_warnings: Repetition
    group_warnings: Repetition
    description: tuple[float, bytes]
    """The latest description of the cluster for clients, and when it was made."""

    await_description: list[bytes]
    """The sessions of the clients that wait for the next one; one of them for each request."""

    def __init__(self, settings: Settings, now: float) -> None: ...
    def forget_queue(self) -> None:
        """Queues were dropped, perhaps the queue of the latest run."""
