"""Tasks of which agents had something that they were told to drop, because their client was away, or that was lost with
an agent before their client was back.

A client that comes back later states them again. That no agent has them does not mean that they have not started. The
scheduler keeps them, and agents keep them for the scheduler that follows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scaler_protocol.messages import DroppedTasks

SESSIONS_LIMIT = 10_000
TASKS_LIMIT = 1_000_000


class ForgottenTasks:
    """Tasks by the session of their client, the oldest sessions first; a number: all tasks below it. At most
    ``sessions_limit`` sessions and about TASKS_LIMIT tasks are kept."""

    def __init__(self, sessions_limit: int = SESSIONS_LIMIT) -> None:
        self._tasks: dict[bytes, set[int] | int] = {}
        self._count = 0
        self._sessions_limit = sessions_limit

    def add(self, session: bytes, tasks: Sequence[int]) -> None:
        known = self._tasks.setdefault(session, set())
        if isinstance(known, int):
            self.add_below(session, 1 + max(tasks, default=0))
            return
        before = len(known)
        known.update(tasks)
        self._count += len(known) - before
        if self._count > TASKS_LIMIT:
            self.add_below(session, 0)
        self._limit_sessions()

    def add_below(self, session: bytes, stop: int) -> None:
        """Nothing is known of the tasks of this session below ``stop``: later ones have never been sent."""
        known = self._tasks.get(session, 0)
        if not isinstance(known, int):
            self._count -= len(known)
            known = 1 + max(known, default=0)
        self._tasks[session] = max(known, stop)
        self._limit_sessions()

    def take_in(self, dropped: DroppedTasks) -> None:
        """Add what a message says."""
        if dropped.below:
            self.add_below(dropped.session, dropped.below)
        if dropped.tasks:
            self.add(dropped.session, dropped.tasks)

    def messages(self) -> Iterator[DroppedTasks]:
        """Return what is known, one message for each session."""
        for session, known in self._tasks.items():
            if isinstance(known, int):
                yield DroppedTasks(session, below=known)
            else:
                yield DroppedTasks(session, tuple(sorted(known)))

    def __contains__(self, session: bytes) -> bool:
        return session in self._tasks

    def has(self, session: bytes, task: int) -> bool:
        known = self._tasks.get(session, 0)
        return task < known if isinstance(known, int) else task in known

    def _limit_sessions(self) -> None:
        while len(self._tasks) > self._sessions_limit:
            known = self._tasks.pop(next(iter(self._tasks)))
            self._count -= 0 if isinstance(known, int) else len(known)
