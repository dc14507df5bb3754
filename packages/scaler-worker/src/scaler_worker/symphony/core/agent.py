"""SymphonyCore: an agent whose tasks run in Symphony. To the scheduler it is an agent like any other."""

from __future__ import annotations

from typing import Any

from scaler_protocol.handshake import PeerHandshake
from scaler_protocol.messages import Hello
from scaler_worker.core.agent import AgentCore
from scaler_worker.core.settings import AgentSettings
from scaler_worker.core.state import AgentState
from scaler_worker.symphony.core.answer import SymphonyAnswer
from scaler_worker.symphony.core.grid import Grid
from scaler_worker.symphony.core.store import MemoryStore

AWAY_SECONDS = 5.0
"""After so long without a session, waiting tasks are given back, so that other agents can run them."""


class SymphonyCore:
    """An ``AgentCore`` with a ``Grid``. While Symphony is away for longer, the agent takes no tasks; with the
    next session it joins again."""

    def __init__(
        self, settings: AgentSettings, hello: Hello, now: float, handshake: PeerHandshake | None = None
    ) -> None:
        self._store = MemoryStore()
        self._exit_seconds = settings.death_timeout_seconds
        self.state = AgentState(self._store, now)
        self.grid = Grid(settings.worker_names, self.state, self._store, now)
        self.agent = agent = AgentCore(settings, hello, self.state, self.grid, now, handshake)
        self.on_connected, self.on_peer_lost = agent.on_connected, agent.on_peer_lost
        self.on_key_refused, self.on_obstacle = agent.on_key_refused, agent.on_obstacle
        self.on_message, self.on_not_taken_in = agent.on_message, agent.on_not_taken_in
        self.on_not_carried_out, self.on_stop = agent.on_not_carried_out, agent.on_stop
        self.report, self.check, self.on_logged = agent.report, agent.check, agent.on_logged
        self.on_profile = agent.on_profile

    # ---- events of Symphony ----------------------------------------------------------------------------------

    def on_session_opened(self, session: int, now: float) -> None:
        self.agent.turn(now)
        if self.grid.session.opened(session):
            self.agent.rejoin(now)

    def on_session_failed(self, session: int, text: str, now: float) -> None:
        """It could not be opened, or it ended. Later events of this session are ignored."""
        self.agent.turn(now)
        self.grid.lose_session(session, text, now)

    def on_taken(self, number: int, now: float) -> None:
        """Symphony has accepted the input of this execution."""
        self.grid.on_taken(number)

    def on_refused(self, number: int, text: str, now: float) -> None:
        """Symphony has not accepted it."""
        self.agent.turn(now)
        self.grid.on_refused(number, text, now)

    def on_answer(self, number: int, answer: SymphonyAnswer, now: float) -> None:
        self.agent.turn(now)
        for stream, data in ((1, answer.stdout), (2, answer.stderr)):
            if data:
                self.agent.on_output(number, 0, stream, data, now)
        self.grid.on_answer(number, answer)

    def on_failure(self, number: int, text: str, now: float, report: bytes = b"") -> None:
        """Symphony or the service has no answer. ``text`` is a sentence in which ``{task}`` stands for the task;
        ``report`` is the exception that is the reason, as the payload of a result."""
        self.agent.turn(now)
        self.grid.on_failure(number, text, now, report)

    # ---- the end of a turn -----------------------------------------------------------------------------------

    def take_effects(self, now: float) -> list[Any]:
        if self.agent.stands_aside:
            self.agent.give_back()
        return self.agent.take_effects(now)

    # ---- time ------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        first = self.agent.next_deadline()
        away_since = self.grid.session.away_since
        if away_since is None:
            return first
        limit = self._exit_seconds
        if not self.agent.stands_aside:
            limit = min(limit, AWAY_SECONDS)
        return away_since + limit if first is None else min(first, away_since + limit)

    def on_deadline(self, now: float) -> None:
        self.agent.on_deadline(now)
        away_since = self.grid.session.away_since
        if away_since is None:
            return
        if now >= away_since + self._exit_seconds:
            self.agent.exit(1, f"Symphony is out of reach for {self._exit_seconds:g} seconds")
        elif now >= away_since + AWAY_SECONDS and not self.agent.stands_aside:
            self.agent.stand_aside()
