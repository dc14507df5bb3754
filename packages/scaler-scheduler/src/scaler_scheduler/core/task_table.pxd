from libc.stdint cimport int64_t, uint32_t, uint64_t
from scaler_scheduler.core.accepted_results cimport AcceptedResults
from scaler_scheduler.core.agent_loads cimport AgentLoad
from scaler_scheduler.core.node_table cimport NodeTable
from scaler_scheduler.core.census cimport Census
from scaler_scheduler.core.pages cimport Page, PageBox
from scaler_scheduler.core.run_records cimport RunRecord
from scaler_scheduler.core.task_columns cimport TaskColumns

cdef class LostTasks:
    cdef uint32_t agent
    cdef bint has_left
    cdef int losses_limit
    cdef int status
    cdef list ranges
    cdef list died
    cdef list cancelled
    cdef list fatal
    cdef dict graphs

    cdef int event(self, Page* page, int offset, RunRecord record) noexcept

cdef class CancelledTasks:
    cdef list ended
    cdef dict told
    cdef dict freed

    cdef tell(self, uint32_t agent, uint64_t task, uint32_t attempt)

cdef class TaskTable:
    cdef readonly TaskColumns columns
    cdef readonly NodeTable nodes
    cdef dict moving

    cdef void outnumber(self, Page* page, int offset, uint32_t claimed) noexcept
    cpdef accept(self, run, AgentLoad agent)
    cdef leave_out(
        self, AcceptedResults results, int64_t row, Page* page, uint64_t task, int status, uint32_t attempt, int action
    )
    cdef accept_unusual(
        self, AcceptedResults results, int64_t row, Page* page, uint64_t task, int status, uint32_t attempt,
        RunRecord record
    )
    cdef to_deciding(self, Page* page, int offset, uint32_t attempt)
    cdef accept_node(
        self, AcceptedResults results, int64_t row, Page* page, uint64_t task, int status, uint32_t attempt,
        RunRecord record
    )
    cdef end_cancelled_node(
        self, AcceptedResults results, int64_t row, Page* page, uint64_t task, int status, uint32_t attempt
    )
    cdef bint accept_value(
        self, AcceptedResults results, int64_t row, Page* page, uint64_t task, int status, uint32_t attempt,
        RunRecord record, bint is_wanted
    ) except -1
    cdef tuple end_agent(self, LostTasks lost)
    cdef lose_page(self, PageBox box, LostTasks lost)
    cdef lose_task(self, Page* page, uint64_t task, LostTasks lost)
    cdef cancel_task(self, Page* page, uint64_t task, CancelledTasks cancelled)
    cdef int64_t take_moving(self, uint64_t task) except -1
    cdef bint is_with(self, Page* page, int offset, uint32_t agent) noexcept
    cdef int64_t recount_page(self, PageBox box, Census census, int64_t* seen, int64_t* left) except -1
    cdef recount_assigned(self, PageBox box, int start, int stop, RunRecord record, Census census)
    cdef compare_records(self, int64_t* left, Census census)
    cdef compare_graphs(self, Census census)
    cdef compare_copies(self, Census census)
    cdef bint is_given(self, uint64_t task) except -1
