from libc.stdint cimport int64_t, uint32_t, uint64_t
from scaler_scheduler.core.function_loads cimport FunctionLoad
from scaler_scheduler.core.graph cimport Graph
from scaler_scheduler.core.map_loads cimport MapLoad
from scaler_scheduler.core.priority_queues cimport QueueClass

cdef class MessageMemory:
    cdef readonly int64_t size_bytes
    cdef int64_t records

cdef class RunRecord:
    cdef readonly object run
    cdef readonly uint64_t first
    cdef readonly uint64_t stop
    cdef readonly int64_t remaining
    cdef readonly FunctionLoad function
    cdef readonly int depth
    cdef readonly int priority
    cdef readonly int retries
    cdef readonly bint rerun
    cdef readonly bint hosts_actor
    cdef readonly bint is_call
    cdef readonly int slots
    cdef readonly tuple demand
    cdef readonly QueueClass queue
    cdef readonly Graph graph
    cdef readonly bint intermediate
    cdef readonly bint has_uploads
    cdef readonly double submitted_at
    cdef bint has_moving
    cdef readonly double entered_at
    cdef readonly MapLoad map
    cdef MessageMemory memory
    cdef uint32_t session
    cdef uint32_t index

    cdef bint set_priority(self, int64_t priority) except -1
    cdef RunRecord deeper(self, uint64_t task, QueueClass queue)

cdef extend(list ranges, RunRecord record, uint64_t task)
