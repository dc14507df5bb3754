"""What the scheduler knows of one agent."""

from __future__ import annotations

from scaler_protocol.ids import shown_id
from scaler_protocol.messages import AgentAttach, Capability, Heartbeat, Hello, StoreStatus
from scaler_scheduler.core.agent_loads import AgentLoad
from scaler_scheduler.core.peers import AgentPeer


class Agent(AgentPeer):
    """One agent session."""

    def __init__(self, hello: Hello, index: int, now: float, cancelling: dict[int, Agent]) -> None:
        """``cancelling`` collects the agents that are to be told to stop something."""
        super().__init__(hello.session, index, now)
        self.shown_id = shown_id(hello.session)
        self.hello = hello
        self.user = b""
        self.is_relieved = False
        self.lost_at: float | None = None
        self.name = ""
        self.host = hello.host
        self.pid = hello.pid
        self.worker_names: tuple[str, ...] = ()
        self.capabilities: dict[str, int] = {}
        self.capacity: dict[str, int] = {}
        self.heartbeat: Heartbeat | None = None
        self.store = b""
        self.load = self._new_load(0, 0, {}, now)
        self.store_endpoint = ""
        self.store_status: StoreStatus | None = None
        self.cancels: dict[bytes, tuple[list[int], list[int]]] = {}
        self._cancelling = cancelling
        self.withdraw_pending = False
        self.fruitless_withdraws = 0
        self.rest_until = 0.0

    @property
    def is_broken(self) -> bool:
        """Its link has not begun: nothing is lost by beginning anew."""
        return not self.attached

    def attach(self, body: AgentAttach, per_worker_queue_size: int, now: float) -> None:
        """Take over what the agent says of itself. Capabilities are amounts per worker."""
        slots = len(body.worker_names)
        self.attached = True
        self.attached_at = now
        self.name, self.host, self.pid = body.name, body.host, body.pid
        self.worker_names = body.worker_names
        self.capabilities = {capability.name: capability.amount for capability in body.capabilities}
        self.capacity = {name: max(1, amount) * slots for name, amount in self.capabilities.items()}
        self.load = self._new_load(slots, max(1, per_worker_queue_size) * slots, self.capacity, now)

    def _new_load(self, slots: int, ceiling: int, resources: dict[str, int], now: float) -> AgentLoad:
        load = AgentLoad(self.index, slots, ceiling, resources)
        load.session, load.store, load.progress_at = self.session, self.store, now
        return load

    def can_serve(self, demand: tuple[tuple[str, int], ...]) -> bool:
        """Whether one of its workers has what a task demands."""
        return all(self.capabilities.get(name, 0) >= amount for name, amount in demand)

    def cancel(self, session: bytes, tasks: list[int], attempts: list[int]) -> None:
        """Tell it, at the end of this drain, to stop these."""
        column = self.cancels.setdefault(session, ([], []))
        column[0].extend(tasks)
        column[1].extend(attempts)
        self._cancelling[self.index] = self

    def title(self) -> str:
        return f"{self.name or self.session.hex()[:8]} ({self.host}, pid {self.pid})"


def demand_of(capabilities: tuple[Capability, ...]) -> tuple[tuple[str, int], ...]:
    """The capabilities of a task as a key: equal demands share a queue."""
    return tuple(sorted((capability.name, max(1, capability.amount)) for capability in capabilities))
