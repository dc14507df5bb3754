"""Tasks of which an agent had something that it was told to drop, because their client was away.

A client that comes back later states them again. That no agent has them does not mean that they have not started.
"""

from __future__ import annotations

from collections.abc import Iterable

SESSIONS_LIMIT = 10_000
TASKS_LIMIT = 1_000_000


class ForgottenTasks:
    """Tasks by the session of their client, the oldest sessions first; None: any of its tasks. At most SESSIONS_LIMIT
    sessions and about TASKS_LIMIT tasks are kept."""

    def __init__(self) -> None:
        self._tasks: dict[bytes, set[int] | None] = {}
        self._count = 0

    def add(self, session: bytes, tasks: Iterable[int]) -> None:
        known = self._tasks.setdefault(session, set())
        if known is None:
            return
        before = len(known)
        known.update(tasks)
        self._count += len(known) - before
        if self._count > TASKS_LIMIT:
            self.add_all(session)
        self._limit_sessions()

    def add_all(self, session: bytes) -> None:
        """Nothing is known of any task of this session."""
        self._count -= len(self._tasks.get(session) or ())
        self._tasks[session] = None
        self._limit_sessions()

    def __contains__(self, session: bytes) -> bool:
        return session in self._tasks

    def has(self, session: bytes, task: int) -> bool:
        known = self._tasks.get(session, ())
        return known is None or task in known

    def _limit_sessions(self) -> None:
        while len(self._tasks) > SESSIONS_LIMIT:
            self._count -= len(self._tasks.pop(next(iter(self._tasks))) or ())
