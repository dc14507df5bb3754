"""Taking back tasks that have not started: for an idle agent, or to make room for tasks that need the agent.

For an idle agent, this happens only while an agent has a free slot and no queue has a task for it, and only where tasks
have waited for longer than it would take to move them and what they need. An agent is asked for at most half of its
queued tasks, and again only after it has answered. So the sum of the squares of the queue lengths falls with every task
that moves, and balancing ends.

While tasks that need a scarce capability wait, agents that offer it return the unstarted tasks that do not need it.

Which of its tasks an agent returns is not known before. An agent that repeatedly returned nothing, or only tasks that
no other agent can run, is left alone for a while.
"""

from __future__ import annotations

from scaler_protocol.messages import UNITS_PER_WHOLE, Withdraw
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.priority_queues import QueueClass

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

    def balance(
        self, agents: dict[int, Agent], queued: int, scarce: list[QueueClass], now: float
    ) -> list[tuple[Agent, Withdraw]]:
        """The agents to ask, and for how many tasks. ``queued``: tasks that any agent may have; ``scarce``: the classes
        of waiting tasks that few agents can run. Sets ``next_at``."""
        self.next_at = None
        if (queued and not scarce) or len(agents) < 2:
            return []
        if now < self._not_before:
            self.next_at = self._not_before
            return []
        self._not_before = now + max(_PAUSE_SECONDS, _PAUSE_PER_AGENT_SECONDS * len(agents))
        asked = self._make_room(scarce, agents, now)
        return asked if queued else asked + self._feed_idle(agents, now)

    def _make_room(
        self, scarce: list[QueueClass], agents: dict[int, Agent], now: float
    ) -> list[tuple[Agent, Withdraw]]:
        """Take back what keeps tasks of scarce classes waiting and can run elsewhere."""
        asked = []
        for queue in scarce:
            needed = queue.count
            for index in queue.served:
                agent = agents[index]
                count = min(needed, _in_the_way(agent, queue))
                if count <= 0:
                    continue
                self.next_at = now + _RETRY_SECONDS
                if self._may_ask(agent, now) and waiting_seconds(agent, now) >= GAIN_SECONDS:
                    needed -= count
                    asked.append(self._ask_agent(agent, count))
        return asked

    def _feed_idle(self, agents: dict[int, Agent], now: float) -> list[tuple[Agent, Withdraw]]:
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
            count = min(_count(donor, free), _movable(donor, idle))
            free -= count
            asked.append(self._ask_agent(donor, count))
        return asked

    def _ask_agent(self, agent: Agent, count: int) -> tuple[Agent, Withdraw]:
        agent.withdraw_pending = True
        return agent, Withdraw(count)

    def _may_ask(self, agent: Agent, now: float) -> bool:
        return not agent.withdraw_pending and agent.is_available and now >= agent.rest_until

    def _may_give(self, donor: Agent, idle: list[Agent], now: float) -> bool:
        if not self._may_ask(donor, now):
            return False
        if waiting_seconds(donor, now) < GAIN_SECONDS + moving_seconds(donor, idle) + distance_seconds(donor, idle):
            return False
        return _movable(donor, idle) > 0

    def answered(self, agent: Agent, given: int, now: float) -> None:
        """An agent has returned ``given`` tasks that may run elsewhere."""
        agent.withdraw_pending = False
        agent.fruitless_withdraws = 0 if given else agent.fruitless_withdraws + 1
        if agent.fruitless_withdraws >= self._trigger_times:
            agent.fruitless_withdraws = 0
            agent.rest_until = now + self._rest_seconds


def waiting_seconds(agent: Agent, now: float) -> float:
    """Return how long the queued tasks of an agent will wait: by estimate, or as long as they have waited already."""
    if not agent.load.queued():
        return 0.0
    return max(agent.load.queued_us() / 1e6 / max(1, agent.load.slots), now - agent.load.progress_at)


def moving_seconds(donor: Agent, idle: list[Agent]) -> float:
    """Return how long it takes, on average, to move what a task of the donor needs to a host that does not have it."""
    if not donor.load.moving_us or any(agent.store and agent.store == donor.store for agent in idle):
        return 0.0
    return donor.load.moving_us / 1e6 / donor.load.outstanding


def distance_seconds(donor: Agent, idle: list[Agent]) -> float:
    """Return how long the request to the donor, its answer, and the way to the nearest idle agent take, if that is
    long."""
    return (donor.load.round_trip_us + min(agent.load.round_trip_us for agent in idle) / 2) / 1e6


def _count(donor: Agent, free: int) -> int:
    half = (donor.load.queued() + 1) // 2
    mean_us = donor.load.load_us / max(1, donor.load.outstanding)
    return half if mean_us < _SHORT_US else min(half, free)


def _movable(donor: Agent, idle: list[Agent]) -> int:
    """Return how many of the queued tasks of an agent an idle one can run, as far as it is known what they need."""
    in_use = tuple(
        (name, units)
        for name, units in donor.capabilities.items()
        if donor.load.resources.get(name, 0) < donor.capacity.get(name, 0)
    )
    if not in_use or any(agent.can_serve(in_use) for agent in idle):
        return donor.load.queued()
    return _unstarted_without(donor, tuple((name, min(units, UNITS_PER_WHOLE)) for name, units in in_use))


def _in_the_way(agent: Agent, queue: QueueClass) -> int:
    """Return how many unstarted tasks take up the room that tasks of a scarce class need."""
    if agent.load.has_room(queue.depth) and agent.load.fits(queue.demand):
        return 0
    return _unstarted_without(agent, queue.demand)


def _unstarted_without(agent: Agent, demand: tuple[tuple[str, int], ...]) -> int:
    """Return how many unstarted tasks do not need these capabilities, if those that do are the running ones."""
    load = agent.load
    needing = min(
        -(-(agent.capacity.get(name, 0) - load.resources.get(name, 0)) // max(1, amount)) for name, amount in demand
    )
    running = load.outstanding - load.queued()
    return load.queued() - max(0, needing - running)
