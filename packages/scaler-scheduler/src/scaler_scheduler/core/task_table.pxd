from libc.stdint cimport int64_t, uint32_t, uint64_t
from scaler_scheduler.core.agent_loads cimport AgentLoad
from scaler_scheduler.core.events cimport Recorder
from scaler_scheduler.core.graph cimport Graph, Node
from scaler_scheduler.core.graph_news cimport GraphNews
from scaler_scheduler.core.pages cimport PAGE_BITS, PAGE_SIZE, Page, PageBox
from scaler_scheduler.core.run_records cimport RunRecord
from scaler_scheduler.core.states cimport STATES
from scaler_scheduler.core.totals cimport Totals

cdef class TaskTable:
    cdef readonly bytes session
    cdef Totals totals
    cdef dict pages
    cdef list records
    cdef list free_records
    cdef Page* last_page
    cdef uint64_t last_number
    cdef uint64_t newest
    cdef int64_t counts[STATES]
    cdef readonly int64_t finished
    cdef readonly dict graphs
    cdef readonly GraphNews news
    cdef public bint prefers_holders
    cdef dict copies
    cdef dict moving
    cdef list doomed
    cdef bint is_dooming
    cdef Recorder events
    cdef readonly uint32_t number
    cdef uint64_t accepting

    cdef Page* make(self, uint64_t task) except NULL
    cdef drop_page(self, uint64_t number)
    cdef end(self, Page* page, uint64_t task, int status)
    cdef close(self, Page* page, uint64_t task, int status, RunRecord record)
    cdef list all_tasks(self)
    cpdef bint append(self, RunRecord record, int state) except -1
    cpdef accept(self, run, AgentLoad agent)
    cdef bint is_free(self, uint64_t first, uint64_t stop) except -1
    cdef bint decide(
        self, Page* page, int offset, int state, int status, RunRecord record, uint32_t attempt, uint32_t agent
    ) noexcept
    cdef int64_t take_moving(self, uint64_t task) except -1
    cdef bint is_with(self, Page* page, int offset, uint32_t agent) noexcept
    cdef count_large(self, RunRecord record)
    cdef void count_lost(self, RunRecord record) noexcept
    cdef GraphNews tell(self)
    cdef record_nodes(self, RunRecord record, Graph graph)
    cdef list link(self, RunRecord record, Graph graph)
    cdef park(self, RunRecord record, Graph graph)
    cdef close_graph(self, Graph graph)
    cdef close_cancelled(self, tasks)
    cdef bint accept_node(
        self, Page* page, int offset, uint64_t task, int status, uint32_t attempt, RunRecord record, AgentLoad agent,
        list special, int64_t index, run
    ) except -1
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
    cdef wish(self, Graph graph, uint64_t task)
    cdef void shift_open(self, Graph graph, uint64_t task, int change) noexcept
    cdef leave_inputs(self, Graph graph, Node* node)
    cdef drop_value(self, Graph graph, Page* page, uint64_t task)
    cdef free_copies(self, uint64_t task)
    cdef node_ended(self, RunRecord record, uint64_t task)
    cdef left_graph(self, Graph graph)
    cdef end_doomed(self)
    cdef doom(self, uint64_t task)
    cdef to_cancelling(self, Page* page, int offset, uint64_t task)
    cdef kill(self, uint64_t task, int status)
    cdef bint requeue_node(self, Page* page, int offset, uint64_t task, RunRecord record) except -1
    cdef finish_if_over(self, Graph graph)
    cdef finish_node(self, Graph graph, Page* page, uint64_t task)
    cdef discard(self, Page* page, uint64_t task)
    cdef settle_need(self, Graph graph, uint32_t index, bint release, list fatal)
    cdef settle_wait(self, Graph graph, uint32_t index, list broken)
    cdef int64_t count_queued(self, uint64_t first, uint64_t stop) except -1
    cdef forget_copies(self, uint32_t agent)
    cdef bint inputs_are_at(self, Graph graph, uint64_t task, uint32_t agent) except -1
    cdef check_graph(self, Graph graph)

    cdef inline Page* find(self, uint64_t task) except? NULL:
        cdef uint64_t number = task >> PAGE_BITS
        cdef PageBox box
        if self.last_page != NULL and number == self.last_number:
            return self.last_page
        box = <PageBox> self.pages.get(number)
        if box is None:
            return NULL
        self.last_page = box.page
        self.last_number = number
        return box.page

    cdef inline RunRecord record_at(self, Page* page, int offset):
        return <RunRecord> self.records[page.run[offset]]

    cdef inline void move(self, Page* page, int offset, int state) noexcept:
        self.counts[page.state[offset]] -= 1
        page.state[offset] = state
        self.counts[state] += 1
