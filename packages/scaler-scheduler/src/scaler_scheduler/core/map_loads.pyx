# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The maps of one client. See map_loads.pyi for the contract."""

from cython cimport final
from libc.stdint cimport int64_t

ENDED_LIMIT = 100


@final
cdef class MapLoad:
    def __init__(self, int64_t number, str function, str module=""):
        self.number, self.function, self.module = number, function, module


@final
cdef class MapTable:
    def __init__(self):
        self.live, self.ended = {}, {}

    cpdef MapLoad find(self, int64_t number, str function, str module=""):
        cdef MapLoad load = self.live.get(number)
        if load is None:
            load = self.ended.get(number)
        return MapLoad(number, function, module) if load is None else load

    cdef begin(self, MapLoad load, int64_t tasks):
        """A run of a map has come."""
        if load.live_tasks == 0:
            self.ended.pop(load.number, None)
            self.live[load.number] = load
        load.total += tasks
        load.live_tasks += tasks

    cdef end(self, MapLoad load, int64_t tasks):
        """All tasks of a run of a map have ended."""
        load.live_tasks -= tasks
        if load.live_tasks == 0:
            del self.live[load.number]
            self.ended[load.number] = load
            if len(self.ended) > ENDED_LIMIT:
                del self.ended[next(iter(self.ended))]
