from libc.stdint cimport int64_t

from scaler_scheduler.core.agents cimport Agent
from scaler_scheduler.core.data_locations cimport DataLocations
from scaler_scheduler.core.priority_queues cimport QueueClass

cdef class Placement:
    cdef readonly DataLocations locations
    cdef readonly object next_at
    cdef double aging_seconds
    cdef readonly dict classes
    cdef readonly dict agents
    cdef dict served
    cdef dict changed
    cdef dict eager
    cdef dict reserving
    cdef readonly Agent serving
    cdef int64_t grants  # of tasks, in order

    cpdef offer(self, Agent agent)
    cdef settle(self)
    cdef consider(self, Agent agent)
    cdef list allocate(self, double now)
    cdef list classes_waiting(self)
    cdef serve_eager(self, dict given)
    cdef serve_own(self, Agent agent, dict given)
    cdef end_reservations(self, double now)
    cdef note_due(self, Agent agent, double due)
    cdef note_reserved(self, QueueClass queue, dict given, double now)
    cdef fill_together(self, list classes, dict given, double now)
    cdef fill(self, QueueClass queue, dict given, double now)
    cdef bint give(self, QueueClass queue, dict given, double now, bint one_turn) except -1
    cdef Agent best(self, QueueClass queue)
    cdef serve(self, Agent agent, QueueClass queue)
    cdef enter(self, QueueClass queue, Agent agent)
