# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The nodes of a client's graphs in the table of its tasks. See node_table.pyi for the contract, states.py for the
rules."""

from cython cimport final
from libc.stdint cimport int64_t, uint32_t, uint64_t
from scaler_scheduler.core.graph cimport Graph, Node
from scaler_scheduler.core.graph_news cimport GraphNews
from scaler_scheduler.core.pages cimport NO_AGENT, PAGE_BITS, PAGE_SIZE, Page, PageBox, plausible
from scaler_scheduler.core.run_records cimport RunRecord, extend
from scaler_scheduler.core.states cimport (
    ASSIGNED,
    CANCELLED,
    CANCELLING,
    DECIDING,
    DO_CANCEL_AT_AGENT,
    DO_FREE_AT_AGENT,
    DO_GIVE_UP,
    DO_NOTHING,
    DO_TELL_CANCELLED,
    DO_WAIT,
    DONE_LARGE,
    ENDED,
    FREED,
    HELD,
    OBJECT_MISSING,
    ON_DROPPED,
    ON_GRAPH_OVER,
    ON_INPUT_LOST,
    ON_INPUTS_ARRIVED,
    ON_READY,
    ON_VALUE_LOST,
    ON_VALUE_LOST_FINALLY,
    ON_VALUE_NEEDED,
    ON_VALUE_UNNEEDED,
    PENDING,
    QUEUED,
    STORED,
    SUCCESS_LARGE,
    WAITING,
    WORKER_DIED,
)
from scaler_scheduler.core.task_columns cimport TaskColumns
from scaler_scheduler.core.transitions cimport OF_NODES, OF_TASKS, TRANSITIONS

cdef enum:
    GRAPH_RECORDED_NODES = 10000


cdef inline int node_action(int event, int state) noexcept:
    return TRANSITIONS[OF_NODES][event][state].action


cdef inline int next_state(int event, int state) noexcept:
    return TRANSITIONS[OF_NODES][event][state].state


cdef inline bint changes(int event, int state) noexcept:
    """Return whether an event changes the state of a node."""
    return TRANSITIONS[OF_NODES][event][state].state != state


cdef inline bint is_unfinished(int state) noexcept:
    """Return whether a node with this state still needs its inputs."""
    return state != ENDED and state != STORED and state != DONE_LARGE and state != FREED


@final
cdef class NodeTable:
    def __init__(self, TaskColumns columns):
        self.columns = columns
        self.accepting = NO_TASK
        self.graphs = {}
        self.copies = {}
        self.to_cancel = []

    cdef end(self, Page* page, uint64_t task, int status):
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef RunRecord record = self.columns.record_at(page, offset)
        cdef bint is_known = page.state[offset] == DONE_LARGE and status <= SUCCESS_LARGE
        if self.columns.events.is_on and task != self.accepting and not is_known:
            self.columns.events.ended(
                self.columns.number, task, page.attempt[offset], status, record.function.named(self.columns.events)
            )
        self.columns.close(page, task, status, record)
        if record.graph is not None:
            record.graph.failed += status > SUCCESS_LARGE and status != CANCELLED
            self.node_ended(record, task)

    cdef void count_lost(self, RunRecord record) noexcept:
        """A large result is lost: monitors have been told of a success."""
        self.columns.totals.outcomes[SUCCESS_LARGE] += 1
        record.function.outcomes[SUCCESS_LARGE] += 1

    cdef GraphNews tell(self):
        if self.news is None:
            self.news = GraphNews()
        return self.news

    def take_news(self):
        """The changes of nodes since the last call, or None; ``ready`` as [record, first, stop]."""
        cdef GraphNews news = self.news
        cdef RunRecord record
        cdef list ranges = []
        cdef Page* page
        cdef int offset
        if news is None:
            return None
        self.news = None
        news.ready.sort()
        for task in news.ready:
            page = self.columns.find(task)
            offset = task & (PAGE_SIZE - 1)
            if page != NULL and page.state[offset] == QUEUED:
                record = self.columns.record_at(page, offset)
                record.queue.count -= 1  # counted when it is pushed
                extend(ranges, record, task)
        news.ready = ranges
        return news

    def append_graph(self, RunRecord record, int state):
        """Like ``append``, for nodes: those that miss inputs are PENDING instead of QUEUED, and those whose inputs are
        unavailable end. What may be queued, and what ended, is in the news. False: the run cannot be part of its
        graph."""
        cdef uint32_t low = record.run.options.graph
        cdef uint64_t last = record.first + <uint32_t> (low - <uint32_t> record.first)
        cdef Graph graph = self.graphs.get(last)
        cdef int64_t before
        cdef list broken
        if graph is None:
            graph = Graph(record.first, last)
        if not graph.admits(record.first, record.stop):
            return False
        if record.first < self.columns.next_task:
            return False
        before = 0 if graph.count == 0 else graph.size_bytes
        graph.make_blocks(<uint32_t> (record.first - graph.base), <uint32_t> (record.stop - graph.base))
        self.columns.append(record, state)
        self.graphs[last] = graph
        graph.extend(record.first, record.stop)
        record.graph = graph
        graph.grows = record.run.options.grows
        graph.has_once = graph.has_once or not record.rerun
        graph.live += record.stop - record.first
        if not record.intermediate:
            graph.targets += record.stop - record.first
        broken = self.link(record, graph)
        self.columns.graph_bytes += graph.size_bytes - before
        if self.columns.events.is_on:
            self.record_nodes(record, graph)
        if state == QUEUED:
            self.park(record, graph)
        else:
            graph.is_held = True
        self.break_off(broken)
        if record.stop == graph.last + 1:
            self.close_graph(graph)
        if graph.lacks_values:
            self.settle(graph)
        else:
            self.finish_if_over(graph)
        return True

    cdef record_nodes(self, RunRecord record, Graph graph):
        """The numbers of a graph that grows are reserved far ahead: it is as large as the nodes that it has."""
        cdef object edges = b""
        cdef uint64_t size = graph.count - graph.absent if graph.grows else graph.last - graph.base + 1
        if size > GRAPH_RECORDED_NODES:
            edges = None
        elif record.run.has_references:
            edges = record.run.inputs()
        self.columns.events.nodes(
            self.columns.number, record.function.named(self.columns.events), record.first, record.stop, graph.last, edges
        )

    cdef int node_state(self, Graph graph, uint64_t task) except -1:
        """The state of a task, if it is a node of this graph; ENDED: it is not, or has ended."""
        cdef Page* page
        cdef int offset = task & (PAGE_SIZE - 1)
        if not graph.has(task):
            return ENDED
        page = self.columns.find(task)
        if page == NULL or page.state[offset] == ENDED or self.columns.record_at(page, offset).graph is not graph:
            return ENDED
        return page.state[offset]

    cdef list link(self, RunRecord record, Graph graph):
        """Enter the edges of a run that has just been appended."""
        cdef const uint64_t[::1] pairs
        cdef list broken = []
        cdef int64_t at
        cdef uint64_t task, source
        cdef Node* node
        cdef int state
        if not record.run.has_references:
            return broken
        pairs = record.run.inputs()
        for at in range(0, pairs.shape[0], 2):
            task = pairs[at]
            source = pairs[at + 1]
            state = self.node_state(graph, source) if source < task else ENDED
            if state == ENDED or state == CANCELLING:
                if not broken or broken[len(broken) - 1] != task:
                    broken.append(task)
                continue
            graph.add_edge(source - graph.base, task - graph.base)
            graph.at(source - graph.base).uses += 1
            node = graph.at(task - graph.base)
            if state == FREED:  # lost, or freed since no more nodes were expected: it is made again
                graph.lacks_values = True
            if state != STORED and state != DONE_LARGE:
                node.pending += 1
                if state != ASSIGNED:
                    node.open += 1
        return broken

    cdef park(self, RunRecord record, Graph graph):
        """Nodes just entered as QUEUED wait if inputs are missing."""
        cdef uint64_t task
        cdef Page* page
        for task in range(record.first, record.stop):
            if graph.at(task - graph.base).pending:
                page = self.columns.find(task)
                self.columns.move(page, task & (PAGE_SIZE - 1), PENDING)
            else:
                graph.note_ready(graph.at(task - graph.base), self.columns.events.now)
                record.queue.count += 1
                self.tell().ready.append(task)

    cdef close_graph(self, Graph graph):
        """No more nodes come: values that no node or client needs may go."""
        if graph.is_closed:
            return
        graph.is_closed = True
        if graph.must_sweep:
            self.settle(graph)
        else:
            self.finish_if_over(graph)

    cdef close_cancelled(self, tasks):
        """A client that cancels the last node of a graph, or everything, may not have sent, and will not send, it."""
        cdef Graph graph
        for graph in list(self.graphs.values()):
            if not graph.is_closed and (tasks is None or graph.last in tasks):
                self.close_graph(graph)

    def end_holds(self, bint of_once):
        """See node_table.pyi."""
        cdef Graph graph
        for graph in list(self.graphs.values()):
            if graph.is_held and graph.has_once == of_once:
                graph.is_held = False
                graph.is_closed = True
                self.settle(graph)

    def held_once(self):
        """See node_table.pyi."""
        cdef Graph graph
        cdef list found = []
        cdef uint32_t index
        for graph in self.graphs.values():
            index = graph.next_present(0) if graph.has_once else graph.count
            while index < graph.count:
                task = graph.base + index
                if self.node_state(graph, task) == HELD and not self.columns.record(task).rerun:
                    found.append(task)
                index = graph.next_present(index + 1)
        return found

    def note_started(self, uint64_t task):
        """See node_table.pyi."""
        cdef RunRecord record = self.columns.record(task)
        record.graph.at(task - record.graph.base).started = 1

    cdef note_size(self, Graph graph, uint64_t task, run, int64_t index):
        """Return how large a value is: row ``index`` of ``run`` says it, -1: small."""
        cdef uint32_t kib = 0
        if index >= 0:
            graph.has_large = self.has_large = True
            kib = <uint32_t> min(0xFFFFFFFF, (int.from_bytes(run.payload(index)[:8], "little") + 1023) // 1024)
        graph.at(task - graph.base).kib = kib

    cdef bint is_stray(self, Page* page, int offset, uint32_t agent) except -1:
        """Return whether a large result that does not count is of no use at its agent, and no other of that task is
        there."""
        return page.agent[offset] != agent and self.columns.record_at(page, offset).graph is None

    cdef refuse_value(self, Page* page, int offset, uint64_t task, uint32_t attempt, uint32_t agent):
        """An agent has finished an attempt that does not count: it need not keep the value."""
        if page == NULL or page.state[offset] == ENDED or self.columns.record_at(page, offset).graph is None:
            return
        if page.agent[offset] == agent and page.attempt[offset] == attempt and (
                page.state[offset] == STORED or page.state[offset] == DONE_LARGE):
            return
        self.tell().tell(agent, task, attempt)

    cdef node_done(self, Page* page, uint64_t task, RunRecord record, uint32_t attempt, uint32_t agent, int status):
        """Its value is at an agent, for its dependants and, when large, for the client."""
        cdef Graph graph = record.graph
        cdef Node* node = graph.at(task - graph.base)
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef bint was_held = page.state[offset] == HELD
        page.attempt[offset] = plausible(attempt)
        page.agent[offset] = agent
        if status == SUCCESS_LARGE and not record.intermediate and not node.delivered:
            self.columns.move(page, offset, DONE_LARGE)
        else:
            self.columns.move(page, offset, STORED)
            self.count_done(record, status)
            self.deliver(record, graph, node)
        self.wake_dependants(graph, node, was_held)
        self.leave_inputs(graph, node)
        if node.uses == 0:
            self.drop_value(graph, self.columns.find(task), task)
        self.finish_if_over(graph)

    cdef void count_done(self, RunRecord record, int status) noexcept:
        self.columns.finished += 1
        self.columns.totals.outcomes[status & 15] += 1
        record.function.unfinished -= 1
        record.function.outcomes[status & 15] += 1

    cdef void deliver(self, RunRecord record, Graph graph, Node* node) noexcept:
        if not record.intermediate and not node.delivered:
            node.delivered = 1
            graph.targets -= 1

    cdef deliver_large(self, Page* page, int offset, uint64_t task):
        """The client needs a large result no more; others may."""
        cdef RunRecord record = self.columns.record_at(page, offset)
        cdef Graph graph = record.graph
        cdef Node* node = graph.at(task - graph.base)
        self.columns.move(page, offset, STORED)
        self.count_done(record, SUCCESS_LARGE)
        self.deliver(record, graph, node)
        node.released = 1
        self.tell().delivered.append(task)
        if node.uses == 0:
            self.drop_value(graph, page, task)
        self.finish_if_over(graph)

    cdef wake_dependants(self, Graph graph, Node* node, bint was_open):
        cdef uint32_t at = node.head
        cdef Node* dependant
        while at:
            dependant = graph.at(graph.edges[at - 1].dependant)
            dependant.pending -= 1
            if was_open:
                dependant.open -= 1
            if dependant.pending == 0:
                graph.note_ready(dependant, self.columns.events.now)
                self.wake(graph, graph.base + graph.edges[at - 1].dependant)
            at = graph.edges[at - 1].next

    cdef wake(self, Graph graph, uint64_t task):
        cdef Page* page = self.columns.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        if page == NULL or not changes(ON_INPUTS_ARRIVED, page.state[offset]):
            return
        if self.columns.record_at(page, offset).graph is not graph:
            return
        self.to_queued(page, offset, task)
        if self.prefers_holders:
            self.prefer_holder(graph, task)

    cdef to_queued(self, Page* page, int offset, uint64_t task):
        cdef RunRecord record = self.columns.record_at(page, offset)
        self.columns.move(page, offset, QUEUED)
        record.queue.count += 1
        self.tell().ready.append(task)

    cdef prefer_holder(self, Graph graph, uint64_t task):
        """The agent that holds most bytes of the inputs of a ready node, or most of small ones, may have it first."""
        cdef Node* node = graph.at(task - graph.base)
        cdef dict held = {}
        cdef Page* page
        cdef uint32_t at, agent
        cdef uint64_t source
        for at in range(node.first_input, node.first_input + node.inputs):
            source = graph.base + graph.edges[at].input
            page = self.columns.find(source)
            if page == NULL:
                continue
            agent = page.agent[source & (PAGE_SIZE - 1)]
            held[agent] = held.get(agent, 0) + 1 + (<int64_t> graph.at(graph.edges[at].input).kib << 10)
        if held:
            best = max(held, key=held.get)
            self.tell().preferences.setdefault(best, []).append(task)

    cdef void shift_open(self, Graph graph, uint64_t task, int change) noexcept:
        cdef uint32_t at = graph.at(task - graph.base).head
        while at:
            graph.at(graph.edges[at - 1].dependant).open += change
            at = graph.edges[at - 1].next

    cdef leave_inputs(self, Graph graph, Node* node):
        """It needs its inputs no more."""
        cdef uint32_t at, source
        for at in range(node.first_input, node.first_input + node.inputs):
            source = graph.edges[at].input
            graph.at(source).uses -= 1
            if graph.at(source).uses == 0:
                self.drop_value(graph, self.columns.find(graph.base + source), graph.base + source)

    cdef drop_value(self, Graph graph, Page* page, uint64_t task):
        """No dependant needs its value: the agents that have it are told, once no more dependants can come. To a graph
        that grows they may come until the client has released the result."""
        cdef int offset = task & (PAGE_SIZE - 1)
        if page == NULL or node_action(ON_VALUE_UNNEEDED, page.state[offset]) != DO_FREE_AT_AGENT:
            return
        if not graph.is_closed and not (graph.grows and graph.at(task - graph.base).released):
            graph.must_sweep = True
            return
        if graph.has_once and not graph.is_finishing and not self.columns.record_at(page, offset).rerun:
            return  # the agent that has the value is the only one to know that the node has run
        self.tell().tell(page.agent[offset], task, page.attempt[offset])
        self.free_copies(task)
        self.columns.move(page, offset, FREED)
        page.agent[offset] = NO_AGENT

    cdef free_copies(self, uint64_t task):
        for agent in self.copies.pop(task, ()) if self.copies else ():
            self.tell().tell(agent, task, 0)

    cdef node_ended(self, RunRecord record, uint64_t task):
        """It ended without a value: so do all that need it."""
        cdef Graph graph = record.graph
        cdef Node* node = graph.at(task - graph.base)
        cdef uint32_t at = node.head
        self.free_copies(task)
        self.deliver(record, graph, node)
        self.leave_inputs(graph, node)
        while at:
            self.to_cancel.append((graph, graph.base + graph.edges[at - 1].dependant))
            at = graph.edges[at - 1].next
        self.left_graph(graph)
        if not self.is_cancelling_nodes:
            self.cancel_dependants()
        self.finish_if_over(graph)

    cdef left_graph(self, Graph graph):
        graph.live -= 1
        if graph.live == 0 and self.graphs.pop(graph.last, None) is graph:
            self.columns.graph_bytes -= graph.size_bytes

    cdef cancel_dependants(self):
        self.is_cancelling_nodes = True
        try:
            while self.to_cancel:
                graph, task = self.to_cancel.pop()
                self.cancel_node(graph, task)
        finally:
            self.is_cancelling_nodes = False

    cdef cancel_node(self, Graph graph, uint64_t task):
        """A node that cannot have its inputs, or that is not needed, ends."""
        cdef int state = self.node_state(graph, task)
        cdef int action = node_action(ON_DROPPED, state)
        cdef Page* page = self.columns.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef RunRecord record
        cdef uint32_t at
        if action == DO_CANCEL_AT_AGENT:
            self.tell().tell(page.agent[offset], task, page.attempt[offset])
            self.tell().cascaded.append(task)
            self.to_cancelling(page, offset, task)
            at = graph.at(task - graph.base).head
            while at:
                self.to_cancel.append((graph, graph.base + graph.edges[at - 1].dependant))
                at = graph.edges[at - 1].next
        elif action == DO_TELL_CANCELLED:
            record = self.columns.record_at(page, offset)
            if state == QUEUED:
                record.queue.count -= 1
            if not record.intermediate:
                self.tell().ended.append(task)
            self.end(page, task, CANCELLED)

    cdef to_cancelling(self, Page* page, int offset, uint64_t task):
        cdef RunRecord record = self.columns.record_at(page, offset)
        self.columns.move(page, offset, CANCELLING)
        if record.graph is not None:
            self.shift_open(record.graph, task, 1)

    cdef kill(self, uint64_t task, int status):
        """An unfinished node ends with ``status``, which is in the news."""
        cdef RunRecord record
        cdef Page* page = self.columns.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        if page == NULL or page.state[offset] == ENDED or page.state[offset] == FREED:
            return
        record = self.columns.record_at(page, offset)
        if page.state[offset] == QUEUED:
            record.queue.count -= 1
        self.tell().died.append((task, status))
        self.end(page, task, status)

    cdef break_off(self, list tasks):
        """Nodes whose inputs cannot be had end."""
        for task in tasks:
            self.kill(task, OBJECT_MISSING)

    cdef bint requeue_node(self, Page* page, int offset, uint64_t task, RunRecord record) except -1:
        """True: it may be queued. Otherwise it waits for its inputs, or ends because one of them ended."""
        cdef Graph graph = record.graph
        cdef Node* node = graph.at(task - graph.base)
        cdef uint32_t at
        if page.state[offset] == ASSIGNED:
            self.shift_open(graph, task, 1)
        if not node.pending:
            return True
        self.to_pending_again(page, offset)
        for at in range(node.first_input, node.first_input + node.inputs):
            if self.node_state(graph, graph.base + graph.edges[at].input) == ENDED:
                self.cancel_node(graph, task)
                break
        return False

    cdef finish_if_over(self, Graph graph):
        """All results for the client have reached it, or never will: nothing of the graph is needed any more."""
        cdef uint32_t index
        if graph.targets or not graph.is_closed or graph.is_finishing or graph.live == 0:
            return
        graph.is_finishing = True
        try:
            index = graph.next_present(0)
            while index < graph.count:
                self.finish_node(graph, graph.base + index)
                index = graph.next_present(index + 1)
        finally:
            graph.is_finishing = False

    cdef finish_node(self, Graph graph, uint64_t task):
        if node_action(ON_VALUE_UNNEEDED, self.node_state(graph, task)) == DO_FREE_AT_AGENT:
            self.drop_value(graph, self.columns.find(task), task)
        if changes(ON_GRAPH_OVER, self.node_state(graph, task)):
            self.discard(self.columns.find(task), task)
        else:
            self.cancel_node(graph, task)

    cdef discard(self, Page* page, uint64_t task):
        """A node whose value was made and is not needed leaves the table."""
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef RunRecord record = self.columns.record_at(page, offset)
        self.free_copies(task)
        if record.graph.has_large and not record.intermediate:
            self.tell().delivered.append(task)
        self.columns.move(page, offset, ENDED)
        page.live -= 1
        self.columns.totals.unfinished -= 1
        record.remaining -= 1
        if record.remaining == 0:
            self.columns.forget(record)
        if page.live == 0 and (task >> PAGE_BITS) != self.columns.newest:
            self.columns.drop_page(task >> PAGE_BITS)
        self.left_graph(record.graph)

    def settle(self, Graph graph):
        """Recount a graph from its states: values that are needed and nowhere are made again, and nodes that
        are not needed do not run. Nodes that are HELD stay so while the graph is held."""
        cdef list fatal = [], broken = []
        cdef uint32_t index
        cdef Node* node
        graph.must_sweep = graph.lacks_values = False
        index = graph.next_present(0)
        while index < graph.count:
            node = graph.at(index)
            node.pending = node.open = node.uses = 0
            index = graph.next_present(index + 1)
        index = graph.present_before(graph.count)
        while index < graph.count:
            self.settle_need(graph, index, fatal)
            index = graph.present_before(index)
        index = graph.next_present(0)
        while index < graph.count:
            self.settle_wait(graph, index, broken)
            index = graph.next_present(index + 1)
        for task in fatal:
            self.kill(task, WORKER_DIED)
        for task in broken:
            self.cancel_node(graph, task)
        self.finish_if_over(graph)

    cdef settle_need(self, Graph graph, uint32_t index, list fatal):
        """Later nodes have been settled: decide whether this one must run, and whether its value is needed."""
        cdef uint64_t task = graph.base + index
        cdef Node* node = graph.at(index)
        cdef int state = self.node_state(graph, task)
        cdef Page* page = self.columns.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef RunRecord record
        cdef bint needed
        cdef uint32_t at
        if state == ENDED or state == DONE_LARGE:
            return
        if state == STORED:
            if node.uses == 0:
                self.drop_value(graph, page, task)
            return
        record = self.columns.record_at(page, offset)
        needed = node.uses > 0 or not (record.intermediate or node.delivered)
        if changes(ON_VALUE_NEEDED, state):
            if not needed:
                return
            self.columns.move(page, offset, next_state(ON_VALUE_NEEDED, state))
            self.columns.raise_attempt(page, offset)
            record.function.unfinished += 1
            if not record.rerun:
                fatal.append(task)
        elif state == PENDING or state == QUEUED or (state == HELD and not graph.is_held):
            needed = needed or not graph.is_closed
            if state == QUEUED and not needed:
                record.queue.count -= 1
            if not needed:
                record.function.unfinished -= 1
                self.columns.move(page, offset, next_state(ON_VALUE_UNNEEDED, state))
                return
            if state == HELD and node.started:
                fatal.append(task)
            elif state == HELD:
                self.columns.move(page, offset, next_state(ON_READY, state))
        for at in range(node.first_input, node.first_input + node.inputs):
            graph.at(graph.edges[at].input).uses += 1

    cdef settle_wait(self, Graph graph, uint32_t index, list broken):
        """Count what an unfinished node waits for."""
        cdef RunRecord record
        cdef uint64_t task = graph.base + index
        cdef Node* node = graph.at(index)
        cdef int state = self.node_state(graph, task)
        cdef Page* page = self.columns.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef int there
        cdef uint32_t at
        if state == ENDED or state == STORED or state == DONE_LARGE or state == FREED:
            return
        for at in range(node.first_input, node.first_input + node.inputs):
            there = self.node_state(graph, graph.base + graph.edges[at].input)
            if there != STORED and there != DONE_LARGE:
                node.pending += 1
                if there != ASSIGNED:
                    node.open += 1
            if there == ENDED and (state == PENDING or state == QUEUED or state == HELD):
                broken.append(task)
        if state == PENDING and node.pending == 0:
            graph.note_ready(node, self.columns.events.now)
            self.to_queued(page, offset, task)
        elif state == QUEUED and node.pending:
            record = self.columns.record_at(page, offset)
            record.queue.count -= 1
            self.columns.move(page, offset, next_state(ON_INPUT_LOST, state))

    def count_nodes(self, Graph graph):
        """Return how many nodes there are, and how many wait for inputs, are ready, run, are done, failed or were
        cancelled, and were cancelled."""
        cdef int64_t waiting = 0, ready = 0, running = 0, done = 0, failed = 0, nodes = 0
        cdef uint32_t index = graph.next_present(0)
        cdef int state
        while index < graph.count:
            nodes += 1
            state = self.node_state(graph, graph.base + index)
            index = graph.next_present(index + 1)
            if state == STORED or state == FREED or state == DONE_LARGE:
                done += 1
            elif state == ASSIGNED or state == CANCELLING:
                running += 1
            elif state == QUEUED:
                ready += 1
            elif state == ENDED:
                failed += 1
            else:
                waiting += 1
        return nodes, waiting, ready, running, done, failed, max(0, failed - graph.failed)

    def value_holder(self, uint64_t task):
        """The agent that has the value of a node, or None."""
        cdef Page* page = self.columns.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        if page == NULL or (page.state[offset] != STORED and page.state[offset] != DONE_LARGE):
            return None
        return page.agent[offset]

    def note_copy(self, uint64_t task, uint32_t agent):
        """Another agent asked for the value: it, too, is notified when the value is not needed any more."""
        agents = self.copies.setdefault(task, [])
        if agent not in agents:
            agents.append(agent)

    def copies_of(self, uint64_t task):
        """The agents that have asked for the value, and may have it by now."""
        return tuple(self.copies.get(task, ()))

    cdef int64_t values(self) noexcept:
        return self.columns.counts[STORED] + self.columns.counts[DONE_LARGE]

    def values_at(self, uint32_t agent):
        """See node_table.pyi."""
        cdef list found = []
        cdef int64_t left = self.values()
        cdef Page* page
        cdef int offset
        for number, box in self.columns.pages.items() if left else ():
            page = (<PageBox> box).page
            for offset in range(PAGE_SIZE):
                if page.state[offset] == STORED or page.state[offset] == DONE_LARGE:
                    left -= 1
                    if page.agent[offset] == agent:
                        found.append((<uint64_t> number << PAGE_BITS) + offset)
            if not left:
                break
        found.sort()
        return found

    def large_values(self, Graph graph, int limit, int readers_limit):
        cdef list found = [], readers
        cdef uint32_t index, at
        cdef uint64_t reader
        cdef int64_t count
        cdef Page* page
        cdef int state
        index = graph.next_present(0)
        while index < graph.count and len(found) < limit:
            state = self.node_state(graph, graph.base + index)
            if graph.at(index).kib and (state == STORED or state == DONE_LARGE):
                page = self.columns.find(graph.base + index)
                readers, count, at = [], 0, graph.at(index).head
                while at:
                    reader = graph.base + graph.edges[at - 1].dependant
                    if is_unfinished(self.node_state(graph, reader)):
                        count += 1
                        if len(readers) < readers_limit:
                            readers.append(reader)
                    at = graph.edges[at - 1].next
                found.append((
                    graph.base + index, 1024 * <int64_t> graph.at(index).kib,
                    page.agent[(graph.base + index) & (PAGE_SIZE - 1)], count, sorted(readers),
                ))
            index = graph.next_present(index + 1)
        return found

    def count_values(self, int64_t[::1] counts):
        """See node_table.pyi."""
        cdef int64_t left = self.values()
        cdef Page* page
        cdef int offset
        for box in self.columns.pages.values() if left else ():
            page = (<PageBox> box).page
            for offset in range(PAGE_SIZE):
                if page.state[offset] == STORED or page.state[offset] == DONE_LARGE:
                    left -= 1
                    if page.agent[offset] < counts.shape[0]:
                        counts[page.agent[offset]] += 1
            if not left:
                break

    def move_value(self, uint64_t task, uint32_t source, uint32_t target):
        """Another agent has the value, too, and is asked for it from now on. Returns whether the first one had it."""
        if self.value_holder(task) != source:
            return False
        self.columns.find(task).agent[task & (PAGE_SIZE - 1)] = target
        others = [each for each in self.copies.get(task, ()) if each != target and each != source]
        self.copies[task] = [*others, source]
        return True

    cdef bint take_copy(self, Page* page, int offset, uint64_t task) except -1:
        """The agent that had the value does not have it any more. Another agent that has asked for it since is asked
        from now on. False: there is none."""
        cdef list agents = self.copies.get(task) if self.copies else None
        if not agents:
            return False
        page.agent[offset] = agents[0]
        self.forget_copy(task, agents[0])
        return True

    def forget_copy(self, uint64_t task, uint32_t agent):
        """This agent has asked for the value, and does not have it."""
        agents = [each for each in self.copies.get(task, ()) if each != agent]
        if agents:
            self.copies[task] = agents
        else:
            self.copies.pop(task, None)

    def forget_copies_of(self, uint64_t task):
        """The caller tells the agents that asked for the value."""
        self.copies.pop(task, None)

    cdef forget_copies(self, uint32_t agent):
        for task in list(self.copies):
            self.forget_copy(task, agent)

    def lose_value(self, uint64_t task, uint32_t agent, int losses_limit):
        """The agent that should have a value does not have it: another agent is asked for it, or it is made again if it
        is needed. Returns an ``Action``: REQUEUE, the caller queues the task; WAIT, the task runs when it can; GIVE_UP, it must not run again or has been
        lost too often; NOTHING, the client has no part in it."""
        cdef Page* page = self.columns.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef RunRecord record
        cdef int event, action
        if self.value_holder(task) != agent or self.take_copy(page, offset, task):
            return DO_NOTHING
        if page.state[offset] == STORED:
            self.lose_stored(page, offset)
            self.settle(self.columns.record_at(page, offset).graph)
            return DO_NOTHING
        record = self.columns.record_at(page, offset)
        page.losses[offset] += 1
        event = ON_VALUE_LOST if record.rerun and page.losses[offset] < losses_limit else ON_VALUE_LOST_FINALLY
        action = TRANSITIONS[OF_TASKS if record.graph is None else OF_NODES][event][DONE_LARGE].action
        self.count_lost(record)
        if action == DO_WAIT:
            self.to_pending_again(page, offset)
            self.settle(record.graph)
        return action

    cdef lose_stored(self, Page* page, int offset):
        """The value of a node is nowhere now; settling its graph decides whether it is made again."""
        self.columns.move(page, offset, FREED)
        page.agent[offset] = NO_AGENT

    cdef to_pending_again(self, Page* page, int offset):
        """A task is with no agent now. If it is a node, settling its graph decides whether it may be queued."""
        self.columns.move(page, offset, PENDING)
        self.columns.raise_attempt(page, offset)
        page.agent[offset] = NO_AGENT

    cdef bint inputs_are_at(self, Graph graph, uint64_t task, uint32_t agent) except -1:
        """Return whether all that a node still waits for is at work at one agent."""
        cdef Node* node = graph.at(task - graph.base)
        cdef uint32_t at
        cdef uint64_t source
        cdef Page* page
        cdef int offset, state
        for at in range(node.first_input, node.first_input + node.inputs):
            source = graph.base + graph.edges[at].input
            page = self.columns.find(source)
            offset = source & (PAGE_SIZE - 1)
            state = self.node_state(graph, source)
            if state != STORED and state != DONE_LARGE and (state != ASSIGNED or page.agent[offset] != agent):
                return False
        return True

    cdef amend_graph(self, Graph graph):
        """A count of the graph was wrong."""
        cdef uint32_t index = graph.next_present(0)
        cdef RunRecord record
        cdef Page* page
        graph.live = graph.targets = 0
        while index < graph.count:
            if self.node_state(graph, graph.base + index) != ENDED:
                page = self.columns.find(graph.base + index)
                record = self.columns.record_at(page, (graph.base + index) & (PAGE_SIZE - 1))
                graph.live += 1
                graph.targets += not record.intermediate and not graph.at(index).delivered
            index = graph.next_present(index + 1)
        if graph.live == 0:
            self.graphs.pop(graph.last, None)
            return
        self.settle(graph)

    cdef check_graph(self, Graph graph):
        cdef uint32_t index, at
        cdef Node* node
        cdef int state, there
        live = targets = 0
        uses = {}
        index = graph.present_before(graph.count)
        present = 0
        while index < graph.count:
            node = graph.at(index)
            task = graph.base + index
            state = self.node_state(graph, task)
            index = graph.present_before(index)
            present += 1
            if state != ENDED:
                live += 1
                assert self.columns.record(task).graph is graph, task
                assert node.uses == uses.get(task - graph.base, 0), (task, state, node.uses, uses.get(task - graph.base, 0))
                targets += not self.columns.record(task).intermediate and not node.delivered
            if state == ENDED or state == STORED or state == DONE_LARGE or state == FREED:
                continue
            pending = still_open = 0
            for at in range(node.first_input, node.first_input + node.inputs):
                uses[graph.edges[at].input] = uses.get(graph.edges[at].input, 0) + 1
                there = self.node_state(graph, graph.base + graph.edges[at].input)
                assert state == CANCELLING or (there != ENDED and there != FREED), (task, state, there)
                pending += there != STORED and there != DONE_LARGE
                still_open += there != STORED and there != DONE_LARGE and there != ASSIGNED
            if state != CANCELLING:
                assert (node.pending, node.open) == (pending, still_open), (task, node.pending, node.open)
            assert state != QUEUED or not pending, task
            assert state != PENDING or pending, task
        assert present + graph.absent == graph.count, (present, graph.absent, graph.count)
        assert (live, targets) == (graph.live, graph.targets), (live, graph.live, targets, graph.targets)
        assert live and (targets or not graph.is_closed or self.columns.count(CANCELLING)), "a graph outlived its targets"
