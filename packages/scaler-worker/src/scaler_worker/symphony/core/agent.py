"""SymphonyCore: to the scheduler an agent like any other, whose tasks run in Symphony."""

from __future__ import annotations

from typing import Any

from scaler_protocol.handshake import PeerHandshake
from scaler_protocol.messages import Hello, Withdrawn
from scaler_worker.core.agent import AgentCore
from scaler_worker.core.settings import AgentSettings
from scaler_worker.core.slots import Slots
from scaler_worker.symphony.core.answer import Answer
from scaler_worker.symphony.core.grid import Grid
from scaler_worker.symphony.core.store import MemoryStore

AWAY_SECONDS = 5.0
"""When there was no session for so long, the tasks that wait for one are given to others."""


class SymphonyCore(AgentCore):
    """While Symphony is away for longer it stands aside: it leaves, as far as tasks are concerned, and joins anew with
    the next session."""

    def __init__(
        self, settings: AgentSettings, hello: Hello, now: float, handshake: PeerHandshake | None = None
    ) -> None:
        self._started_at = now
        self._stands_aside = False
        self._store = MemoryStore()
        super().__init__(settings, hello, self._store, now, handshake)

    def _make_slots(self) -> Slots:
        self.grid = Grid(
            self._settings.worker_names,
            self._started_at,
            effects=self._effects,
            objects=self._objects,
            store=self._store,
        )
        return self.grid

    # ---- what Symphony says ----------------------------------------------------------------------------------

    def on_session_opened(self, session: int, now: float) -> None:
        self._turn(now)
        if self.grid.session.opened(session) and self._stands_aside:
            self._stands_aside = False
            self._epoch = 0
            if self._connected:
                self._say_hello(now)

    def on_session_failed(self, session: int, text: str, now: float) -> None:
        """It could not be opened, or it ended. What it says later is not heard."""
        self._turn(now)
        self.grid.lose_session(session, text, now)

    def on_taken(self, number: int, now: float) -> None:
        """Symphony has taken the input of this execution."""
        self.grid.on_taken(number)

    def on_refused(self, number: int, text: str, now: float) -> None:
        """Symphony has not taken it."""
        self._turn(now)
        self.grid.on_refused(number, text, now)

    def on_answer(self, number: int, answer: Answer, now: float) -> None:
        self._turn(now)
        for stream, data in ((1, answer.stdout), (2, answer.stderr)):
            if data:
                self.on_output(number, 0, stream, data, now)
        self.grid.on_answer(number, answer)

    def on_failure(self, number: int, text: str, now: float, report: bytes = b"") -> None:
        """Symphony or the service has no answer. ``text`` is a sentence in which ``{task}`` stands for the task;
        ``report`` is the exception that is the reason, as the payload of a result."""
        self._turn(now)
        self.grid.on_failure(number, text, now, report)

    # ---- while Symphony is away ------------------------------------------------------------------------------

    def _stand_aside(self) -> None:
        self._stands_aside = True
        self._outbox.append(Withdrawn((), leaving=True))

    def _start_link(self) -> None:
        super()._start_link()
        if self._stands_aside:
            self._outbox.append(Withdrawn((), leaving=True))

    def take_effects(self, now: float) -> list[Any]:
        if self._stands_aside:
            self._give_back()
        return super().take_effects(now)

    # ---- time ------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        first = super().next_deadline()
        away_since = self.grid.session.away_since
        if away_since is None:
            return first
        limit = self._settings.death_timeout_seconds
        if not self._stands_aside:
            limit = min(limit, AWAY_SECONDS)
        return away_since + limit if first is None else min(first, away_since + limit)

    def on_deadline(self, now: float) -> None:
        super().on_deadline(now)
        away_since, limit = self.grid.session.away_since, self._settings.death_timeout_seconds
        if away_since is None:
            return
        if now >= away_since + limit:
            self._exit(1, f"Symphony is out of reach for {limit:g} seconds")
        elif now >= away_since + AWAY_SECONDS and not self._stands_aside:
            self._stand_aside()
