"""Which agent gets which tasks.

Tasks that need the same capabilities at the same depth share a queue class. Each class keeps a heap of the agents
that could take more: agents with a free slot first, then the least loaded. An entry is stale when its agent changed
since; an agent that is full has none. So a drain costs nothing per agent that it does not touch.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.tasks import QueueClass, take_deferred

Demand = tuple[tuple[str, int], ...]


class Allocator:
    """All queue classes, and the agents that serve them."""

    def __init__(self) -> None:
        self.classes: dict[tuple[Demand, int], QueueClass] = {}
        self.agents: dict[int, Agent] = {}
        self._served: dict[int, list[QueueClass]] = {}
        self._changed: dict[int, Agent] = {}
        self._eager: dict[int, Agent] = {}

    @property
    def queued(self) -> int:
        """Tasks that no agent has yet."""
        return sum(queue.count for queue in self.classes.values())

    def queue_class(self, demand: Demand, depth: int) -> QueueClass:
        """The class of such tasks, made when first needed."""
        queue = self.classes.get((demand, depth))
        if queue is None:
            queue = self.classes[demand, depth] = QueueClass(demand, depth)
            for agent in self.agents.values():
                self._serve(agent, queue)
        return queue

    def add(self, agent: Agent) -> None:
        self.agents[agent.index] = agent
        self._served[agent.index] = []
        for queue in self.classes.values():
            self._serve(agent, queue)

    def remove(self, agent: Agent) -> None:
        agent.version += 1
        self.agents.pop(agent.index, None)
        self._changed.pop(agent.index, None)
        self._eager.pop(agent.index, None)
        for queue in self._served.pop(agent.index, ()):
            queue.candidates.pop(agent.index, None)

    def offer(self, agent: Agent) -> None:
        """The agent's load, or whether it may be used, changed. It counts when something is to be handed out."""
        self._changed[agent.index] = agent
        if agent.load.deferred and agent.is_available:
            self._eager[agent.index] = agent

    def _settle(self) -> None:
        changed, self._changed = self._changed, {}
        for agent in changed.values():
            self._consider(agent)

    def _consider(self, agent: Agent) -> None:
        agent.version += 1
        available = agent.is_available
        for queue in self._served.get(agent.index, ()):
            if available and agent.load.has_room(queue.depth):
                self._enter(queue, agent)
            else:
                queue.candidates.pop(agent.index, None)

    def allocate(self) -> list[Agent]:
        """Hand out all that agents have room for, into their outboxes; the agents that got something."""
        given: dict[int, Agent] = {}
        if self._eager:
            self._serve_eager(given)
        waiting = [queue for queue in self.classes.values() if queue.count]
        if len(waiting) > 1:
            waiting.sort(key=lambda queue: (-queue.depth, -queue.priority))
        for queue in waiting:
            self._fill(queue, given)
        return list(given.values())

    def _serve_eager(self, given: dict[int, Agent]) -> None:
        """Nodes of graphs that can only go, or would best go, to one agent."""
        eager, self._eager = self._eager, {}
        for agent in eager.values():
            runs = take_deferred(agent.load) if agent.is_available else []
            if runs:
                agent.outbox.extend(runs)
                given[agent.index] = agent
                self.offer(agent)

    def _fill(self, queue: QueueClass, given: dict[int, Agent]) -> None:
        self._settle()
        while queue.count and queue.candidates:
            agent = self._best(queue)
            if agent is None:
                return
            share = -(-queue.count // (len(queue.candidates) + 1))
            runs, has_room = queue.take(agent.load, share)
            if runs:
                agent.outbox.extend(runs)
                given[agent.index] = agent
                self.offer(agent)
                if queue.count:
                    self._settle()
            elif has_room:
                self.offer(agent)
                return

    def _best(self, queue: QueueClass) -> Agent | None:
        while queue.heap:
            _, version, index = heappop(queue.heap)
            if queue.candidates.get(index) == version:
                del queue.candidates[index]
                return self.agents[index]
        return None

    def _serve(self, agent: Agent, queue: QueueClass) -> None:
        if agent.can_serve(queue.demand):
            self._served[agent.index].append(queue)
            if agent.is_available and agent.load.has_room(queue.depth):
                self._enter(queue, agent)

    def _enter(self, queue: QueueClass, agent: Agent) -> None:
        queue.candidates[agent.index] = agent.version
        heappush(queue.heap, (agent.load.key(queue.depth), agent.version, agent.index))
        if len(queue.heap) > 64 + 4 * len(queue.candidates):
            queue.heap = [entry for entry in queue.heap if queue.candidates.get(entry[2]) == entry[1]]
            heapify(queue.heap)

    def check(self, queued: dict[QueueClass, int]) -> None:
        """``queued``: tasks per class, counted from the tables."""
        for queue in self.classes.values():
            assert queue.count == queued.get(queue, 0), (queue.demand, queue.depth, queue.count, queued.get(queue))
