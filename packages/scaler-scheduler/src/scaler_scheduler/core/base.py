"""What the scheduler knows, and how it speaks to its peers."""

from __future__ import annotations

from scaler_protocol import codec
from scaler_protocol.messages import (
    Acknowledgement,
    Body,
    Envelope,
    FunctionDefinition,
    ObjectLocations,
    Refused,
    Relay,
    TaskOptions,
)
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.allocator import Allocator
from scaler_scheduler.core.balancer import Balancer
from scaler_scheduler.core.clients import Client
from scaler_scheduler.core.effects import Effect, Log, Send
from scaler_scheduler.core.lineage import Lineage
from scaler_scheduler.core.objects import ObjectStore
from scaler_scheduler.core.relays import Relays
from scaler_scheduler.core.repetition import Repetition
from scaler_scheduler.core.settings import (
    BYTES_PER_SECOND,
    HOUSEKEEPING_PER_AGENT_SECONDS,
    HOUSEKEEPING_SECONDS,
    TICK_SECONDS,
    Settings,
)
from scaler_scheduler.core.tasks import FunctionLoad, Places, QueueClass, Totals
from scaler_scheduler.core.transfers import Transfers
from scaler_scheduler.core.unclaimed import Unclaimed

_IGNORED_LIMIT = 10_000


class SchedulerState:
    """What the scheduler knows, and how it speaks to its peers."""

    def __init__(self, settings: Settings, now: float) -> None:
        self.settings = settings
        self.started_at = now
        self.clients: dict[bytes, Client] = {}
        self.agents: dict[bytes, Agent] = {}
        self.agent_by_index: dict[int, Agent] = {}
        self.agents_by_store: dict[bytes, list[Agent]] = {}
        self.functions: dict[bytes, FunctionDefinition] = {}
        self.function_loads: dict[bytes, FunctionLoad] = {}
        self.function_users: dict[bytes, int] = {}
        self.serializers: dict[bytes, FunctionDefinition] = {}
        self.totals = Totals()
        self.events = self.totals.events
        self.objects = ObjectStore()
        self.allocator = Allocator(Places(self.objects.objects, BYTES_PER_SECOND / 1e6))
        self.relays = Relays()
        self.transfers = Transfers(BYTES_PER_SECOND)
        self.unclaimed = Unclaimed()
        self.is_stopping = False
        self._balancer = Balancer(settings.load_balance_seconds, settings.load_balance_trigger_times)
        self._effects: list[Effect] = []
        self._lineage = Lineage()
        self._touched: dict[bytes, Client] = {}
        self._last_options: TaskOptions | None = None  # runs of one kind come in rows
        self._last_queue: QueueClass = self.allocator.queue_class((), 0)
        self._owing: dict[bytes, Client] = {}  # oldest first
        self._cancelling: dict[int, Agent] = {}
        self._stopping: list[Client] = []
        self._graph_clients: dict[bytes, Client] = {}
        self._acknowledge_at: float | None = None
        self._waiting: dict[bytes, Client] = {}
        self._ignored: dict[bytes, bool] = {}
        self._users: dict[bytes, bytes] = {}  # of peers that have no session yet
        self._malformed = Repetition()
        self._refused = Repetition()
        self._options: dict[tuple[TaskOptions, int], TaskOptions] = {}
        self._next_agent_index = 0
        self._next_tick_at: float | None = None
        self._stalled_at = float("-inf")
        self._housekeeping_at: float | None = None
        self._quit_at: float | None = None
        self._has_quit = False
        self._shutdown_by: dict[bytes, bool] = {}

    def _send(self, peer: Client | Agent, body: Body, now: float) -> Envelope:
        envelope = peer.link.wrap(body)
        self._transmit(peer, envelope, now)
        return envelope

    def _transmit(self, peer: Client | Agent, envelope: Envelope, now: float) -> None:
        peer.sent_at = now
        if peer.withheld is not None:
            envelope.acknowledged = min(envelope.acknowledged, peer.withheld)
        if not peer.connected:
            return
        if peer.route is None:
            self._effects.append(Send(peer.session, envelope))
        else:
            self._relay(peer.session, peer.route, envelope, now)

    def _relay(self, session: bytes, route: bytes, envelope: Envelope, now: float) -> None:
        agent = self.agents.get(route)
        if agent is not None:
            self._send(agent, Relay(session, tuple(bytes(frame) for frame in codec.encode(envelope))), now)

    def _answer(self, session: bytes, route: bytes | None, body: Body, now: float) -> None:
        """An unnumbered answer to a session that may have no link."""
        if route is None:
            self._effects.append(Send(session, Envelope(body)))
        else:
            self._relay(session, route, Envelope(body), now)

    def _send_all(self, replies: list, now: float) -> None:
        for session, body in replies:
            peer = self.agents.get(session) or self.clients.get(session)
            if isinstance(body, ObjectLocations) and session in self.agents:
                self.transfers.begin(session, body.key, body.size, now)
            if peer is not None:
                self._send(peer, body, now)

    def _send_acknowledgement(self, peer: Client | Agent, now: float) -> None:
        self._send(peer, Acknowledgement(), now)

    def _refuse(self, peer: bytes, refused: Refused, route: bytes | None) -> None:
        if route is None:
            self._effects.append(Send(peer, Envelope(refused)))
        else:
            self._relay(peer, route, Envelope(refused), 0.0)
        self._ignore(peer)

    def _ignore(self, peer: bytes) -> None:
        """What else it sends before its next Hello is dropped without a word."""
        while len(self._ignored) >= _IGNORED_LIMIT:
            del self._ignored[next(iter(self._ignored))]
        self._ignored[peer] = True

    def _log(self, text: str, level: str = "INFO") -> None:
        self._effects.append(Log(level, text))

    def _warn(self, kind: Repetition, text: str, now: float) -> None:
        first = kind.note(text, now)
        if first is not None:
            self._log(first, "WARNING")

    def _warn_of_repetitions(self, now: float) -> None:
        for kind in (self._malformed, self._refused):
            text = kind.take(now)
            if text is not None:
                self._log(text, "WARNING")

    def _arm(self, now: float) -> None:
        if self._next_tick_at is None:
            self._next_tick_at = now + TICK_SECONDS

    def _arm_housekeeping(self, now: float) -> None:
        """What agents need not know at once is told a little later, in one message for many."""
        if self._housekeeping_at is None:
            self._housekeeping_at = now + HOUSEKEEPING_SECONDS + len(self.agents) * HOUSEKEEPING_PER_AGENT_SECONDS
