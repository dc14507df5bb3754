# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The agents, and which of them have which bytes. See data_locations.pyi for the contract."""

from cython cimport final
from scaler_scheduler.core.agent_loads cimport AgentLoad

cdef enum:
    FETCH_US = 1000


@final
cdef class DataLocations:
    """The agents, and the locations of the bytes that tasks need. ``objects``: the directory of what clients sent."""

    def __init__(self, dict objects, double bytes_per_us):
        self.objects = objects
        self.bytes_per_us = bytes_per_us
        self.by_index = {}
        self.by_session = {}
        self.by_store = {}

    def add(self, AgentLoad agent):
        self.by_index[agent.index] = self.by_session[agent.session] = agent
        if agent.store:
            self.by_store.setdefault(agent.store, []).append(agent)

    def remove(self, AgentLoad agent):
        if self.by_index.pop(agent.index, None) is None:
            return
        del self.by_session[agent.session]
        if agent.store:
            self.by_store[agent.store].remove(agent)
            if not self.by_store[agent.store]:
                del self.by_store[agent.store]

    cdef double moving_us(self, double size):
        return FETCH_US + size / self.bytes_per_us if size > 0 else 0.0
