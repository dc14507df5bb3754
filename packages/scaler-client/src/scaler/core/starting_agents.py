"""The agents that may have started tasks of this client that must not start twice.

The scheduler names each of them before it gets the first such task. A scheduler that has restarted holds these tasks
until all of them have said which they have.
"""

from __future__ import annotations

from scaler_protocol.ids import split_ids
from scaler_protocol.messages import STARTING_AGENTS_SINCE_MINOR, StartingAgents


class StartingAgentNames:
    def __init__(self) -> None:
        self._sessions: dict[bytes, None] = {}

    def on_named(self, body: StartingAgents) -> None:
        """The scheduler names further agents, and those that are gone."""
        for session in split_ids(body.gone):
            self._sessions.pop(session, None)
        for session in split_ids(body.sessions):
            self._sessions[session] = None

    def restatements(self, minor: int) -> list[StartingAgents]:
        """Return what to tell a scheduler of this minor version that knows nothing of this session."""
        is_known = minor >= STARTING_AGENTS_SINCE_MINOR
        return [StartingAgents(b"".join(self._sessions))] if self._sessions and is_known else []
