from libc.stdint cimport uint32_t, uint64_t
from scaler_scheduler.core.graph cimport Graph
from scaler_scheduler.core.data_locations cimport DataLocations
from scaler_scheduler.core.task_table cimport TaskTable

cdef class Inputs:
    cdef double total
    cdef dict held
    cdef DataLocations locations

    cdef add_values(self, TaskTable table, Graph graph, uint64_t task)
    cdef add_uploads(self, list keys)
    cdef dict who_has(self, stored)
    cdef hold(self, dict found, uint32_t index)
    cdef count(self, dict found, double size)
    cdef double missing_us(self, uint32_t agent)
