from libc.stdint cimport int64_t, uint32_t, uint64_t
from scaler_scheduler.core.graph cimport Graph, Node
from scaler_scheduler.core.graph_news cimport GraphNews
from scaler_scheduler.core.pages cimport PAGE_BITS, PAGE_SIZE, Page
from scaler_scheduler.core.run_records cimport RunRecord
from scaler_scheduler.core.task_columns cimport TaskColumns

cdef enum:
    NO_TASK = 0xFFFFFFFFFFFFFFFF

cdef class NodeTable:
    cdef TaskColumns columns
    cdef readonly dict graphs
    cdef readonly GraphNews news
    cdef public bint prefers_holders
    cdef readonly bint has_large
    cdef dict copies
    cdef list to_cancel
    cdef bint is_cancelling_nodes
    cdef uint64_t accepting

    cdef end(self, Page* page, uint64_t task, int status)
    cdef int64_t values(self) noexcept
    cdef void count_lost(self, RunRecord record) noexcept
    cdef GraphNews tell(self)
    cdef record_nodes(self, RunRecord record, Graph graph)
    cdef list link(self, RunRecord record, Graph graph)
    cdef park(self, RunRecord record, Graph graph)
    cdef close_graph(self, Graph graph)
    cdef close_cancelled(self, tasks)
    cdef note_size(self, Graph graph, uint64_t task, run, int64_t index)
    cdef bint is_stray(self, Page* page, int offset, uint32_t agent) except -1
    cdef refuse_value(self, Page* page, int offset, uint64_t task, uint32_t attempt, uint32_t agent)
    cdef node_done(self, Page* page, uint64_t task, RunRecord record, uint32_t attempt, uint32_t agent, int status)
    cdef void count_done(self, RunRecord record, int status) noexcept
    cdef void deliver(self, RunRecord record, Graph graph, Node* node) noexcept
    cdef deliver_large(self, Page* page, int offset, uint64_t task)
    cdef wake_dependants(self, Graph graph, Node* node, bint was_open)
    cdef wake(self, Graph graph, uint64_t task)
    cdef to_queued(self, Page* page, int offset, uint64_t task)
    cdef prefer_holder(self, Graph graph, uint64_t task)
    cdef void shift_open(self, Graph graph, uint64_t task, int change) noexcept
    cdef leave_inputs(self, Graph graph, Node* node)
    cdef drop_value(self, Graph graph, Page* page, uint64_t task)
    cdef free_copies(self, uint64_t task)
    cdef node_ended(self, RunRecord record, uint64_t task)
    cdef left_graph(self, Graph graph)
    cdef cancel_dependants(self)
    cdef cancel_node(self, Graph graph, uint64_t task)
    cdef int node_state(self, Graph graph, uint64_t task) except -1
    cdef to_cancelling(self, Page* page, int offset, uint64_t task)
    cdef break_off(self, list tasks)
    cdef kill(self, uint64_t task, int status)
    cdef bint requeue_node(self, Page* page, int offset, uint64_t task, RunRecord record) except -1
    cdef finish_if_over(self, Graph graph)
    cdef finish_node(self, Graph graph, uint64_t task)
    cdef discard(self, Page* page, uint64_t task)
    cdef settle_need(self, Graph graph, uint32_t index, list fatal)
    cdef settle_wait(self, Graph graph, uint32_t index, list broken)
    cdef lose_stored(self, Page* page, int offset)
    cdef to_pending_again(self, Page* page, int offset)
    cdef bint take_copy(self, Page* page, int offset, uint64_t task) except -1
    cdef forget_copies(self, uint32_t agent)
    cdef bint inputs_are_at(self, Graph graph, uint64_t task, uint32_t agent) except -1
    cdef amend_graph(self, Graph graph)
    cdef check_graph(self, Graph graph)
