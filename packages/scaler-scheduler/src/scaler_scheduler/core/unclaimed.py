"""Reports of agents from before a restart, for clients that have not come back yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scaler_protocol.codec import ResultRun
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.deliveries import Delivery

Hold = tuple[float, Agent, tuple[int, ...], tuple[int, ...]]
Result = tuple[float, Agent, ResultRun, Delivery]


class Unclaimed:
    """Tasks that agents have, and results, by client session; each is kept until its deadline."""

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
        self, agent: Agent, session: bytes, tasks: tuple[int, ...], attempts: tuple[int, ...], deadline: float
    ) -> None:
        self._holds.setdefault(session, []).append((deadline, agent, tuple(tasks), tuple(attempts)))

    def add_results(self, agent: Agent, run: ResultRun, delivery: Delivery, deadline: float) -> None:
        self._results.setdefault(run.session, []).append((deadline, agent, run, delivery))

    def withdraw(self, agent: Agent, session: bytes, tasks: tuple[int, ...]) -> None:
        """The agent returned these tasks before their client came back."""
        if session not in self._holds:
            return
        gone = frozenset(tasks)
        self._holds[session] = [hold if hold[1] is not agent else _without(hold, gone) for hold in self._holds[session]]

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
            self._holds[session] = kept
        return found

    def take(self, session: bytes) -> tuple[list, list]:
        """Remove and return everything kept for a session, in order: (agent, tasks, attempts) and (agent, run,
        delivery)."""
        holds = [item[1:] for item in self._holds.pop(session, [])]
        results = [item[1:] for item in self._results.pop(session, [])]
        return holds, results

    def expire(self, now: float) -> tuple[list, list]:
        """Remove and return what no client came back for: (agent, session, tasks, attempts), and (agent, run,
        delivery)."""
        holds = [
            (agent, session, tasks, attempts)
            for session, items in self._holds.items()
            for deadline, agent, tasks, attempts in items
            if deadline <= now
        ]
        results = [item[1:] for items in self._results.values() for item in items if item[0] <= now]
        self._holds = _kept(self._holds, lambda item: item[0] > now)
        self._results = _kept(self._results, lambda item: item[0] > now)
        return holds, results

    def put_off(self, seconds: float) -> None:
        """Extend all deadlines by the time in which the scheduler did not run."""
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
        self._holds = _kept(self._holds, lambda item: item[1] is not agent)
        self._results = _kept(self._results, lambda item: item[1] is not agent)
        return gone


def _without(hold: Hold, gone: frozenset[int]) -> Hold:
    deadline, agent, tasks, attempts = hold
    left = [pair for pair in zip(tasks, attempts, strict=True) if pair[0] not in gone]
    return deadline, agent, tuple(task for task, _ in left), tuple(attempt for _, attempt in left)


def _kept(items: dict[bytes, list[Any]], condition: Callable[[Any], bool]) -> dict[bytes, list[Any]]:
    kept = {session: [item for item in values if condition(item)] for session, values in items.items()}
    return {session: values for session, values in kept.items() if values}
