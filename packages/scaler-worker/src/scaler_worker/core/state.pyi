"""The state of an agent (contract; the code is in state.pyx): one structure that the rules of its core share."""

from scaler_protocol.codec import ResultRun
from scaler_protocol.link import Link
from scaler_protocol.messages import Body, FunctionDefinition, ObjectKey, StoreAttached, StoreStatus
from scaler_worker.core.actors import HostedActors
from scaler_worker.core.lease import Lease
from scaler_worker.core.nested import NestedClients
from scaler_worker.core.nodes import Named, Nodes
from scaler_worker.core.objects import ObjectExchange, Store
from scaler_worker.core.outbox import Outbox
from scaler_worker.core.own_results import OwnRows
from scaler_worker.core.packages import NeededPackages
from scaler_worker.core.queue import TaskQueue

class AgentState:
    # ---- tasks -------------------------------------------------------------------------------------------------

    @property
    def queue(self) -> TaskQueue:
        """Tasks that can run as soon as there is room for them."""

    @property
    def nodes(self) -> Nodes:
        """Nodes of graphs that wait for values, and the values that are here."""

    @property
    def actors(self) -> HostedActors: ...
    @property
    def functions(self) -> dict[bytes, FunctionDefinition]: ...
    @property
    def serializers(self) -> dict[bytes, FunctionDefinition]: ...

    accepting: bool
    """False: the agent is leaving and starts nothing more."""

    # ---- results -----------------------------------------------------------------------------------------------

    @property
    def finished(self) -> list[ResultRun]:
        """Results that are not sent yet."""

    @property
    def rows(self) -> OwnRows:
        """Results that the agent itself made, of tasks that it had to end."""

    @property
    def given_back(self) -> list[Named]:
        """Tasks that this agent cannot run: the scheduler must queue them again."""

    @property
    def retained(self) -> dict[int, list[ResultRun]]:
        """Sent results that their clients may not have received, by number of the message."""

    is_watched: bool
    """Results must name the worker and the time: a monitor shows them."""

    # ---- objects -----------------------------------------------------------------------------------------------

    @property
    def objects(self) -> ObjectExchange: ...
    @property
    def packages(self) -> NeededPackages: ...
    @property
    def freed(self) -> list[ObjectKey]:
        """Large values of nodes that are no longer needed."""

    host_store: StoreAttached | None
    """The object store of this host, once the agent is connected to it."""

    store_status: StoreStatus | None
    """The contents of the store, as it has stated them last."""

    # ---- the connection to the scheduler -----------------------------------------------------------------------

    @property
    def outbox(self) -> Outbox: ...

    link: Link
    welcomed: bool
    scheduler_minor: int
    """The minor version of the protocol that the scheduler speaks."""

    @property
    def lease(self) -> Lease: ...
    @property
    def unsent(self) -> list[Body]:
        """Messages other than results for the end of this turn, or until the scheduler has welcomed the agent."""

    report_ends: bool
    """The messages and results of this turn are the last ones of the report to a scheduler that does not know this
    agent."""

    sent_at: float
    looked_at: float
    """The last time at which the agent checked whether it has to send something."""

    acknowledge_at: float | None

    # ---- output of tasks ---------------------------------------------------------------------------------------

    @property
    def output_sizes(self) -> dict[int, int]:
        """Bytes of output that are not acknowledged, by number of the message."""

    output_waits: bool
    """Tasks that print must wait until the scheduler has received some of it."""

    # ---- blocked tasks -----------------------------------------------------------------------------------------

    @property
    def nested(self) -> NestedClients: ...

    lent: tuple[int, int, bool, int]
    """The last report to the scheduler about lent slots, and about tasks that wait for packages and use none: their
    number, the depth that a task must exceed to use one, and whether any depth will do."""

    # ---- leaving -----------------------------------------------------------------------------------------------

    stop_at: float | None
    """The time at which running tasks must have ended; None: the agent is not leaving."""

    goodbye_due: bool
    def __init__(self, store: Store, now: float) -> None: ...
