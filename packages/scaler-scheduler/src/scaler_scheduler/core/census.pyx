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
        self.load_us += load_us * record.slots
        self.moving_us += moving_us
        self.by_depth[min(record.depth, DEPTHS - 1)] += record.slots
        for name, amount in record.demand:
            self.taken[name] = self.taken.get(name, 0) + amount


@final
cdef class Census:
    def __init__(self):
        self.queued = {}
        self.assigned = {}
        self.unfinished = {}

    cdef add_queued(self, RunRecord record, int64_t number):
        self.queued[record.queue] = self.queued.get(record.queue, 0) + number

    cdef add_unfinished(self, RunRecord record, int64_t number):
        self.unfinished[record.function] = self.unfinished.get(record.function, 0) + number

    cdef AgentTally tally_of(self, agent):
        cdef AgentTally tally = self.assigned.get(agent)
        if tally is None:
            tally = self.assigned[agent] = AgentTally()
        return tally

    def amend_queue(self, QueueClass queue, bint corrects):
        cdef int64_t counted = self.queued.get(queue, 0)
        if queue.count == counted:
            return []
        wrong = f"{queue.count} tasks queued for {queue.demand} at depth {queue.depth}, {counted} counted"
        if corrects:
            queue.count = counted
        return [wrong]

    def amend_agent(self, AgentLoad agent, dict total, bint corrects):
        cdef AgentTally tally = self.tally_of(agent.index)
        cdef dict left = {name: amount - tally.taken.get(name, 0) for name, amount in total.items()}
        cdef list wrong = []
        cdef int depth
        for name in tally.taken:
            left.setdefault(name, -tally.taken[name])
        for name in agent.resources:
            left.setdefault(name, 0)
        if agent.outstanding != tally.number or agent.load_us != tally.load_us or agent.moving_us != tally.moving_us:
            wrong.append(
                f"{agent.outstanding} tasks of {agent.load_us} us, {agent.moving_us} us to move, with agent {agent.index}; "
                f"{tally.number} of {tally.load_us} us, {tally.moving_us} us counted"
            )
        for depth in range(DEPTHS):
            if agent.by_depth[depth] != tally.by_depth[depth]:
                wrong.append(f"{agent.by_depth[depth]} tasks at depth {depth} with agent {agent.index}, "
                             f"{tally.by_depth[depth]} counted")
        if any(agent.resources.get(name, 0) != amount for name, amount in left.items()):
            wrong.append(f"agent {agent.index} has {agent.resources} left, {left} counted")
        if wrong and corrects:
            agent.amend(tally.number, tally.load_us, tally.moving_us, tally.by_depth, left)
        return wrong

    def amend_functions(self, list known, bint corrects):
        cdef FunctionLoad function
        cdef list wrong = []
        for function in {id(each): each for each in [*known, *self.unfinished]}.values():
            counted = self.unfinished.get(function, 0)
            if function.unfinished != counted:
                wrong.append(f"{function.unfinished} tasks of {function.name} unfinished, {counted} counted")
                if corrects:
                    function.unfinished = counted
        return wrong

    def unknown_agents(self, dict known):
        return sorted(agent for agent in self.assigned if agent not in known and (<AgentTally> self.assigned[agent]).number)
