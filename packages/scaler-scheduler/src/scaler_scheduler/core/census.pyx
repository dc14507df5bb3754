# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""All task counts, recounted from the states of the tasks. See census.pyi for the contract."""

from cython cimport final
from libc.stdint cimport int64_t
from scaler_scheduler.core.agent_loads cimport DEPTHS, AgentLoad
from scaler_scheduler.core.function_loads cimport FunctionLoad
from scaler_scheduler.core.priority_queues cimport QueueClass
from scaler_scheduler.core.run_records cimport RunRecord


@final
cdef class AgentTally:
    """The counts of one agent."""

    def __init__(self):
        cdef int depth
        self.taken = {}
        for depth in range(DEPTHS):
            self.by_depth[depth] = 0

    cdef add(self, RunRecord record, int64_t load_us, int64_t moving_us):
        self.number += record.slots
        self.actors += record.hosts_actor
        self.load_us += load_us * record.slots
        self.moving_us += moving_us
        self.by_depth[min(record.depth, DEPTHS - 1)] += record.slots
        for name, amount in record.demand:
            self.taken[name] = self.taken.get(name, 0) + amount

    cdef add_unclaimed(self, AgentLoad agent):
        """Add the tasks of absent clients, which are in no table."""
        self.number += agent.unclaimed
        self.actors += agent.unclaimed_actors
        self.by_depth[0] += agent.unclaimed


@final
cdef class Census:
    def __init__(self, bint corrects=False):
        self._corrects = corrects
        self.wrong = []
        self.subject = ""
        self.queued = {}
        self.assigned = {}
        self.unfinished = {}

    cdef add_queued(self, RunRecord record, int64_t number):
        self.queued[record.queue] = self.queued.get(record.queue, 0) + number

    cdef add_unfinished(self, RunRecord record, int64_t number):
        self.unfinished[record.function] = self.unfinished.get(record.function, 0) + number

    cdef AgentTally tally_of(self, agent):
        """The tally of an agent, to add tasks to."""
        cdef AgentTally tally = self.assigned.get(agent)
        if tally is None:
            tally = self.assigned[agent] = AgentTally()
        return tally

    cpdef bint must_correct(self, str text) except -1:
        self.wrong.append(self.subject + text)
        return self._corrects

    def compare_queue(self, QueueClass queue):
        cdef int64_t counted = self.queued.get(queue, 0)
        if queue.count != counted and self.must_correct(
            f"{queue.count} tasks queued for {queue.demand} at depth {queue.depth}, {counted} counted"
        ):
            queue.count = counted

    def compare_agent(self, AgentLoad agent, dict total):
        cdef AgentTally tally = self.assigned.get(agent.index)
        cdef dict left
        cdef bint corrects = False
        if tally is None:
            if is_idle(agent, total):  # most agents of a large cluster
                return
            tally = AgentTally()
        tally.add_unclaimed(agent)
        left = capabilities_left(agent, tally, total)
        for text in differences(agent, tally, left):
            corrects = self.must_correct(text)
        if corrects:
            agent.amend(tally.number, tally.actors, tally.load_us, tally.moving_us, tally.by_depth, left)

    def compare_reserved(self, AgentLoad agent):
        cdef int64_t number = 0, us = 0
        if not agent.reserved and not agent.reserved_count and not agent.reserved_us:
            return
        for reservations in agent.reserved.values():
            number += len(reservations)
            for _, _, reservation in reservations:
                us += reservation.estimate_us
        if (number != agent.reserved_count or us != agent.reserved_us) and self.must_correct(
            f"{agent.reserved_count} tasks of {agent.reserved_us} us reserved, {number} of {us} us counted"
        ):
            agent.reserved_count = number
            agent.reserved_us = us

    def compare_functions(self, list known):
        cdef FunctionLoad function
        for function in {id(each): each for each in [*known, *self.unfinished]}.values():
            counted = self.unfinished.get(function, 0)
            if function.unfinished != counted and self.must_correct(
                f"{function.unfinished} tasks of {function.name} unfinished, {counted} counted"
            ):
                function.unfinished = counted

    def unknown_agents(self, dict known):
        return sorted(agent for agent in self.assigned if agent not in known and (<AgentTally> self.assigned[agent]).number)


cdef bint is_idle(AgentLoad agent, dict total) except -1:
    """Return whether all counts of an agent are those of one without tasks."""
    cdef int depth
    if agent.outstanding or agent.actors or agent.load_us or agent.moving_us or agent.resources != total:
        return False
    for depth in range(DEPTHS):
        if agent.by_depth[depth]:
            return False
    return True


cdef dict capabilities_left(AgentLoad agent, AgentTally tally, dict total):
    """Return the capabilities of an agent without those that its counted tasks take."""
    cdef dict left = {name: amount - tally.taken.get(name, 0) for name, amount in total.items()}
    for name in tally.taken:
        left.setdefault(name, -tally.taken[name])
    for name in agent.resources:
        left.setdefault(name, 0)
    return left


cdef list differences(AgentLoad agent, AgentTally tally, dict left):
    """Describe the counts of an agent that differ from the tally, in words."""
    cdef list wrong = []
    cdef int depth
    if agent.outstanding != tally.number or agent.load_us != tally.load_us or agent.moving_us != tally.moving_us:
        wrong.append(
            f"{agent.outstanding} tasks of {agent.load_us} us, {agent.moving_us} us to move, with agent {agent.index}; "
            f"{tally.number} of {tally.load_us} us, {tally.moving_us} us counted"
        )
    if agent.actors != tally.actors:
        wrong.append(f"{agent.actors} actors with agent {agent.index}, {tally.actors} counted")
    for depth in range(DEPTHS):
        if agent.by_depth[depth] != tally.by_depth[depth]:
            wrong.append(f"{agent.by_depth[depth]} tasks at depth {depth} with agent {agent.index}, "
                         f"{tally.by_depth[depth]} counted")
    if any(agent.resources.get(name, 0) != amount for name, amount in left.items()):
        wrong.append(f"agent {agent.index} has {agent.resources} left, {left} counted")
    return wrong
