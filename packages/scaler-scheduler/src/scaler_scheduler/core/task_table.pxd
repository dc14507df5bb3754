from libc.stdint cimport int64_t, uint32_t, uint64_t
from scaler_scheduler.core.agent_loads cimport AgentLoad
from scaler_scheduler.core.node_table cimport NodeTable
from scaler_scheduler.core.census cimport Census
from scaler_scheduler.core.pages cimport Page, PageBox
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
    cdef int64_t recount_page(self, PageBox box, Census census, int64_t* seen, int64_t* left) except -1
    cdef recount_assigned(self, PageBox box, int start, int stop, RunRecord record, Census census)
    cdef amend_records(self, int64_t* left, bint corrects, list wrong)
    cdef amend_graphs(self, bint corrects, list wrong)
    cdef bint is_given(self, uint64_t task) except -1
    cdef bint accept_node(
        self, Page* page, int offset, uint64_t task, int status, uint32_t attempt, RunRecord record, AgentLoad agent,
        list special, int64_t index, run
    ) except -1
