from libc.stdint cimport int64_t, uint32_t, uint64_t
from scaler_scheduler.core.agent_loads cimport AgentLoad
from scaler_scheduler.core.priority_queues cimport QueueClass
from scaler_scheduler.core.run_records cimport RunRecord
from scaler_scheduler.core.task_table cimport TaskTable

cdef class Reservation:
    cdef readonly double until
    cdef readonly object client
    cdef readonly TaskTable table
    cdef readonly uint64_t task
    cdef readonly int64_t raised
    cdef readonly RunRecord record
    cdef readonly int64_t estimate_us

    cdef bint is_for(self, uint32_t agent) except -1
    cdef mark(self, uint32_t agent)
    cdef end(self)

cdef reserve(AgentLoad agent, Reservation reservation)
cdef Reservation pop_reserved(AgentLoad agent, QueueClass queue)
cpdef double end_reservations(AgentLoad agent, double now) except? -1
