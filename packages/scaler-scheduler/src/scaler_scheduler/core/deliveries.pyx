# cython: language_level=3
"""Which results of agents have reached their clients, so that agents may forget them."""


cdef class Delivery:
    cdef readonly object agent
    cdef readonly object sequence
    cdef int holders

    def __init__(self, agent, sequence):
        self.agent = agent
        self.sequence = sequence

    def hold(self):
        self.holders += 1

    def let_go(self):
        self.holders -= 1
        if self.holders == 0 and self.sequence:
            self.agent.releases.append(self.sequence)
