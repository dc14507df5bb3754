# cython: language_level=3
"""The results of agents that have reached their clients, so that agents may release them."""

from cython cimport final


@final
cdef class Delivery:
    def __init__(self, agent, sequence):
        self.agent = agent
        self.sequence = sequence

    cpdef hold(self):
        self.holders += 1

    cpdef release(self):
        self.holders -= 1
        if self.holders == 0 and self.sequence:
            self.agent.releases.append(self.sequence)
