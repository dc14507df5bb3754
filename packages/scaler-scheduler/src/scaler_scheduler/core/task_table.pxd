from libc.stdint cimport int64_t, uint32_t, uint64_t
from scaler_scheduler.core.agent_loads cimport AgentLoad
from scaler_scheduler.core.node_table cimport NodeTable
from scaler_scheduler.core.pages cimport Page
from scaler_scheduler.core.run_records cimport RunRecord

cdef class TaskTable(NodeTable):
    cdef dict moving

    cpdef accept(self, run, AgentLoad agent)
    cdef bint decide(
        self, Page* page, int offset, int state, int status, RunRecord record, uint32_t attempt, uint32_t agent
    ) noexcept
    cdef int64_t take_moving(self, uint64_t task) except -1
    cdef bint is_with(self, Page* page, int offset, uint32_t agent) noexcept
    cdef count_large(self, RunRecord record)
    cdef bint accept_node(
        self, Page* page, int offset, uint64_t task, int status, uint32_t attempt, RunRecord record, AgentLoad agent,
        list special, int64_t index, run
    ) except -1
