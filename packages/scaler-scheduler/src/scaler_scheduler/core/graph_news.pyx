# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""What became of nodes of graphs. See graph_news.pyi for the contract."""

from cython cimport final
from libc.stdint cimport uint32_t, uint64_t


@final
cdef class GraphNews:
    """What became of nodes of graphs while something else was handled; the core queues and tells it."""

    def __init__(self):
        self.ready = []
        self.cancels = {}
        self.cascaded = []
        self.ended = []
        self.died = []
        self.delivered = []
        self.preferences = {}

    cdef tell(self, uint32_t agent, uint64_t task, uint32_t attempt):
        column = self.cancels.get(agent)
        if column is None:
            column = self.cancels[agent] = ([], [])
        (<list> column[0]).append(task)
        (<list> column[1]).append(attempt)
