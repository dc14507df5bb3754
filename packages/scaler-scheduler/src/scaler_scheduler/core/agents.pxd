from libc.stdint cimport int64_t

from scaler_scheduler.core.agent_loads cimport AgentLoad
from scaler_scheduler.core.connections cimport PeerConnection

cdef class Agent:
    # identity and connection
    cdef readonly bytes session
    cdef readonly bytes shown_id
    cdef readonly object index
    cdef readonly object hello
    cdef public bytes user
    cdef readonly PeerConnection connection
    cdef readonly object route
    cdef readonly object link
    # what it says of itself
    cdef readonly str name
    cdef readonly str host
    cdef readonly object pid
    cdef readonly tuple worker_names
    cdef readonly str manager_name
    cdef public object manager
    cdef readonly dict capabilities
    cdef readonly dict capacity
    cdef readonly str shown_capabilities
    cdef public object heartbeat
    cdef public tuple workers
    cdef public double heartbeat_at
    cdef public bytes store
    cdef public str store_endpoint
    cdef public object store_status
    cdef readonly object log
    # whether it may be given tasks
    cdef public AgentLoad load
    cdef public bint attached
    cdef public double attached_at
    cdef public bint has_reported
    cdef public bint suspect
    cdef public bint is_relieved
    cdef public bint is_leaving
    cdef public bint is_paused
    cdef public bint is_drained
    cdef public double drained_at
    cdef public double heard_at
    cdef public double idle_at
    cdef public double excused_seconds
    cdef public object lost_at
    cdef public int64_t version
    cdef public int64_t warmth
    # work stealing
    cdef public bint withdraw_pending
    cdef public int fruitless_withdraws
    cdef public double rest_until
    # what it will be sent
    cdef public set known
    cdef public list outbox
    cdef public list releases
    cdef public dict cancels
    cdef readonly dict actors
    cdef dict agents_with_cancels

    cdef inline bint available(self) noexcept:
        return self.attached and self.connection.is_open and not self.suspect and not self.is_leaving and not self.is_paused
