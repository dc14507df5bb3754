"""The agents of which a client knows that they may start its tasks with ``rerun=False``.

Only the client can tell the next scheduler which agents may have started such a task. So an agent gets none before the
client has acknowledged its name. The client drops the name when the agent is gone and it was told how the tasks that
the agent had have ended.
"""

from __future__ import annotations

from collections.abc import Iterable


class KnownAgents:
    """Agents by session. ``sessions``: the client has confirmed them, so they may start its tasks. ``under_way``: it is
    told, in the message with this number. ``awaited``: it has stated them after a restart, and they have not said yet
    what they have. ``gone``: to be told to the client. ``demands``: the queues of its tasks with ``rerun=False``."""

    def __init__(self) -> None:
        self.sessions: dict[bytes, None] = {}
        self.under_way: dict[bytes, int] = {}
        self.awaited: dict[bytes, None] = {}
        self.gone: dict[bytes, None] = {}
        self.demands: dict[tuple[tuple[tuple[str, int], ...], int], None] = {}
        self._learned: list[bytes] = []

    def __contains__(self, session: bytes) -> bool:
        return session in self.sessions or session in self.under_way

    def __len__(self) -> int:
        return len(self.sessions) + len(self.under_way)

    def tell(self, sessions: Iterable[bytes], sequence: int) -> None:
        """The client is told of these agents in the message with this number."""
        for session in sessions:
            self.under_way[session] = sequence
            self.gone.pop(session, None)

    def learn(self, sessions: Iterable[bytes]) -> None:
        """The client has these, or need not have them."""
        for session in sessions:
            self.under_way.pop(session, None)
            self.sessions[session] = None
            self._learned.append(session)

    def on_acknowledged(self, sequence: int) -> None:
        """The client has all messages up to this one."""
        self.learn([session for session, number in self.under_way.items() if number <= sequence])

    def take_learned(self) -> list[bytes]:
        """Return the agents that may start tasks since the last call."""
        learned, self._learned = self._learned, []
        return learned

    def lose(self, session: bytes, has_reported: bool = True) -> bool:
        """Forget an agent that is gone. Returns whether the client is to be told. Does nothing if the client still
        waits for the agent to report: then its name is needed, also if the scheduler is restarted again."""
        if session in self.awaited and not has_reported:
            return False
        is_known = session in self
        self.sessions.pop(session, None)
        self.under_way.pop(session, None)
        self.awaited.pop(session, None)
        if is_known:
            self.gone[session] = None
        return is_known
