"""A task's way through the scheduler (contract of path.pyx): all that is done for each message of tasks or of results,
with what it needs. Compiled, since calls are what a lone task's time is made of.

Everything else is left to the classes that build on this one: other bodies (``_on_hello``, ``_on_agent_body``,
``_on_client_body``), whatever is not usual about tasks and results (``_define_all``, ``_enter_graph``, ``_set_aside``,
``_accept_others`` ...), and what else the end of a drain asks for (``_spread_news``, ``_keep_house`` ...).
"""

from typing import Any

from scaler_protocol.codec import ResultRun
from scaler_protocol.messages import Body, Envelope, FunctionDefinition
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.allocator import Allocator
from scaler_scheduler.core.balancer import Balancer
from scaler_scheduler.core.clients import Client
from scaler_scheduler.core.deliveries import Delivery
from scaler_scheduler.core.effects import Effect
from scaler_scheduler.core.events import Recorder
from scaler_scheduler.core.function_loads import FunctionLoad
from scaler_scheduler.core.lineage import Lineage
from scaler_scheduler.core.settings import Settings
from scaler_scheduler.core.totals import Totals

class Path:
    settings: Settings
    clients: dict[bytes, Client]
    agents: dict[bytes, Agent]
    functions: dict[bytes, FunctionDefinition]
    function_loads: dict[bytes, FunctionLoad]
    serializers: dict[bytes, FunctionDefinition]
    totals: Totals
    events: Recorder
    allocator: Allocator
    is_stopping: bool
    _balancer: Balancer
    _lineage: Lineage
    _effects: list[Effect]
    _touched: dict[bytes, Client]
    _owing: dict[bytes, Client]
    """Clients that wait for an acknowledgement, oldest first."""

    _waiting: dict[bytes, Client]
    _cancelling: dict[int, Agent]
    _graph_clients: dict[bytes, Client]
    _ignored: dict[bytes, bool]
    _next_tick_at: float | None
    _acknowledge_at: float | None
    _housekeeping_at: float | None
    _quit_at: float | None
    _warn_at: float | None
    def __init__(
        self,
        settings: Settings,
        totals: Totals,
        allocator: Allocator,
        balancer: Balancer,
        lineage: Lineage,
        lock_users: dict[bytes, Any],
    ) -> None:
        """``lock_users``: requests for locks that tasks have made, by the session of the task."""

    def on_message(self, peer: bytes, envelope: Envelope, now: float) -> None:
        """One message from the connection of ``peer``."""

    def take_effects(self, now: float) -> list[Effect]:
        """Finish the drain: admit, allocate, balance, forward, acknowledge. Then what the shell is to do, in order."""

    def next_deadline(self) -> float | None:
        """When to call ``on_deadline`` and ``take_effects`` at the latest."""

    def _on_client_message(self, client: Client, envelope: Envelope, now: float) -> None: ...
    def _accept(self, agent: Agent, run: ResultRun, delivery: Delivery, now: float) -> None: ...
    def _send(self, peer: Client | Agent, body: Body, now: float) -> Envelope: ...
    def _transmit(self, peer: Client | Agent, envelope: Envelope, now: float) -> None: ...
    def _forget_queue(self) -> None:
        """Queues were dropped, perhaps the one of the last run."""

    def _arm_housekeeping(self, now: float) -> None:
        """What agents need not know at once is told a little later, in one message for many."""
