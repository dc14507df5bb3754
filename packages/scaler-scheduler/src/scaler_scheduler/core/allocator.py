"""Which agent gets which tasks.

Tasks that need the same capabilities at the same depth share a queue class. Each class keeps a heap of the agents
that could take more: agents with a free slot first, then the least loaded. An entry is stale when its agent changed
since; an agent that is full has none. So a drain costs nothing per agent that it does not touch.

A task that needs large objects and comes to an agent that lacks some is reserved for another one when it would start
earlier there, busy as that is (``Takings.better``): at most for as long as it would take to move the bytes. After that
whoever has room takes it. So it never waits for much longer than had the best place for it been known.
"""

from __future__ import annotations

import math
from heapq import heapify, heappop, heappush

from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.tasks import Places, QueueClass, take_deferred, take_reserved

Demand = tuple[tuple[str, int], ...]


class Allocator:
    """All queue classes, and the agents that serve them. ``next_at``: when something reserved is to be given up."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.next_at: float | None = None
        self.classes: dict[tuple[Demand, int], QueueClass] = {}
        self.agents: dict[int, Agent] = {}
        self._served: dict[int, list[QueueClass]] = {}
        self._changed: dict[int, Agent] = {}
        self._eager: dict[int, Agent] = {}
        self._reserving: dict[int, Agent] = {}

    @property
    def queued(self) -> int:
        """Tasks that no agent has yet."""
        return sum(queue.count for queue in self.classes.values())

    @property
    def free(self) -> int:
        """Those of them that any agent may have; about."""
        if not self._reserving:
            return self.queued
        return max(0, self.queued - sum(agent.load.reserved_count for agent in self._reserving.values()))

    def queue_class(self, demand: Demand, depth: int) -> QueueClass:
        """The class of such tasks, made when first needed."""
        queue = self.classes.get((demand, depth))
        if queue is None:
            queue = self.classes[demand, depth] = QueueClass(demand, depth, self.places)
            for agent in self.agents.values():
                self._serve(agent, queue)
        return queue

    def add(self, agent: Agent) -> None:
        self.agents[agent.index] = agent
        self._served[agent.index] = []
        agent.load.is_available = agent.is_available
        self.places.add(agent.load)
        for queue in self.classes.values():
            self._serve(agent, queue)

    def remove(self, agent: Agent) -> None:
        agent.version += 1
        self.agents.pop(agent.index, None)
        self._changed.pop(agent.index, None)
        self._eager.pop(agent.index, None)
        self._reserving.pop(agent.index, None)
        self.places.remove(agent.load)
        for queue in self._served.pop(agent.index, ()):
            queue.candidates.pop(agent.index, None)
            queue.served.pop(agent.index, None)
        agent.load.end_reservations(math.inf)

    def join_store(self, agent: Agent, store: bytes) -> None:
        """The agent's host has another store."""
        is_known = agent.index in self.agents
        if is_known:
            self.places.remove(agent.load)
        agent.load.store = store
        if is_known:
            self.places.add(agent.load)

    def offer(self, agent: Agent) -> None:
        """The agent's load, or whether it may be used, changed. It counts when something is to be handed out."""
        self._changed[agent.index] = agent
        if agent.load.has_own:
            self._eager[agent.index] = agent

    def _settle(self) -> None:
        changed, self._changed = self._changed, {}
        for agent in changed.values():
            self._consider(agent)

    def _consider(self, agent: Agent) -> None:
        agent.version += 1
        available = agent.load.is_available = agent.is_available
        for queue in self._served.get(agent.index, ()):
            if available and agent.load.has_room(queue.depth):
                self._enter(queue, agent)
            else:
                queue.candidates.pop(agent.index, None)

    def allocate(self, now: float) -> list[Agent]:
        """Hand out all that agents have room for, into their outboxes; the agents that got something."""
        given: dict[int, Agent] = {}
        if self.next_at is not None and now >= self.next_at:
            self._end_reservations(now)
        if self._eager:
            self._serve_eager(given)
        waiting: list[QueueClass] = []
        for queue in self.classes.values():  # a comprehension would be a call, and most often there is one class
            if queue.count:
                waiting.append(queue)
        if len(waiting) > 1:
            waiting.sort(key=lambda queue: (-queue.depth, -queue.priority))
        for queue in waiting:
            self._fill(queue, given, now)
        return list(given.values())

    def _serve_eager(self, given: dict[int, Agent]) -> None:
        """What is reserved for an agent; nodes of graphs that can only go, or would best go, to one."""
        eager, self._eager = self._eager, {}
        for agent in eager.values():
            if agent.is_available:
                self._serve_own(agent, given)
            elif agent.load.reserved_count:
                agent.load.end_reservations(math.inf)

    def _serve_own(self, agent: Agent, given: dict[int, Agent]) -> None:
        before = agent.load.reserved_count
        runs = take_reserved(agent.load) if before else []
        if agent.load.deferred:
            runs += take_deferred(agent.load)
        if runs:
            agent.outbox.extend(runs)
            given[agent.index] = agent
        if runs or before != agent.load.reserved_count:
            self._changed[agent.index] = agent

    def _end_reservations(self, now: float) -> None:
        """Give up what has been reserved for long enough."""
        self.next_at = None
        for agent in list(self._reserving.values()):
            self._changed[agent.index] = agent
            self._note_due(agent, agent.load.end_reservations(now))

    def _note_due(self, agent: Agent, due: float) -> None:
        if due == math.inf:
            self._reserving.pop(agent.index, None)
            return
        self._reserving[agent.index] = agent
        self.next_at = due if self.next_at is None else min(self.next_at, due)

    def _note_reserved(self, queue: QueueClass, given: dict[int, Agent], now: float) -> None:
        """Something was reserved for agents: those that have room take it, before they take others of its kind."""
        for load in queue.take_reserving():
            agent = self.agents[load.index]
            self._serve_own(agent, given)
            self._changed[load.index] = agent
            self._note_due(agent, load.end_reservations(now))

    def _fill(self, queue: QueueClass, given: dict[int, Agent], now: float) -> None:
        self._settle()
        while queue.count and queue.candidates:
            agent = self._best(queue)
            if agent is None:
                return
            share = -(-queue.count // (len(queue.candidates) + 1))
            runs, has_room = queue.take(agent.load, share)
            if queue.reserving:
                self._note_reserved(queue, given, now)
                self._settle()
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
            queue.served[agent.index] = agent.load
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
