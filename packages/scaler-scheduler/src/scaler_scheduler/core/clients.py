"""What the scheduler knows of one client session."""

from __future__ import annotations

from collections import deque

from scaler_protocol.codec import ResultRun
from scaler_protocol.ids import shown_id
from scaler_protocol.link import Link
from scaler_protocol.messages import MESSAGE_LIMIT_BYTES, Envelope, Hello, ObjectKey, Results, TaskName
from scaler_scheduler.core.deliveries import Delivery
from scaler_scheduler.core.settings import HOLD_SECONDS, RESULT_BUDGET_BYTES
from scaler_scheduler.core.tasks import TaskTable, Totals

Row = tuple[int, int, int, bytes, int, int, int]
"""task, attempt, status, payload, duration, cpu time, memory peak"""

_ROW_BYTES = 48
_GROUP_LIMIT_BYTES = MESSAGE_LIMIT_BYTES * 9 // 10


class Client:
    """One client session. ``route`` is the agent that relays for it, or None for a connection of its own."""

    def __init__(self, hello: Hello, route: bytes | None, totals: Totals, now: float) -> None:
        self.session = hello.session
        self.shown_id = shown_id(hello.session)
        self.hello = hello
        self.user = b""
        self.route = route
        self.link = Link(self._on_acknowledged)
        self.table = TaskTable(hello.session, totals)
        self.connected = True
        self.is_broken = False
        self.gone_at: float | None = None
        self.depth = 0
        self.parent: TaskName | None = None
        self.is_orphan = False
        self.is_paused = False
        self.functions: dict[bytes, bool] = {}
        self.unwanted: dict[bytes, bool] = {}
        self.objects: dict[ObjectKey, bool] = {}
        self.outgoing: list[tuple[ResultRun, Delivery | None]] = []
        self.rows: list[Row] = []
        self.deliveries: dict[int, tuple[list[Delivery], int]] = {}
        self.unacknowledged_bytes = 0
        self.output_left_out_bytes = 0
        self.held: list[tuple[int, int]] = []
        self.hold_until: float | None = None
        self.states_until = now + HOLD_SECONDS
        self.waiting: deque[tuple[int, int]] = deque()
        self.withheld: int | None = None
        self.owing_since = 0.0
        self.sent_at = 0.0
        self.certificates: dict[int, list[bytes]] = {}
        self.failures: dict[int, int] = {}
        self.large: dict[int, float] = {}
        self.fetching: dict[int, bool] = {}

    def states(self, now: float) -> None:
        """It says what it has: after a restart of the scheduler perhaps of long ago, and there may be more to come."""
        if now < self.states_until:
            self.states_until = now + HOLD_SECONDS

    @property
    def is_reachable(self) -> bool:
        """Results can still be of use to somebody."""
        return not self.is_orphan

    def forward(self, run: ResultRun, delivery: Delivery | None) -> None:
        """Send a run at the end of this drain; what it came from is released when the client has it."""
        if self.is_orphan:
            return
        if delivery is not None:
            delivery.hold()
        self.outgoing.append((run, delivery))

    def row(self, task: int, status: int, payload: bytes = b"", attempt: int = 0) -> None:
        """A result that the scheduler makes itself."""
        if self.is_reachable:
            self.rows.append((task, attempt, status, payload, 0, 0, 0))

    def take_results(self) -> list[tuple[Results, list[Delivery], int]]:
        """What is to be sent now, in messages under the limit: body, deliveries, bytes."""
        if len(self.outgoing) == 1 and not self.rows:
            return [self._take_only_result()]
        if self.rows:
            self.outgoing.extend((run, None) for run in _runs(self.session, self.rows))
            self.rows = []
        groups: list[tuple[Results, list[Delivery], int]] = []
        size = _GROUP_LIMIT_BYTES
        for run, delivery in self.outgoing:
            cost = run.payload_bytes + run.count * _ROW_BYTES
            if size + cost > _GROUP_LIMIT_BYTES:
                body, deliveries, size = Results([]), list[Delivery](), 0
                groups.append((body, deliveries, 0))
            size += cost
            body.runs.append(run)
            if delivery is not None:
                deliveries.append(delivery)
            groups[-1] = (body, deliveries, size)
        self.outgoing = []
        return groups

    def _take_only_result(self) -> tuple[Results, list[Delivery], int]:
        (run, delivery), self.outgoing = self.outgoing[0], []
        return Results([run]), [] if delivery is None else [delivery], run.payload_bytes + run.count * _ROW_BYTES

    def sent(self, envelope: Envelope, deliveries: list[Delivery], size: int) -> None:
        """Remember what to release when ``envelope`` is acknowledged."""
        self.deliveries[envelope.sequence] = (deliveries, size)
        self.unacknowledged_bytes += size
        self.is_paused = self.unacknowledged_bytes > RESULT_BUDGET_BYTES

    def _on_acknowledged(self, envelope: Envelope) -> None:
        entry = self.deliveries.pop(envelope.sequence, None)
        if entry is None:
            return
        deliveries, size = entry
        self.unacknowledged_bytes -= size
        self.is_paused = self.unacknowledged_bytes > RESULT_BUDGET_BYTES
        for delivery in deliveries:
            delivery.let_go()

    def take_note_of_left_out(self) -> bytes:
        """What is told to the client instead of output that it did not get."""
        size, self.output_left_out_bytes = self.output_left_out_bytes, 0
        return f"\n[{size} bytes of output were left out: they came too fast]\n".encode()

    def drop_deliveries(self) -> None:
        """Nobody waits for these results any more: they count as arrived."""
        for _, delivery in self.outgoing:
            if delivery is not None:
                delivery.let_go()
        for deliveries, _ in self.deliveries.values():
            for delivery in deliveries:
                delivery.let_go()
        self.outgoing, self.rows = [], []
        self.deliveries.clear()
        self.unacknowledged_bytes = 0
        self.is_paused = False

    def forget(self, task: int) -> None:
        """A task ended: drop what only few tasks have."""
        self.certificates.pop(task, None)
        self.failures.pop(task, None)
        self.large.pop(task, None)
        self.fetching.pop(task, None)


def _runs(session: bytes, rows: list[Row]) -> list[ResultRun]:
    """Rows as runs that each fit a message."""
    runs: list[ResultRun] = []
    part: list[Row] = []
    size = 0
    for row in rows:
        cost = len(row[3]) + _ROW_BYTES
        if part and size + cost > _GROUP_LIMIT_BYTES:
            runs.append(ResultRun(session, part))
            part, size = [], 0
        part.append(row)
        size += cost
    runs.append(ResultRun(session, part))
    return runs
