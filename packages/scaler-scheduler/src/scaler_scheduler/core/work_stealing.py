"""Moving tasks that have not started from a busy agent to an idle one.

This happens only while an agent has a free slot and no queue has a task for it, and only where tasks have waited for
longer than it would take to move what they need. An agent is asked for at most half of its queued tasks, and again only
after it has answered. So the sum of the squares of the queue lengths falls with every task that moves, and balancing
ends. An agent that repeatedly returned nothing is left alone for a while.
"""

from __future__ import annotations

from scaler_protocol.messages import Withdraw
from scaler_scheduler.core.agents import Agent

GAIN_SECONDS = 0.002
"""Moving a task costs two messages; a shorter wait is cheaper."""

_PAUSE_SECONDS = 0.005
_PAUSE_PER_AGENT_SECONDS = 0.00002
_RETRY_SECONDS = 0.02
_SHORT_US = 1000


class Balancer:
    """Decides which agents are asked to return tasks. ``next_at``: when it is worth looking again."""

    def __init__(self, rest_seconds: float, trigger_times: int) -> None:
        self.next_at: float | None = None
        self._rest_seconds = rest_seconds
        self._trigger_times = max(1, trigger_times)
        self._not_before = 0.0

    def balance(self, agents: dict[int, Agent], queued: int, now: float) -> list[tuple[Agent, Withdraw]]:
        """The agents to ask, and for how many tasks. Sets ``next_at``."""
        self.next_at = None
        if queued or len(agents) < 2:
            return []
        if now < self._not_before:
            self.next_at = self._not_before
            return []
        self._not_before = now + max(_PAUSE_SECONDS, _PAUSE_PER_AGENT_SECONDS * len(agents))
        donors = [agent for agent in agents.values() if agent.load.queued()]
        if not donors:
            return []
        idle = [agent for agent in agents.values() if agent.is_available and agent.load.outstanding < agent.load.slots]
        if not idle:
            return []
        self.next_at = now + _RETRY_SECONDS
        return self._ask(idle, donors, now)

    def _ask(self, idle: list[Agent], donors: list[Agent], now: float) -> list[tuple[Agent, Withdraw]]:
        free = sum(agent.load.slots - agent.load.outstanding for agent in idle)
        asked = []
        donors.sort(key=lambda agent: -waiting_seconds(agent, now))
        for donor in donors:
            if free <= 0:
                break
            if not self._may_give(donor, idle, now):
                continue
            count = _count(donor, free)
            free -= count
            donor.withdraw_pending = True
            asked.append((donor, Withdraw(count)))
        return asked

    def _may_give(self, donor: Agent, idle: list[Agent], now: float) -> bool:
        if donor.withdraw_pending or not donor.is_available or now < donor.rest_until:
            return False
        if waiting_seconds(donor, now) < GAIN_SECONDS + moving_seconds(donor, idle):
            return False
        return any(agent.can_serve(tuple(donor.capabilities.items())) for agent in idle)

    def answered(self, agent: Agent, given: int, now: float) -> None:
        """An agent has returned ``given`` tasks."""
        agent.withdraw_pending = False
        agent.fruitless_withdraws = 0 if given else agent.fruitless_withdraws + 1
        if agent.fruitless_withdraws >= self._trigger_times:
            agent.fruitless_withdraws = 0
            agent.rest_until = now + self._rest_seconds


def waiting_seconds(agent: Agent, now: float) -> float:
    """How long the queued tasks of an agent will wait: by estimate, or as long as they have waited already."""
    if not agent.load.queued():
        return 0.0
    return max(agent.load.queued_us() / 1e6 / max(1, agent.load.slots), now - agent.load.progress_at)


def moving_seconds(donor: Agent, idle: list[Agent]) -> float:
    """How long it takes, on average, to move what a task of the donor needs to a host that does not have it."""
    if not donor.load.moving_us or any(agent.store and agent.store == donor.store for agent in idle):
        return 0.0
    return donor.load.moving_us / 1e6 / donor.load.outstanding


def _count(donor: Agent, free: int) -> int:
    half = (donor.load.queued() + 1) // 2
    mean_us = donor.load.load_us / max(1, donor.load.outstanding)
    return half if mean_us < _SHORT_US else min(half, free)
