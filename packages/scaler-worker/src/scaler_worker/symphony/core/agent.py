"""SymphonyCore: to the scheduler an agent like any other, whose tasks run in Symphony."""

from __future__ import annotations

from scaler_protocol.messages import Hello
from scaler_worker.core.agent import AgentCore, AgentSettings
from scaler_worker.core.slots import Slots
from scaler_worker.symphony.core.answer import Answer
from scaler_worker.symphony.core.grid import Grid
from scaler_worker.symphony.core.store import MemoryStore


class SymphonyCore(AgentCore):
    def __init__(self, settings: AgentSettings, service: str, hello: Hello, now: float) -> None:
        self._service = service
        self._started_at = now
        self._store = MemoryStore()
        super().__init__(settings, hello, self._store, now)

    def _make_slots(self) -> Slots:
        self.grid = Grid(
            self._settings.worker_names,
            self._service,
            self._started_at,
            effects=self._effects,
            objects=self._objects,
            store=self._store,
        )
        return self.grid

    # ---- what Symphony says ----------------------------------------------------------------------------------

    def on_session_opened(self, session: int, now: float) -> None:
        self._turn(now)
        self.grid.session.opened(session)

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

    def on_failure(self, number: int, text: str, now: float) -> None:
        """Symphony or the service has no answer. ``text`` is a sentence in which ``{task}`` stands for the task."""
        self._turn(now)
        self.grid.on_failure(number, text)

    # ---- time ------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        first = super().next_deadline()
        away_since = self.grid.session.away_since
        if away_since is None:
            return first
        given_up_at = away_since + self._settings.death_timeout_seconds
        return given_up_at if first is None else min(first, given_up_at)

    def on_deadline(self, now: float) -> None:
        super().on_deadline(now)
        away_since, limit = self.grid.session.away_since, self._settings.death_timeout_seconds
        if away_since is not None and now >= away_since + limit:
            self._exit(1, f"Symphony is out of reach for {limit:g} seconds")
