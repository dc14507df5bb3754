from libc.stdint cimport int64_t

from scaler_scheduler.core.connections cimport PeerConnection
from scaler_scheduler.core.deliveries cimport Delivery
from scaler_scheduler.core.task_table cimport TaskTable

cdef class ClientPeer:
    # identity and connection
    cdef readonly bytes session
    cdef readonly bytes shown_id
    cdef public object hello
    cdef public bytes user
    cdef readonly PeerConnection connection
    cdef readonly object route
    cdef readonly object link
    cdef public bint is_broken
    cdef public object gone_at
    # nesting
    cdef public object parent
    cdef public bint is_nested
    cdef public int depth
    cdef public bint is_orphan
    # tasks
    cdef readonly TaskTable table
    cdef readonly object holds
    cdef readonly object once_holds
    cdef readonly object known_agents
    cdef public bint has_called
    cdef readonly object waiting
    cdef public double states_until
    cdef readonly bint has_stated
    cdef public dict stated_cancels
    cdef public dict asked_cancels
    cdef public tuple unsent
    cdef public double unsent_since
    cdef readonly dict certificates
    cdef readonly dict failures
    # functions and objects
    cdef readonly dict functions
    cdef readonly dict serializers
    cdef public int64_t definition_bytes
    cdef readonly dict unwanted
    cdef readonly dict objects
    cdef public bint has_stored
    # results
    cdef readonly list outgoing
    cdef readonly list rows
    cdef readonly dict deliveries
    cdef int64_t budget_bytes
    cdef readonly int64_t unacknowledged_bytes
    cdef public bint is_paused
    cdef public double owing_since
    cdef public int64_t output_left_out_bytes
    cdef readonly dict large
    cdef readonly dict large_bytes
    cdef readonly dict fetching

    cdef forward(self, run, Delivery delivery)
    cdef list take_results(self)
    cdef remember(self, envelope, list deliveries, int64_t size)
    cdef count_bytes(self, int64_t size)
