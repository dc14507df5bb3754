# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The bytes that one task needs, and where they are.

Inputs are collected when the task is to be assigned, from the values of its graph and from what its client sent. They
tell how long an agent would have to wait for the bytes that it does not have."""

from cython cimport final
from libc.stdint cimport uint32_t, uint64_t
from scaler_scheduler.core.agent_loads cimport AgentLoad
from scaler_scheduler.core.graph cimport Graph, Node
from scaler_scheduler.core.pages cimport PAGE_SIZE, Page
from scaler_scheduler.core.data_locations cimport DataLocations
from scaler_scheduler.core.task_table cimport TaskTable

cdef enum:
    HOLDERS_LIMIT = 64


@final
cdef class Inputs:
    """The bytes that a task needs: all of them, and by agent those that it has or is about to have."""

    def __init__(self, DataLocations locations):
        self.locations = locations
        self.held = {}

    cdef add_values(self, TaskTable table, Graph graph, uint64_t task):
        cdef Node* node = graph.at(task - graph.base)
        cdef uint32_t at, kib
        cdef uint64_t source
        cdef Page* page
        for at in range(node.first_input, node.first_input + node.inputs):
            kib = graph.at(graph.edges[at].input).kib
            source = graph.base + graph.edges[at].input
            page = table.columns.find(source)
            if kib == 0 or page == NULL:
                continue
            self.total += 1024.0 * kib
            found = {}
            self.hold(found, page.agent[source & (PAGE_SIZE - 1)])
            for index in table.nodes.copies.get(source, ()):
                self.hold(found, index)
            self.count(found, 1024.0 * kib)

    cdef add_uploads(self, list keys):
        for key in keys:
            stored = self.locations.objects.get(key)
            if stored is not None and stored.size > 0:
                self.total += <double> stored.size
                self.count(self.who_has(stored), stored.size)

    cdef dict who_has(self, stored):
        """The agents that have an object of a client; only some of them if they are very many."""
        cdef dict found = {}
        for store in stored.stores:
            for agent in self.locations.by_store.get(store, ()):
                found[(<AgentLoad> agent).index] = True
        for session in stored.holders:
            agent = self.locations.by_session.get(session)
            if agent is not None:
                found[(<AgentLoad> agent).index] = True
            if len(found) > HOLDERS_LIMIT:
                break
        return found

    cdef hold(self, dict found, uint32_t index):
        """An agent has it, and so has the store of the agent's host."""
        cdef AgentLoad agent = self.locations.by_index.get(index)
        if agent is None:
            return
        found[index] = True
        for other in self.locations.by_store.get(agent.store, ()) if agent.store else ():
            found[(<AgentLoad> other).index] = True

    cdef count(self, dict found, double size):
        for index in found:
            self.held[index] = self.held.get(index, 0.0) + size

    cdef double missing_us(self, uint32_t agent):
        """Return how long an agent would have to wait for what it does not have."""
        return self.locations.moving_us(self.total - <double> self.held.get(agent, 0.0))
