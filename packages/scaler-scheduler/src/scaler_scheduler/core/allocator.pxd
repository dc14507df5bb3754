from scaler_scheduler.core.peers cimport AgentPeer

cdef class Allocator:
    cdef readonly object places
    cdef readonly object next_at
    cdef readonly dict classes
    cdef readonly dict agents
    cdef dict served
    cdef dict changed
    cdef dict eager
    cdef dict reserving

    cpdef offer(self, AgentPeer agent)
    cdef settle(self)
    cdef consider(self, AgentPeer agent)
    cdef list allocate(self, double now)
    cdef list classes_waiting(self)
    cdef serve_eager(self, dict given)
    cdef serve_own(self, AgentPeer agent, dict given)
    cdef end_reservations(self, double now)
    cdef note_due(self, AgentPeer agent, double due)
    cdef note_reserved(self, queue, dict given, double now)
    cdef fill(self, queue, dict given, double now)
    cdef AgentPeer best(self, queue)
    cdef serve(self, AgentPeer agent, queue)
    cdef enter(self, queue, AgentPeer agent)
