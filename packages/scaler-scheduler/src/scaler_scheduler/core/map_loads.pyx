# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The tasks of one map. See map_loads.pyi for the contract."""

from cython cimport final
from libc.stdint cimport int64_t, uint64_t

RANGES_LIMIT = 10_000


@final
cdef class MapLoad:
    def __init__(self, str function):
        self.function = function
        self.ranges = []

    @property
    def failed(self):
        return self.failures

    cpdef bint add(self, uint64_t first, uint64_t stop) except -1:
        cdef uint64_t begin = first
        if self.ranges and <uint64_t> self.ranges[len(self.ranges) - 1][1] == first:
            begin = self.ranges.pop()[0]
        elif len(self.ranges) >= RANGES_LIMIT:
            return False
        self.ranges.append((begin, stop))
        self.total += <int64_t> (stop - first)
        self.is_over = False
        return True

    cdef settle(self, list ranges):
        """Only these ranges have unfinished tasks."""
        self.ranges, self.is_over = ranges, not ranges
