# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Changes of graph nodes. See graph_news.pyi for the contract."""

from cython cimport final
from libc.stdint cimport uint32_t, uint64_t


@final
cdef class GraphNews:
    """Changes of graph nodes that other events have caused; the core queues and reports them."""

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
