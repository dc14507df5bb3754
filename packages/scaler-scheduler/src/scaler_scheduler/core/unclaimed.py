"""Reports of agents from before a restart, for clients that have not come back yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from scaler_protocol.codec import ResultRun
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.deliveries import Delivery

Hold = tuple[float, Agent, tuple[int, ...], tuple[int, ...]]
Result = tuple[float, Agent, ResultRun, Delivery]


class Unclaimed:
    """Tasks that agents have, and results, by client session; each with the time since when it is known."""

    def __init__(self) -> None:
        self._holds: dict[bytes, list[Hold]] = {}
        self._results: dict[bytes, list[Result]] = {}

    def __bool__(self) -> bool:
        return bool(self._holds or self._results)

    def has_tasks_at(self, agent: Agent) -> bool:
        return any(hold[1] is agent for holds in self._holds.values() for hold in holds)

    def has_tasks_of(self, session: bytes, agent: Agent) -> bool:
        """Return whether an agent has said that it has tasks of a session."""
        return any(hold[1] is agent for hold in self._holds.get(session, ()))

    def add_holds(
        self, agent: Agent, session: bytes, tasks: tuple[int, ...], attempts: tuple[int, ...], now: float
    ) -> None:
        self._holds.setdefault(session, []).append((now, agent, tuple(tasks), tuple(attempts)))

    def add_results(self, agent: Agent, run: ResultRun, delivery: Delivery, now: float) -> None:
        self._results.setdefault(run.session, []).append((now, agent, run, delivery))

    def withdraw(self, agent: Agent, session: bytes, tasks: Iterable[int]) -> None:
        """The agent has these tasks no longer, and their client has not come back."""
        if session not in self._holds:
            return
        gone = frozenset(tasks)
        self._keep(session, [hold if hold[1] is not agent else _without(hold, gone) for hold in self._holds[session]])

    def take_holds_of(self, session: bytes, cancelled: Mapping[int, bool]) -> list[tuple[Agent, list[int], list[int]]]:
        """Remove and return what agents have of these tasks of a session: (agent, tasks, attempts)."""
        kept, found = [], []
        for hold in self._holds.get(session, ()):
            pairs = [pair for pair in zip(hold[2], hold[3], strict=True) if pair[0] in cancelled]
            if pairs:
                found.append((hold[1], [task for task, _ in pairs], [attempt for _, attempt in pairs]))
                hold = _without(hold, frozenset(task for task, _ in pairs))
            kept.append(hold)
        if found:
            self._keep(session, kept)
        return found

    def _keep(self, session: bytes, holds: list[Hold]) -> None:
        """Replace the tasks of a session, without holds that have become empty."""
        self._holds[session] = [hold for hold in holds if hold[2]]
        if not self._holds[session]:
            del self._holds[session]

    def take(self, session: bytes) -> tuple[list, list]:
        """Remove and return everything kept for a session, in order: (agent, tasks, attempts) and (agent, run,
        delivery)."""
        holds = [item[1:] for item in self._holds.pop(session, [])]
        results = [item[1:] for item in self._results.pop(session, [])]
        return holds, results

    def expire(self, now: float, awaited_until: Callable[[bytes, float], float]) -> tuple[list, list]:
        """Remove and return what no client came back for: (agent, session, tasks, attempts), and (agent, run,
        delivery). ``awaited_until``: until when something is kept for a session, by the time since when it is known."""
        holds = [
            (agent, session, tasks, attempts)
            for session, items in self._holds.items()
            for since, agent, tasks, attempts in items
            if awaited_until(session, since) <= now
        ]
        results = [
            item[1:]
            for session, items in self._results.items()
            for item in items
            if awaited_until(session, item[0]) <= now
        ]
        self._holds = _kept(self._holds, lambda session, item: awaited_until(session, item[0]) > now)
        self._results = _kept(self._results, lambda session, item: awaited_until(session, item[0]) > now)
        return holds, results

    def put_off(self, seconds: float) -> None:
        """Extend all times by the time in which the scheduler did not run."""
        for kept in (self._holds, self._results):
            for items in kept.values():
                items[:] = [(item[0] + seconds, *item[1:]) for item in items]

    def forget_agent(self, agent: Agent) -> list[tuple[bytes, Sequence[int]]]:
        """An agent is gone: what it has reported is dropped. Returns these tasks by session."""
        gone: list[tuple[bytes, Sequence[int]]] = []
        for session, holds in self._holds.items():
            gone += [(session, hold[2]) for hold in holds if hold[1] is agent]
        for session, results in self._results.items():
            gone += [(session, result[2].task_column) for result in results if result[1] is agent]
        self._holds = _kept(self._holds, lambda _, item: item[1] is not agent)
        self._results = _kept(self._results, lambda _, item: item[1] is not agent)
        return gone


def _without(hold: Hold, gone: frozenset[int]) -> Hold:
    since, agent, tasks, attempts = hold
    left = [pair for pair in zip(tasks, attempts, strict=True) if pair[0] not in gone]
    return since, agent, tuple(task for task, _ in left), tuple(attempt for _, attempt in left)


def _kept(items: dict[bytes, list[Any]], condition: Callable[[bytes, Any], bool]) -> dict[bytes, list[Any]]:
    kept = {session: [item for item in values if condition(session, item)] for session, values in items.items()}
    return {session: values for session, values in kept.items() if values}
