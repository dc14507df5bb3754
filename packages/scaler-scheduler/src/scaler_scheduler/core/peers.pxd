from libc.stdint cimport int64_t

from scaler_scheduler.core.agent_loads cimport AgentLoad
from scaler_scheduler.core.deliveries cimport Delivery
from scaler_scheduler.core.task_table cimport TaskTable

cdef class Peer:
    cdef readonly bytes session
    cdef readonly object route
    cdef readonly object link
    cdef public bint connected
    cdef public double sent_at
    cdef public object withheld

cdef class AgentPeer(Peer):
    cdef readonly object index
    cdef public AgentLoad load
    cdef public bint attached
    cdef public bint suspect
    cdef public bint is_leaving
    cdef public double heard_at
    cdef public double excused_seconds
    cdef public double attached_at
    cdef public set known
    cdef public list outbox
    cdef public list releases
    cdef public int64_t version

    cdef inline bint available(self) noexcept:
        return self.attached and self.connected and not self.suspect and not self.is_leaving

cdef class ClientPeer(Peer):
    cdef readonly TaskTable table
    cdef public bint is_broken
    cdef public bint is_orphan
    cdef public bint is_paused
    cdef public int depth
    cdef public object parent
    cdef public double owing_since
    cdef readonly list outgoing
    cdef readonly list rows
    cdef readonly dict deliveries
    cdef int64_t budget_bytes
    cdef readonly int64_t unacknowledged_bytes

    cdef forward(self, run, Delivery delivery)
    cdef list take_results(self)
    cdef remember(self, envelope, list deliveries, int64_t size)
    cdef count_bytes(self, int64_t size)
