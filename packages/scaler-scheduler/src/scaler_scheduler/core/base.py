"""What the scheduler knows, and how it speaks to its peers."""

from __future__ import annotations

from scaler_protocol import codec
from scaler_protocol.messages import (
    Acknowledgement,
    Body,
    Envelope,
    ObjectLocations,
    Refused,
    Relay,
    TaskOptions,
)
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.allocator import Allocator
from scaler_scheduler.core.balancer import Balancer
from scaler_scheduler.core.clients import Client
from scaler_scheduler.core.coordination import Coordination
from scaler_scheduler.core.data_locations import DataLocations
from scaler_scheduler.core.effects import Log, Send
from scaler_scheduler.core.limits import IGNORED_LIMIT
from scaler_scheduler.core.lineage import Lineage
from scaler_scheduler.core.objects import ObjectStore
from scaler_scheduler.core.path import Path
from scaler_scheduler.core.relays import Relays
from scaler_scheduler.core.repetition import Repetition
from scaler_scheduler.core.settings import (
    BYTES_PER_SECOND,
    TICK_SECONDS,
    Settings,
)
from scaler_scheduler.core.totals import Totals
from scaler_scheduler.core.transfers import Transfers
from scaler_scheduler.core.unclaimed import Unclaimed


class SchedulerState(Path):
    """What the scheduler knows, and how it speaks to its peers."""

    def __init__(self, settings: Settings, now: float) -> None:
        objects = ObjectStore()
        allocator = Allocator(DataLocations(objects.objects, BYTES_PER_SECOND / 1e6))
        balancer = Balancer(settings.load_balance_seconds, settings.load_balance_trigger_times)
        coordination = Coordination(now)
        super().__init__(settings, Totals(), allocator, balancer, Lineage(), coordination.by_task)
        self.coordination = coordination
        self.started_at = now
        self.agent_by_index: dict[int, Agent] = {}
        self.agents_by_store: dict[bytes, list[Agent]] = {}
        self.function_users: dict[bytes, int] = {}
        self.serializer_users: dict[bytes, int] = {}
        self.objects = objects
        self.relays = Relays()
        self.transfers = Transfers(BYTES_PER_SECOND)
        self.unclaimed = Unclaimed()
        self._stopping: list[Client] = []
        self._malformed = Repetition()
        self._refused = Repetition()
        self._unreleased = Repetition()
        self._options: dict[tuple[TaskOptions, int], TaskOptions] = {}
        self._next_agent_index = 0
        self._stalled_at = float("-inf")
        self.audit_at = now
        self._description = float("-inf"), b""
        self._has_quit = False
        self._shutdown_by: dict[bytes, bool] = {}

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
        while len(self._ignored) >= IGNORED_LIMIT:
            del self._ignored[next(iter(self._ignored))]
        self._ignored[peer] = True

    def _log(self, text: str, level: str = "INFO") -> None:
        self._effects.append(Log(level, text))

    def _warn(self, kind: Repetition, text: str, now: float) -> None:
        first = kind.note(text, now)
        if first is not None:
            self._log(first, "WARNING")
        self._note_warnings()

    def _warn_of_repetitions(self, now: float) -> None:
        for kind in self._repetitions:
            text = kind.take(now)
            if text is not None:
                self._log(text, "WARNING")
        self._note_warnings()

    def _note_warnings(self) -> None:
        times = [kind.due_at for kind in self._repetitions if kind.due_at is not None]
        self._warn_at = min(times, default=None)

    @property
    def _repetitions(self) -> tuple[Repetition, ...]:
        return self._malformed, self._refused, self._unreleased

    def _arm(self, now: float) -> None:
        if self._next_tick_at is None:
            self._next_tick_at = now + TICK_SECONDS
