from scaler_worker.core.lease cimport Lease
from scaler_worker.core.outbox cimport Outbox
from scaler_worker.core.queue cimport TaskQueue


cdef class AgentState:
    cdef readonly Outbox outbox
    # the tasks
    cdef readonly TaskQueue queue
    cdef readonly object nodes
    cdef readonly object actors
    cdef readonly dict functions
    cdef readonly dict serializers
    cdef public bint accepting
    # the results
    cdef readonly list finished
    cdef readonly object rows
    cdef readonly list given_back
    cdef readonly dict retained
    cdef public bint is_watched
    # the objects
    cdef readonly object objects
    cdef readonly object packages
    cdef readonly list freed
    cdef public object host_store
    cdef public object store_status
    # the connection
    cdef public object link
    cdef public bint welcomed
    cdef public int scheduler_minor
    cdef readonly Lease lease
    cdef readonly list unsent
    cdef public bint report_ends
    cdef public double sent_at
    cdef public double looked_at
    cdef public object acknowledge_at
    # the output of tasks
    cdef readonly dict output_sizes
    cdef public bint output_waits
    # blocked tasks
    cdef readonly object nested
    cdef public tuple lent
    # leaving
    cdef public object stop_at
    cdef public bint goodbye_due
