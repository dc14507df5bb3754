# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Tasks that are reserved for the agent that has their bytes. See reservations.pyi for the contract."""

from heapq import heappop, heappush

from cython cimport final
from libc.stdint cimport int64_t, uint32_t, uint64_t
from scaler_scheduler.core.agent_loads cimport AgentLoad
from scaler_scheduler.core.pages cimport OUT_OF_PATIENCE, PAGE_SIZE, Page
from scaler_scheduler.core.priority_queues cimport QueueClass
from scaler_scheduler.core.states cimport QUEUED
from scaler_scheduler.core.task_table cimport TaskTable


@final
cdef class Reservation:
    """A queued task that only the agent that has its bytes may take, until ``until``."""

    def __init__(self, double until, client, TaskTable table, uint64_t task, int64_t raised):
        self.until = until
        self.client = client
        self.table = table
        self.task = task
        self.raised = raised
        self.record = table.columns.record(task)
        self.estimate_us = self.record.function.estimate()

    cdef bint is_for(self, uint32_t agent) except -1:
        cdef Page* page = self.table.columns.find(self.task)
        cdef int offset = self.task & (PAGE_SIZE - 1)
        if page == NULL or page.state[offset] != QUEUED or page.agent[offset] != agent:
            return False
        return self.table.columns.record_at(page, offset) is self.record  # else it waits in another class

    cdef mark(self, uint32_t agent):
        cdef Page* page = self.table.columns.find(self.task)
        if page != NULL:
            page.agent[self.task & (PAGE_SIZE - 1)] = agent

    cdef end(self):
        """The task waits for any agent again, before the others of its class."""
        self.mark(OUT_OF_PATIENCE)
        self.record.queue.put_back(self.client, self.table, self.record.priority, self.task)


cdef reserve(AgentLoad agent, Reservation reservation):
    """The agent is assigned this task when it has room, the reservations that end first before the others."""
    agent.reservations += 1
    heappush(
        agent.reserved.setdefault(reservation.record.queue, []), (reservation.until, agent.reservations, reservation)
    )
    agent.reserved_count += 1
    agent.reserved_us += reservation.estimate_us
    reservation.mark(agent.index)


cdef Reservation pop_reserved(AgentLoad agent, QueueClass queue):
    """The next one of a class whose task still waits for this agent, or None."""
    cdef Reservation reservation
    cdef list heap = agent.reserved.get(queue)
    while heap:
        reservation = <Reservation> heappop(heap)[2]
        agent.reserved_count -= 1
        agent.reserved_us -= reservation.estimate_us
        if reservation.is_for(agent.index):
            return reservation
    agent.reserved.pop(queue, None)
    return None


cpdef double end_reservations(AgentLoad agent, double now) except? -1:
    """End the reservations that have lasted until ``now``. Returns when the next one ends."""
    cdef QueueClass queue
    cdef list ended = []
    cdef double due = float("inf")
    for queue in list(agent.reserved):
        heap = agent.reserved[queue]
        while heap and heap[0][0] <= now:
            reservation = pop_reserved(agent, queue)
            if reservation is not None:
                ended.append(reservation)
        if heap:
            due = min(due, heap[0][0])
        else:
            agent.reserved.pop(queue, None)
    for reservation in reversed(ended):
        (<Reservation> reservation).end()
    return due
