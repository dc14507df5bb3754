# cython: language_level=3
"""Chooses the agent that is assigned a task. See placement.pyi for the contract."""

from heapq import heapify, heappop, heappush
from math import inf

from cython cimport final
from libc.stdint cimport int64_t
from scaler_scheduler.core.agent_loads cimport AgentLoad
from scaler_scheduler.core.agents cimport Agent
from scaler_scheduler.core.data_locations cimport DataLocations
from scaler_scheduler.core.priority_queues cimport ClientQueue, QueueClass
from scaler_scheduler.core.reservations cimport end_reservations
from scaler_scheduler.core.assignments cimport assign_deferred, assign_queued, assign_reserved

cdef double NEVER = inf


@final
cdef class Placement:
    def __init__(self, DataLocations locations, double aging_seconds=0.0):
        self.locations = locations
        self.aging_seconds = aging_seconds
        self.classes = {}
        self.agents = {}
        self.served = {}
        self.changed = {}
        self.eager = {}
        self.reserving = {}
        self.offers = {}
        self.level = []

    @property
    def queued(self):
        """Tasks that no agent has yet."""
        return sum(queue.count for queue in self.classes.values())

    @property
    def free(self):
        """The number of queued tasks that any agent may have; about."""
        cdef QueueClass queue
        cdef Agent agent
        cdef int64_t number = 0
        for queue in self.classes.values():
            if queue.count and len(queue.served) >= len(self.agents):
                number += queue.count
                for agent in self.reserving.values():
                    number -= len(agent.load.reserved.get(queue, ()))
        return max(0, number)

    cdef list scarce_waiting(self):
        """The classes that have tasks although at most half of all workers can run these, and some can."""
        cdef QueueClass queue
        cdef list found = []
        for queue in self.classes.values():
            if queue.count and queue.demand and queue.workers and self.is_scarce(queue) and queue.is_eligible():
                found.append(queue)
        return found

    cpdef bint is_scarce(self, QueueClass queue) except -1:
        return 2 * queue.workers <= self.workers

    def queue_class(self, tuple demand, int depth, owner=None, dict admitted=None):
        """The class of such tasks, made when first needed."""
        queue = self.classes.get((demand, depth, owner))
        if queue is None:
            queue = self.classes[demand, depth, owner] = QueueClass(demand, depth, admitted)
            for agent in self.agents.values():
                self.serve(agent, queue)
        return queue

    def add(self, Agent agent):
        self.agents[agent.index] = agent
        self.served[agent.index] = []
        agent.load.is_available = agent.available()
        self.locations.add(agent.load)
        self.count_offers(agent, 1)
        for queue in self.classes.values():
            self.serve(agent, queue)

    def remove(self, Agent agent):
        cdef QueueClass queue
        agent.version += 1
        if self.agents.pop(agent.index, None) is not None:
            self.count_offers(agent, -1)
        self.changed.pop(agent.index, None)
        self.eager.pop(agent.index, None)
        self.reserving.pop(agent.index, None)
        self.locations.remove(agent.load)
        for queue in self.served.pop(agent.index, ()):
            queue.candidates.pop(agent.index, None)
            queue.workers -= agent.load.slots
            queue.served.pop(agent.index, None)
        end_reservations(agent.load, NEVER)

    cdef count_offers(self, Agent agent, int change):
        """An agent has joined (1) or left (-1)."""
        self.workers += change * agent.load.slots
        for name in agent.capabilities:
            self.offers[name] = self.offers.get(name, 0) + change
            if not self.offers[name]:
                del self.offers[name]

    def join_store(self, Agent agent, bytes store):
        """The agent's host has another store."""
        is_known = agent.index in self.agents
        if is_known:
            self.locations.remove(agent.load)
        agent.load.store = store
        if is_known:
            self.locations.add(agent.load)

    cpdef offer(self, Agent agent):
        """The agent's load, or whether it may be used, changed. It counts when something is to be handed out."""
        self.changed[agent.index] = agent
        if agent.load.has_own:
            self.eager[agent.index] = agent

    cdef settle(self):
        cdef dict changed = self.changed
        cdef Agent agent
        if changed:
            self.changed = {}
            for agent in changed.values():
                self.consider(agent)

    cdef consider(self, Agent agent):
        cdef bint is_available = agent.available()
        cdef QueueClass queue
        agent.version += 1
        agent.load.is_available = is_available
        for queue in self.served.get(agent.index, ()):
            if is_available and agent.load.has_room(queue.depth):
                self.enter(queue, agent)
            else:
                queue.candidates.pop(agent.index, None)

    cdef list classes_waiting(self):
        """The deepest first."""
        cdef QueueClass queue
        cdef list waiting = []
        for queue in self.classes.values():
            if queue.count:
                waiting.append(queue)
        if len(waiting) > 1:
            waiting.sort(key=turn_of)
        return waiting

    cdef list allocate(self, double now):
        """Hand out all that agents have room for, into their outboxes; the agents that got something."""
        cdef dict given = {}
        self.serving = None
        if self.next_at is not None and now >= self.next_at:
            self.end_reservations(now)
        if self.eager:
            self.serve_eager(given)
        cdef list waiting = self.classes_waiting(), level
        cdef Py_ssize_t start = 0, stop
        while start < len(waiting):
            stop = end_of_level(waiting, start)
            self.level = level = waiting[start:stop]
            start = stop
            if len(level) == 1:
                self.fill(level[0], given, now)
            else:
                self.fill_together(level, given, now)
        return list(given.values())

    cdef serve_eager(self, dict given):
        """Work reserved for an agent; nodes of graphs that can only go, or would best go, to one."""
        cdef dict eager = self.eager
        cdef Agent agent
        self.eager = {}
        for agent in eager.values():
            if agent.available():
                self.serve_own(agent, given)
            elif agent.load.reserved_count:
                end_reservations(agent.load, NEVER)

    cdef serve_own(self, Agent agent, dict given):
        cdef int64_t before = agent.load.reserved_count
        self.serving = agent
        cdef list runs = assign_reserved(agent.load, self.locations) if before else []
        if agent.load.deferred:
            runs += assign_deferred(agent.load, self.locations)
        if runs:
            agent.outbox.extend(runs)
            given[agent.index] = agent
        if runs or before != agent.load.reserved_count:
            self.changed[agent.index] = agent

    cdef end_reservations(self, double now):
        """Give up what has been reserved for long enough."""
        self.next_at = None
        for agent in list(self.reserving.values()):
            self.changed[agent.index] = agent
            self.note_due(agent, end_reservations(agent.load, now))

    cdef note_due(self, Agent agent, double due):
        if due == NEVER:
            self.reserving.pop(agent.index, None)
            return
        self.reserving[agent.index] = agent
        self.next_at = due if self.next_at is None else min(self.next_at, due)

    cdef note_reserved(self, QueueClass queue, dict given, double now):
        """Something was reserved for agents: those that have room take it, before they take others of its kind."""
        cdef Agent agent
        cdef AgentLoad load
        for load in queue.take_reserving():
            agent = self.agents[load.index]
            self.serve_own(agent, given)
            self.changed[load.index] = agent
            self.note_due(agent, end_reservations(load, now))

    cdef fill_together(self, list classes, dict given, double now):
        """Classes whose tasks may compete for the same agents are served turn by turn, as if they were one; but a
        scarcer one first, because other workers remain for the rest."""
        cdef QueueClass queue, found
        cdef ClientQueue client, first
        classes = list(classes)
        while classes:
            self.settle()
            found, first = None, None
            for queue in list(classes):
                client = queue.next_queue(now, self.aging_seconds) if queue.count and queue.candidates else None
                if client is None:
                    classes.remove(queue)
                elif first is None or queue.is_scarcer(found):
                    found, first = queue, client
                elif not found.is_scarcer(queue) and client.precedes(first):
                    found, first = queue, client
            if found is not None and not self.give(found, given, now, len(classes) > 1):
                classes.remove(found)

    cdef fill(self, QueueClass queue, dict given, double now):
        self.settle()
        while queue.count and queue.candidates and self.give(queue, given, now, False):
            pass

    cdef bint give(self, QueueClass queue, dict given, double now, bint one_turn) except -1:
        """Give tasks of the class to the best agent. False: no agent takes any now."""
        cdef Agent agent = self.best(queue)
        cdef int64_t share
        cdef list runs
        cdef bint has_room
        if agent is None:
            return False
        self.serving = agent
        share = -(-queue.count // (<int64_t> len(queue.candidates) + 1))
        runs, has_room = assign_queued(
            queue, agent.load, self.locations, share, now, self.aging_seconds, one_turn,
            len(self.level) > 1 and self.is_kept(agent, queue),
        )
        if queue.reserving:
            self.note_reserved(queue, given, now)
            self.settle()
        if runs:
            self.grants += 1
            agent.warmth = self.grants
            agent.outbox.extend(runs)
            given[agent.index] = agent
            self.offer(agent)
            if queue.count:
                self.settle()
        elif has_room:
            self.offer(agent)
            return False
        return True

    cdef Agent best(self, QueueClass queue):
        while queue.heap:
            _, _, version, index = heappop(queue.heap)
            if queue.candidates.get(index) == version:
                del queue.candidates[index]
                return self.agents[index]
        return None

    cdef bint is_kept(self, Agent agent, QueueClass queue) except -1:
        """Return whether tasks of a scarcer class wait for this agent: others may only start there."""
        cdef QueueClass other
        for other in self.level:
            if other.count and other.is_scarcer(queue) and agent.index in other.served and other.is_eligible():
                return True
        return False

    cdef int64_t rarity(self, Agent agent, QueueClass queue) except -1:
        """Return how many agents lack the rarest of those capabilities of an agent that the tasks do not need."""
        cdef int64_t offers = len(self.agents)
        for name in agent.capabilities:
            if not needs(queue.demand, name):
                offers = min(offers, <int64_t> self.offers.get(name, 0))
        return len(self.agents) - offers

    cdef serve(self, Agent agent, QueueClass queue):
        if agent.can_serve(queue.demand):
            queue.workers += agent.load.slots
            self.served[agent.index].append(queue)
            queue.served[agent.index] = agent.load
            if agent.available() and agent.load.has_room(queue.depth):
                self.enter(queue, agent)

    cdef enter(self, QueueClass queue, Agent agent):
        if not queue.admits(agent.session):
            return
        queue.candidates[agent.index] = agent.version
        cdef int64_t rarity = self.rarity(agent, queue) if agent.capabilities else 0
        heappush(queue.heap, (agent.load.key(queue.depth, rarity), -agent.warmth, agent.version, agent.index))
        if len(queue.heap) > 64 + 4 * len(queue.candidates):
            queue.heap = [entry for entry in queue.heap if queue.candidates.get(entry[3]) == entry[2]]
            heapify(queue.heap)

    def move_share(self, table):
        """The client of a table belongs to another share."""
        for queue in self.classes.values():
            queue.move_share(table)

    def keep_classes(self, dict needed):
        """Forget the empty classes that are not ``needed``."""
        cdef QueueClass queue
        cdef dict gone = {}
        for key, queue in list(self.classes.items()):
            if queue.count == 0 and queue not in needed:
                del self.classes[key]
                gone[queue] = None
        for index in self.served:
            self.served[index] = [queue for queue in self.served[index] if queue not in gone]

    def forget_owner(self, owner):
        """See placement.pyi."""
        cdef dict gone = {}
        for key in [key for key in self.classes if key[2] is owner]:
            gone[self.classes.pop(key)] = None
        for index in self.served if gone else ():
            self.served[index] = [queue for queue in self.served[index] if queue not in gone]

    def rebuild(self, list tables):
        """Queue the queued tasks of ``tables``, (client, table) each, again: an entry may have been lost on its way."""
        cdef QueueClass queue
        cdef Agent agent
        self.reserving = {}
        self.next_at = None
        for agent in self.agents.values():
            agent.load.forget_reserved()
            self.changed[agent.index] = agent
        for queue in self.classes.values():
            queue.empty()
        for client, table in tables:
            table.push_queued(client)


cdef bint needs(tuple demand, name) except -1:
    for each, _ in demand:
        if each == name:
            return True
    return False


cdef Py_ssize_t end_of_level(list waiting, Py_ssize_t start) except -1:
    """Return where the classes with the depth of the one at ``start`` end. There may be thousands of depths."""
    cdef int64_t depth = (<QueueClass> waiting[start]).depth
    cdef Py_ssize_t stop = start + 1
    while stop < len(waiting) and (<QueueClass> waiting[stop]).depth == depth:
        stop += 1
    return stop


def turn_of(queue):
    return -queue.depth
