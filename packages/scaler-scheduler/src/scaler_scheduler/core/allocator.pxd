from scaler_scheduler.core.agents cimport Agent as AgentPeer
from scaler_scheduler.core.places cimport Places
from scaler_scheduler.core.queue_classes cimport QueueClass

cdef class Allocator:
    cdef readonly Places places
    cdef readonly object next_at
    cdef readonly dict classes
    cdef readonly dict agents
    cdef dict served
    cdef dict changed
    cdef dict eager
    cdef dict reserving
    cdef readonly AgentPeer serving

    cpdef offer(self, AgentPeer agent)
    cdef settle(self)
    cdef consider(self, AgentPeer agent)
    cdef list allocate(self, double now)
    cdef list classes_waiting(self)
    cdef serve_eager(self, dict given)
    cdef serve_own(self, AgentPeer agent, dict given)
    cdef end_reservations(self, double now)
    cdef note_due(self, AgentPeer agent, double due)
    cdef note_reserved(self, QueueClass queue, dict given, double now)
    cdef fill(self, QueueClass queue, dict given, double now)
    cdef AgentPeer best(self, QueueClass queue)
    cdef serve(self, AgentPeer agent, QueueClass queue)
    cdef enter(self, QueueClass queue, AgentPeer agent)
