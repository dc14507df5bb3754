"""What the scheduler knows of one client session."""

from __future__ import annotations

from collections import deque

from scaler_protocol.ids import shown_id
from scaler_protocol.messages import Hello, ObjectKey
from scaler_scheduler.core.peers import ClientPeer
from scaler_scheduler.core.settings import HOLD_SECONDS, RESULT_BUDGET_BYTES
from scaler_scheduler.core.task_table import TaskTable
from scaler_scheduler.core.totals import Totals


class Client(ClientPeer):
    """One client session."""

    def __init__(self, hello: Hello, route: bytes | None, totals: Totals, now: float) -> None:
        super().__init__(TaskTable(hello.session, totals), route, RESULT_BUDGET_BYTES)
        self.shown_id = shown_id(hello.session)
        self.hello = hello
        self.user = b""
        self.gone_at: float | None = None
        self.functions: dict[bytes, int] = {}
        self.serializers: dict[bytes, int] = {}
        self.definition_bytes = 0
        self.unwanted: dict[bytes, bool] = {}
        self.objects: dict[ObjectKey, bool] = {}
        self.output_left_out_bytes = 0
        self.held: list[tuple[int, int]] = []
        self.hold_until: float | None = None
        self.states_until = now + HOLD_SECONDS
        self.stated_cancels: dict[int, bool] = {}
        self.waiting: deque[tuple[int, int]] = deque()
        self.certificates: dict[int, list[bytes]] = {}
        self.failures: dict[int, int] = {}
        self.large: dict[int, float] = {}
        self.fetching: dict[int, bool] = {}

    def states(self, now: float) -> None:
        """It says what it has: after a restart of the scheduler perhaps of long ago, and there may be more to come."""
        if now < self.states_until:
            self.states_until = now + HOLD_SECONDS

    def take_note_of_left_out(self) -> bytes:
        """What is told to the client instead of output that it did not get."""
        size, self.output_left_out_bytes = self.output_left_out_bytes, 0
        return f"\n[{size} bytes of output were left out: they came too fast]\n".encode()

    def amend(self, corrects: bool) -> list[str]:
        """What is wrong with the bytes that are counted of it; ``corrects``: and is right now."""
        return [*self._amend_unacknowledged(corrects), *self._amend_definitions(corrects)]

    def _amend_definitions(self, corrects: bool) -> list[str]:
        counted = sum(self.functions.values()) + sum(self.serializers.values())
        if counted == self.definition_bytes:
            return []
        wrong = f"client {self.session.hex()[:8]}: {self.definition_bytes} bytes of functions, {counted} counted"
        if corrects:
            self.definition_bytes = counted
        return [wrong]

    def _amend_unacknowledged(self, corrects: bool) -> list[str]:
        counted = sum(size for _, size in self.deliveries.values())
        if counted == self.unacknowledged_bytes:
            return []
        wrong = f"client {self.session.hex()[:8]}: {self.unacknowledged_bytes} bytes under way, {counted} counted"
        if corrects:
            self.amend_bytes(counted)
        return [wrong]

    def forget(self, task: int) -> None:
        """A task ended: drop what only few tasks have."""
        self.certificates.pop(task, None)
        self.failures.pop(task, None)
        self.large.pop(task, None)
        self.fetching.pop(task, None)
