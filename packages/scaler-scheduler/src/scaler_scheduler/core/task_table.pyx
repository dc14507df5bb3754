# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The table of a client's tasks: all that happens to a task. See task_table.pyi for the contract and states.py for
the rules."""

from cython cimport final
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from scaler_scheduler.core.agent_loads cimport AgentLoad
from scaler_scheduler.core.events cimport Recorder
from scaler_scheduler.core.function_loads cimport FunctionLoad
from scaler_scheduler.core.graph cimport Edge, Graph, Node
from scaler_scheduler.core.graph_news cimport GraphNews
from scaler_scheduler.core.pages cimport NO_AGENT, OUT_OF_PATIENCE, PAGE_BITS, PAGE_SIZE, Page, PageBox
from scaler_scheduler.core.run_records cimport RunRecord
from scaler_scheduler.core.states cimport (
    ASSIGNED,
    CANCELLED,
    CANCELLING,
    DECIDING,
    DONE_LARGE,
    ENDED,
    EXCEPTION,
    EXCEPTION_NOT_SERIALIZABLE,
    FREED,
    HELD,
    PENDING,
    PROCESSOR_DIED,
    QUEUED,
    STATES,
    STORED,
    SUCCESS,
    SUCCESS_LARGE,
    WAITING,
    WORKER_DIED,
)
from scaler_scheduler.core.totals cimport Totals

cdef enum:
    NOT_RECORDED = 0xFF
    RUNS_AGAIN = 0x80
    NO_TASK = 0xFFFFFFFFFFFFFFFF
    GRAPH_RECORDED_NODES = 10000

LARGE, DIED, RETRY, DISCARD, REFUSE = "large", "died", "retry", "discard", "refuse"


@final
cdef class TaskTable:
    def __init__(self, bytes session, Totals totals):
        self.events = totals.events
        self.number = totals.events.new_table()
        self.accepting = NO_TASK
        self.graphs = {}
        self.copies = {}
        self.moving = {}
        self.doomed = []
        self.session = session
        self.totals = totals
        self.pages = {}
        self.records = []
        self.free_records = []
        self.last_page = NULL
        self.newest = 0
        self.finished = 0
        for state in range(STATES):
            self.counts[state] = 0

    # ---- looking up -----------------------------------------------------------------------------------------------

    cdef Page* make(self, uint64_t task) except NULL:
        cdef Page* page = self.find(task)
        cdef uint64_t number = task >> PAGE_BITS
        cdef PageBox box
        if page != NULL:
            return page
        box = PageBox()
        box.number = number
        self.pages[number] = box
        if number > self.newest:
            self.drop_page(self.newest)
            self.newest = number
        self.last_page = box.page
        self.last_number = number
        return box.page

    cdef drop_page(self, uint64_t number):
        """Free the page if nothing on it is alive."""
        cdef PageBox box = <PageBox> self.pages.get(number)
        if box is None or box.page.live:
            return
        if self.last_page == box.page:
            self.last_page = NULL
        del self.pages[number]

    cdef end(self, Page* page, uint64_t task, int status):
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef RunRecord record = self.record_at(page, offset)
        if self.events.is_on and task != self.accepting and page.state[offset] != DONE_LARGE:
            self.events.ended(self.number, task, page.attempt[offset], status, record.function.named(self.events))
        self.close(page, task, status, record)

    cdef close(self, Page* page, uint64_t task, int status, RunRecord record):
        """A task has ended, and monitors know or will be told."""
        cdef int offset = task & (PAGE_SIZE - 1)
        self.counts[page.state[offset]] -= 1
        page.state[offset] = ENDED
        page.live -= 1
        self.finished += 1
        self.totals.outcomes[status & 15] += 1
        record.function.unfinished -= 1
        record.function.outcomes[status & 15] += 1
        record.remaining -= 1
        if record.remaining == 0:
            self.records[record.index] = None
            self.free_records.append(record.index)
        if page.live == 0 and (task >> PAGE_BITS) != self.newest:
            self.drop_page(task >> PAGE_BITS)
        if record.graph is not None:
            self.node_ended(record, task)

    cdef list all_tasks(self):
        """Every unfinished task; only for what happens once in a client's life."""
        cdef list found = []
        cdef PageBox box
        cdef int offset
        for number in sorted(self.pages):
            box = <PageBox> self.pages[number]
            for offset in range(PAGE_SIZE):
                if box.page.state[offset] != ENDED:
                    found.append((number << PAGE_BITS) + offset)
        return found

    def count(self, int state):
        return self.counts[state]

    @property
    def unfinished(self):
        cdef int64_t total = 0
        for state in range(1, STATES):
            total += self.counts[state]
        return total

    def describe(self, uint64_t task):
        cdef Page* page = self.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        if page == NULL or page.state[offset] == ENDED:
            return None
        return (page.state[offset], page.attempt[offset], page.agent[offset], page.deaths[offset],
                page.losses[offset], self.record_at(page, offset))

    def record(self, uint64_t task):
        return self.record_at(self.find(task), task & (PAGE_SIZE - 1))

    def state(self, uint64_t task):
        cdef Page* page = self.find(task)
        return ENDED if page == NULL else page.state[task & (PAGE_SIZE - 1)]

    # ---- coming in ------------------------------------------------------------------------------------------------

    cpdef bint append(self, RunRecord record, int state) except -1:
        """Enter a run's tasks in ``state``. False, and nothing changed, when one of them is there already."""
        cdef uint64_t task
        cdef Page* page
        cdef int offset
        if not self.is_free(record.first, record.stop):
            return False
        if self.free_records:
            record.index = self.free_records.pop()
            self.records[record.index] = record
        else:
            record.index = len(self.records)
            self.records.append(record)
        page = NULL
        for task in range(record.first, record.stop):
            offset = task & (PAGE_SIZE - 1)
            if page == NULL or offset == 0:
                page = self.make(task)
            page.state[offset] = state
            page.deaths[offset] = 0
            page.losses[offset] = 0
            page.attempt[offset] = 1
            page.agent[offset] = NO_AGENT
            page.run[offset] = record.index
            page.live += 1
        self.counts[state] += record.stop - record.first
        record.function.unfinished += record.stop - record.first
        record.session = self.number
        record.entered_at = self.events.now
        if self.events.is_on:
            self.events.submitted(self.number, record.function.named(self.events), record.first, record.stop)
        return True

    cdef bint is_free(self, uint64_t first, uint64_t stop) except -1:
        cdef uint64_t task
        cdef Page* page
        cdef int offset
        for task in range(first, stop):
            page = self.find(task)
            offset = task & (PAGE_SIZE - 1)
            if page != NULL and page.state[offset] != ENDED:
                return False
            if page == NULL and offset == 0 and stop - task > PAGE_SIZE:
                continue
        return True

    def requeue(self, uint64_t task):
        """Queue a task again, with its next attempt; the record it belongs to. None: it is a node of a graph that waits
        for its inputs, or has lost them."""
        cdef Page* page = self.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef RunRecord record = self.record_at(page, offset)
        if record.graph is not None and not self.requeue_node(page, offset, task, record):
            return None
        self.move(page, offset, QUEUED)
        page.attempt[offset] += 1
        page.agent[offset] = NO_AGENT
        return record

    def finish(self, uint64_t task, int status):
        cdef Page* page = self.find(task)
        if page != NULL and page.state[task & (PAGE_SIZE - 1)] != ENDED:
            self.end(page, task, status)

    def died(self, uint64_t task):
        """Count one death of its own processor; how many there were."""
        cdef Page* page = self.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        page.deaths[offset] += 1
        return page.deaths[offset]

    def ready(self, uint64_t first, uint64_t stop):
        """WAITING or HELD tasks of a range may be queued: (record, first, stop) of those that are still there."""
        cdef Page* page
        cdef uint64_t task
        cdef int offset
        cdef list ranges = []
        for task in range(first, stop):
            page = self.find(task)
            offset = task & (PAGE_SIZE - 1)
            if page != NULL and (page.state[offset] == WAITING or page.state[offset] == HELD):
                self.move(page, offset, QUEUED)
                extend(ranges, self.record_at(page, offset), task)
        return ranges

    # ---- results --------------------------------------------------------------------------------------------------

    cpdef accept(self, run, AgentLoad agent):
        """Take in results from ``agent``. None: all of them count and may be forwarded as they are. Otherwise
        (indices to forward, [(index, task, what)] to be decided, indices of tasks never heard of)."""
        cdef int64_t count = run.count
        cdef const uint64_t[::1] tasks
        cdef const uint32_t[::1] attempts
        cdef const uint8_t[::1] statuses
        cdef const uint64_t[::1] durations
        cdef int64_t index, plain = 0
        cdef uint64_t task
        cdef Page* page
        cdef int offset, state, status, what
        cdef RunRecord record = None
        cdef RunRecord current = None
        cdef int group = 0, timed = 0
        cdef int64_t group_load = 0, group_moving = 0
        cdef double group_us = 0.0
        cdef list forward = None, special = [], unknown = []
        cdef Recorder events = self.events
        cdef bint recording = events.is_on
        cdef FunctionLoad function = None
        cdef list segments = []
        cdef bytearray fates = None
        tasks = run.task_column
        attempts = run.attempt_column
        statuses = run.status_column
        durations = run.duration_column
        for index in range(count):
            task = tasks[index]
            status = statuses[index]
            offset = task & (PAGE_SIZE - 1)
            page = self.find(task)
            state = ENDED if page == NULL else page.state[offset]
            if state == ASSIGNED or state == CANCELLING:
                if page.attempt[offset] != attempts[index] or page.agent[offset] != agent.index:
                    what = -1
                else:
                    what = 1
            elif state == HELD and status != CANCELLED:
                what = 1
            else:
                what = -2 if state == ENDED else -1
            if what < 0:
                if forward is None:
                    forward = list(range(index))
                if what == -2:
                    unknown.append(index)
                elif status <= SUCCESS_LARGE:
                    if status == SUCCESS_LARGE and self.is_stray(page, offset, agent.index):
                        special.append((index, task, REFUSE))
                    self.refuse_value(page, offset, task, attempts[index], agent.index)
                if recording:
                    fates = with_fate(fates, statuses, index, NOT_RECORDED)
                continue
            record = self.record_at(page, offset)
            if recording and record.function is not function:
                function = record.function
                segments.append((index if segments else 0, function.named(events)))
            if state != HELD:
                if record is not current:
                    if group:
                        agent.give_back(current, group, group_load, group_moving)
                        if timed:
                            current.function.observe(group_us, timed)
                    current = record
                    group = timed = 0
                    group_load = group_moving = 0
                    group_us = 0.0
                group += 1
                group_load += page.estimate_us[offset]
                if record.has_moving:
                    group_moving += self.take_moving(task)
                if status <= EXCEPTION_NOT_SERIALIZABLE:
                    timed += 1
                    group_us += durations[index]
            if record.graph is not None:
                self.accepting = task
                if recording and state == CANCELLING and status == SUCCESS_LARGE:
                    fates = with_fate(fates, statuses, index, CANCELLED)  # it counts as no result
                if not self.accept_node(page, offset, task, status, attempts[index], record, agent, special, index, run):
                    if forward is None:
                        forward = list(range(index))
                elif forward is not None:
                    forward.append(index)
                if recording and special and special[len(special) - 1][0] == index and status > SUCCESS_LARGE:
                    fates = with_fate(fates, statuses, index, status | RUNS_AGAIN)
                continue
            if status != SUCCESS and self.decide(page, offset, state, status, record, attempts[index], agent.index):
                if status == SUCCESS_LARGE and state != CANCELLING:
                    special.append((index, task, LARGE))
                else:
                    if forward is None:
                        forward = list(range(index))
                    special.append((index, task, DISCARD if status == SUCCESS_LARGE
                                    else (DIED if status == PROCESSOR_DIED else RETRY)))
                    if recording:
                        fates = with_fate(fates, statuses, index, status | RUNS_AGAIN)
                    continue
            else:
                self.close(page, task, status, record)
            if forward is not None:
                forward.append(index)
        self.accepting = NO_TASK
        if group:
            agent.give_back(current, group, group_load, group_moving)
            if timed:
                current.function.observe(group_us, timed)
        if segments:
            events.results(run, self.number, agent.index, segments, fates)
        if forward is None and not special:
            return None
        return forward, special, unknown

    cdef bint decide(self, Page* page, int offset, int state, int status, RunRecord record, uint32_t attempt,
                     uint32_t agent) noexcept:
        """True: the row does not simply end its task; what becomes of it is decided by the core."""
        if status == SUCCESS_LARGE:
            if state == CANCELLING:
                self.move(page, offset, DECIDING)
            else:
                self.move(page, offset, DONE_LARGE)
                page.attempt[offset] = attempt
                page.agent[offset] = agent
            return True
        if state == CANCELLING:
            return False
        if status == PROCESSOR_DIED or (record.retries and (
                status == EXCEPTION or status == EXCEPTION_NOT_SERIALIZABLE)):
            page.attempt[offset] = max(page.attempt[offset], attempt)
            self.move(page, offset, DECIDING)
            return True
        return False

    # ---- agents ---------------------------------------------------------------------------------------------------

    def claim(self, tasks, attempts, AgentLoad agent):
        """``agent`` says it holds these. Returns (indices it must drop, indices never heard of)."""
        cdef list stale = [], unknown = []
        cdef Page* page
        cdef int offset, state, index
        cdef uint64_t task
        cdef RunRecord record
        for index in range(len(tasks)):
            task = tasks[index]
            offset = task & (PAGE_SIZE - 1)
            page = self.find(task)
            state = ENDED if page == NULL else page.state[offset]
            if state == HELD:
                record = self.record_at(page, offset)
                self.move(page, offset, ASSIGNED)
                page.attempt[offset] = attempts[index]
                page.agent[offset] = agent.index
                page.estimate_us[offset] = record.function.estimate()
                agent.take(record, 1, page.estimate_us[offset])
                if record.graph is not None:
                    self.shift_open(record.graph, task, -1)
            elif state == ENDED:
                unknown.append(index)
            elif page.agent[offset] != agent.index or page.attempt[offset] != <uint32_t> attempts[index]:
                stale.append(index)
                if state == QUEUED:  # what is still said of that execution is not of the next one, perhaps there again
                    page.attempt[offset] = max(page.attempt[offset], <uint32_t> attempts[index] + 1)
        return stale, unknown

    def withdrawn(self, tasks, attempts, AgentLoad agent, bint was_asked=False):
        """``agent`` gave these back unstarted. Returns (ranges queued again, tasks whose cancel this answers).
        ``was_asked``: they have waited there for so long that others may have them."""
        cdef list ranges = [], cancelled = []
        cdef Page* page
        cdef int offset, index
        cdef uint64_t task
        cdef RunRecord record
        for index in range(len(tasks)):
            task = tasks[index]
            offset = task & (PAGE_SIZE - 1)
            page = self.find(task)
            if not self.is_with(page, offset, agent.index):
                continue
            if len(attempts) and page.attempt[offset] != <uint32_t> attempts[index]:
                continue
            record = self.record_at(page, offset)
            agent.give_back(record, 1, page.estimate_us[offset], self.take_moving(task))
            if page.state[offset] == ASSIGNED:
                if self.requeue(task) is not None:
                    if was_asked:
                        page.agent[offset] = OUT_OF_PATIENCE
                    extend(ranges, record, task)
            else:
                self.end(page, task, CANCELLED)
                cancelled.append(task)
        return ranges, cancelled

    def short_tasks(self, uint32_t agent, double limit_us):
        """([tasks], [attempts]) that ``agent`` has, may be started twice, and are known to take no longer."""
        cdef list tasks = [], attempts = []
        cdef PageBox box
        cdef int offset
        cdef RunRecord record
        for number in sorted(self.pages):
            box = <PageBox> self.pages[number]
            for offset in range(PAGE_SIZE):
                if box.page.state[offset] != ASSIGNED or box.page.agent[offset] != agent:
                    continue
                record = self.record_at(box.page, offset)
                if record.rerun and record.function.samples and record.function.duration_us <= limit_us:
                    tasks.append((box.number << PAGE_BITS) + offset)
                    attempts.append(box.page.attempt[offset])
        return tasks, attempts

    cdef int64_t take_moving(self, uint64_t task) except -1:
        """How long what an assigned task needs would take to move; it leaves its agent."""
        return self.moving.pop(task, 0) if self.moving else 0

    cdef bint is_with(self, Page* page, int offset, uint32_t agent) noexcept:
        if page == NULL or page.agent[offset] != agent:
            return False
        return page.state[offset] == ASSIGNED or page.state[offset] == CANCELLING

    def lose(self, uint32_t agent, bint blameless, int losses_limit, int status):
        """The agent is gone. Returns (ranges queued again, tasks ended with ``status``, tasks whose cancel this
        answers). ``blameless``: it had said goodbye, nothing of it may have been started."""
        cdef list ranges = [], died = [], cancelled = []
        cdef PageBox box
        cdef Page* page
        cdef int offset, state
        cdef uint64_t task
        cdef RunRecord record
        cdef dict shaken = {}
        cdef list fatal = []
        self.forget_copies(agent)
        for number in sorted(self.pages):
            box = <PageBox> self.pages.get(number)
            if box is None:
                continue
            page = box.page
            for offset in range(PAGE_SIZE):
                state = page.state[offset]
                if state < ASSIGNED or page.agent[offset] != agent:
                    continue
                task = (box.number << PAGE_BITS) + offset
                record = self.record_at(page, offset)
                self.take_moving(task)
                if state == STORED:
                    self.move(page, offset, FREED)
                    page.agent[offset] = NO_AGENT
                    shaken[record.graph.last] = record.graph
                    continue
                if state == CANCELLING:
                    self.end(page, task, CANCELLED)
                    cancelled.append(task)
                    continue
                if not blameless:
                    page.losses[offset] += 1
                if state == DONE_LARGE:
                    self.count_lost(record)
                if record.graph is not None:
                    shaken[record.graph.last] = record.graph
                    self.move(page, offset, PENDING)
                    page.attempt[offset] += 1
                    page.agent[offset] = NO_AGENT
                    if (not record.rerun and not (blameless and state == ASSIGNED)) or (
                            page.losses[offset] >= losses_limit):
                        fatal.append(task)
                    continue
                if (not record.rerun and not (blameless and state == ASSIGNED)) or page.losses[offset] >= losses_limit:
                    self.end(page, task, status)
                    died.append(task)
                    continue
                self.requeue(task)
                extend(ranges, record, task)
        for graph in shaken.values():
            self.settle(graph, False)
        for task in fatal:
            self.kill(task, status)
        return ranges, died, cancelled

    # ---- cancels --------------------------------------------------------------------------------------------------

    def cancel(self, tasks):
        """Returns (tasks that ended, {agent: ([tasks], [attempts])} to be told, {agent: [tasks]} whose large results
        are not wanted any more)."""
        cdef list ended = []
        cdef dict told = {}, freed = {}
        cdef Page* page
        cdef int offset, state
        cdef uint64_t task
        cdef RunRecord record
        if self.graphs:
            self.close_cancelled(tasks)
        if tasks is None:
            tasks = self.all_tasks()
        for task in tasks:
            offset = task & (PAGE_SIZE - 1)
            page = self.find(task)
            state = ENDED if page == NULL else page.state[offset]
            if state == ENDED or state == CANCELLING or state == STORED or state == FREED:
                continue
            if state == DONE_LARGE and self.record_at(page, offset).graph is not None:
                self.deliver_large(page, offset, task)
                continue
            if state == ASSIGNED:
                self.to_cancelling(page, offset, task)
                column = told.setdefault(page.agent[offset], ([], []))
                column[0].append(task)
                column[1].append(page.attempt[offset])
                continue
            if state == QUEUED:
                record = self.record_at(page, offset)
                record.queue.count -= 1
            if state == DONE_LARGE:
                freed.setdefault(page.agent[offset], []).append(task)
                self.count_large(self.record_at(page, offset))
            else:
                ended.append(task)
            self.end(page, task, CANCELLED)
        return ended, told, freed

    def release(self, tasks):
        """The client needs these large results no more. Returns those that nobody needs: they are to be cancelled. A
        node that is being made again, because its value was lost, may still be needed by others."""
        cdef list unneeded = []
        cdef RunRecord record
        cdef Node* node
        cdef Page* page
        cdef uint64_t task
        cdef int state
        for task in tasks:
            page = self.find(task)
            state = self.state(task)
            record = None if state == ENDED else self.record_at(page, task & (PAGE_SIZE - 1))
            if record is None or record.graph is None or state == DONE_LARGE or state == CANCELLING:
                unneeded.append(task)
                continue
            node = &record.graph.nodes[task - record.graph.base]
            if node.uses == 0:
                unneeded.append(task)
                continue
            self.deliver(record, record.graph, node)
            self.tell().delivered.append(task)
            self.finish_if_over(record.graph)
        return unneeded

    cdef count_large(self, RunRecord record):
        """A large result that is not needed any more leaves the table as if it were cancelled, but was a success."""
        self.totals.outcomes[SUCCESS_LARGE] += 1
        self.totals.outcomes[CANCELLED] -= 1
        record.function.outcomes[SUCCESS_LARGE] += 1
        record.function.outcomes[CANCELLED] -= 1

    cdef void count_lost(self, RunRecord record) noexcept:
        """A large result is lost, and will be made again: monitors have been told of a success."""
        self.totals.outcomes[SUCCESS_LARGE] += 1
        record.function.outcomes[SUCCESS_LARGE] += 1

    def abandon(self, dict loads):
        """End what agents still have, without waiting for their answers. ``loads``: by agent."""
        cdef PageBox box
        cdef Page* page
        cdef int offset
        cdef RunRecord record
        for number in sorted(self.pages):
            box = <PageBox> self.pages[number]
            page = box.page
            for offset in range(PAGE_SIZE):
                if page.state[offset] == ASSIGNED or page.state[offset] == CANCELLING:
                    record = self.record_at(page, offset)
                    (<AgentLoad> loads[page.agent[offset]]).give_back(
                        record, 1, page.estimate_us[offset], self.take_moving((box.number << PAGE_BITS) + offset)
                    )
                    self.end(page, (box.number << PAGE_BITS) + offset, CANCELLED)

    # ---- nodes of graphs ------------------------------------------------------------------------------------------
    #
    # An unfinished node counts in the ``uses`` of its inputs; a node whose value is somewhere (STORED, DONE_LARGE) counts
    # no more in the ``pending`` of its dependants, one that is assigned, too, no more in their ``open``. ``settle`` counts
    # anew after what is rare: a lost agent, the end of a hold.

    cdef GraphNews tell(self):
        if self.news is None:
            self.news = GraphNews()
        return self.news

    def take_news(self):
        """What became of nodes since the last call, or None; ``ready`` as [record, first, stop]."""
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
            page = self.find(task)
            offset = task & (PAGE_SIZE - 1)
            if page != NULL and page.state[offset] == QUEUED:
                record = self.record_at(page, offset)
                record.queue.count -= 1  # counted when it is pushed
                extend(ranges, record, task)
        news.ready = ranges
        return news

    def append_graph(self, RunRecord record, int state):
        """As ``append``, for nodes: those that miss inputs are PENDING instead of QUEUED. What may be queued is in the
        news. Returns None when the run cannot be part of its graph, else its tasks whose inputs cannot be had."""
        cdef uint32_t low = record.run.options.graph
        cdef uint64_t last = record.first + <uint32_t> (low - <uint32_t> record.first)
        cdef Graph graph = self.graphs.get(last)
        cdef uint32_t index
        cdef list broken
        if graph is None:
            graph = Graph(record.first, last)
        if not graph.admits(record.first, record.stop) or not self.append(record, state):
            return None
        self.graphs[last] = graph
        graph.extend(record.stop)
        for index in range(record.first - graph.base, record.stop - graph.base):
            graph.nodes[index].present = 1
        record.graph = graph
        graph.live += record.stop - record.first
        if not record.intermediate:
            graph.targets += record.stop - record.first
        broken = self.link(record, graph)
        if self.events.is_on:
            self.record_nodes(record, graph)
        if state == QUEUED:
            self.park(record, graph)
        else:
            graph.is_held = True
        if record.stop == graph.last + 1:
            self.close_graph(graph)
        return broken

    cdef record_nodes(self, RunRecord record, Graph graph):
        cdef object edges = b""
        if graph.last - graph.base >= GRAPH_RECORDED_NODES:
            edges = None
        elif record.run.has_references:
            edges = record.run.inputs()
        self.events.nodes(
            self.number, record.function.named(self.events), record.first, record.stop, graph.last, edges
        )

    cdef list link(self, RunRecord record, Graph graph):
        """Enter the edges of a run that has just been appended."""
        cdef const uint64_t[::1] pairs
        cdef list broken = []
        cdef int64_t at
        cdef uint64_t task, source
        cdef Page* page
        cdef Node* node
        cdef int state
        if not record.run.has_references:
            return broken
        pairs = record.run.inputs()
        for at in range(0, pairs.shape[0], 2):
            task = pairs[at]
            source = pairs[at + 1]
            state = ENDED
            if graph.base <= source < task and graph.nodes[source - graph.base].present:
                page = self.find(source)
                if page != NULL:
                    state = page.state[source & (PAGE_SIZE - 1)]
            if state == ENDED or state == CANCELLING:
                if not broken or broken[len(broken) - 1] != task:
                    broken.append(task)
                continue
            graph.add_edge(source - graph.base, task - graph.base)
            graph.nodes[source - graph.base].uses += 1
            node = &graph.nodes[task - graph.base]
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
            if graph.nodes[task - graph.base].pending:
                page = self.find(task)
                self.move(page, task & (PAGE_SIZE - 1), PENDING)
            else:
                record.queue.count += 1
                self.tell().ready.append(task)

    cdef close_graph(self, Graph graph):
        """No more nodes come: what nobody needs may go."""
        if graph.is_closed:
            return
        graph.is_closed = True
        if graph.must_sweep:
            self.settle(graph, False)

    cdef close_cancelled(self, tasks):
        """A client that cancels the last node of a graph, or everything, may not have sent, and will not send, it."""
        cdef Graph graph
        for graph in list(self.graphs.values()):
            if not graph.is_closed and (tasks is None or graph.last in tasks):
                self.close_graph(graph)
                self.finish_if_over(graph)

    def end_holds(self):
        """The hold after a restart is over: nodes whose values are still needed and nowhere run again."""
        cdef Graph graph
        for graph in list(self.graphs.values()):
            if graph.is_held:
                graph.is_held = False
                graph.is_closed = True
                self.settle(graph, True)

    cdef bint accept_node(self, Page* page, int offset, uint64_t task, int status, uint32_t attempt, RunRecord record,
                          AgentLoad agent, list special, int64_t index, run) except -1:
        """One result of a node. True: it is to be forwarded."""
        cdef int state = page.state[offset]
        cdef Graph graph = record.graph
        cdef bint wanted = not record.intermediate and not graph.nodes[task - graph.base].delivered
        if state == CANCELLING:
            if status <= SUCCESS_LARGE:
                self.tell().tell(agent.index, task, attempt)
            self.end(page, task, CANCELLED if status == SUCCESS_LARGE else status)
            return wanted and status != SUCCESS_LARGE
        if status <= SUCCESS_LARGE:
            if state == HELD and wanted and status == SUCCESS and len(run.payload(index)) == 0:
                wanted = False  # the client has it, the agent keeps it for dependants
            if status == SUCCESS_LARGE and wanted:
                special.append((index, task, LARGE))
            self.note_size(graph, task, run, index if status == SUCCESS_LARGE else -1)
            self.node_done(page, task, record, attempt, agent.index, status)
            return wanted
        if self.decide(page, offset, state, status, record, attempt, agent.index):
            if state == ASSIGNED:
                self.shift_open(graph, task, 1)
            special.append((index, task, DIED if status == PROCESSOR_DIED else RETRY))
            return False
        self.end(page, task, status)
        return True

    cdef note_size(self, Graph graph, uint64_t task, run, int64_t index):
        """How large a value is: row ``index`` of ``run`` says it, -1: small."""
        cdef uint32_t kib = 0
        if index >= 0:
            graph.has_large = True
            kib = <uint32_t> min(0xFFFFFFFF, (int.from_bytes(run.payload(index)[:8], "little") + 1023) // 1024)
        graph.nodes[task - graph.base].kib = kib

    cdef bint is_stray(self, Page* page, int offset, uint32_t agent) except -1:
        """Whether a large result that does not count is of no use at its agent, and no other of that task is there."""
        return page.agent[offset] != agent and self.record_at(page, offset).graph is None

    cdef refuse_value(self, Page* page, int offset, uint64_t task, uint32_t attempt, uint32_t agent):
        """An agent has finished an attempt that does not count: it need not keep the value."""
        if page == NULL or page.state[offset] == ENDED or self.record_at(page, offset).graph is None:
            return
        if page.agent[offset] == agent and page.attempt[offset] == attempt and (
                page.state[offset] == STORED or page.state[offset] == DONE_LARGE):
            return
        self.tell().tell(agent, task, attempt)

    cdef node_done(self, Page* page, uint64_t task, RunRecord record, uint32_t attempt, uint32_t agent, int status):
        """Its value is at an agent, for its dependants and, when large, for the client."""
        cdef Graph graph = record.graph
        cdef Node* node = &graph.nodes[task - graph.base]
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef bint was_held = page.state[offset] == HELD
        page.attempt[offset] = attempt
        page.agent[offset] = agent
        if status == SUCCESS_LARGE and not record.intermediate and not node.delivered:
            self.move(page, offset, DONE_LARGE)
        else:
            self.move(page, offset, STORED)
            self.count_done(record, status)
            self.deliver(record, graph, node)
        self.wake_dependants(graph, node, was_held)
        self.leave_inputs(graph, node)
        if node.uses == 0:
            self.drop_value(graph, self.find(task), task)
        self.finish_if_over(graph)

    cdef void count_done(self, RunRecord record, int status) noexcept:
        self.finished += 1
        self.totals.outcomes[status & 15] += 1
        record.function.unfinished -= 1
        record.function.outcomes[status & 15] += 1

    cdef void deliver(self, RunRecord record, Graph graph, Node* node) noexcept:
        if not record.intermediate and not node.delivered:
            node.delivered = 1
            graph.targets -= 1

    cdef deliver_large(self, Page* page, int offset, uint64_t task):
        """The client needs a large result no more; others may."""
        cdef RunRecord record = self.record_at(page, offset)
        cdef Graph graph = record.graph
        cdef Node* node = &graph.nodes[task - graph.base]
        self.move(page, offset, STORED)
        self.count_done(record, SUCCESS_LARGE)
        self.deliver(record, graph, node)
        self.tell().delivered.append(task)
        if node.uses == 0:
            self.drop_value(graph, page, task)
        self.finish_if_over(graph)

    cdef wake_dependants(self, Graph graph, Node* node, bint was_open):
        cdef uint32_t at = node.head
        cdef Node* dependant
        while at:
            dependant = &graph.nodes[graph.edges[at - 1].dependant]
            dependant.pending -= 1
            if was_open:
                dependant.open -= 1
            if dependant.pending == 0:
                self.wake(graph, graph.base + graph.edges[at - 1].dependant)
            at = graph.edges[at - 1].next

    cdef wake(self, Graph graph, uint64_t task):
        cdef Page* page = self.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        if page == NULL or page.state[offset] != PENDING:
            return
        self.to_queued(page, offset, task)
        if self.prefers_holders:
            self.wish(graph, task)

    cdef to_queued(self, Page* page, int offset, uint64_t task):
        cdef RunRecord record = self.record_at(page, offset)
        self.move(page, offset, QUEUED)
        record.queue.count += 1
        self.tell().ready.append(task)

    cdef wish(self, Graph graph, uint64_t task):
        """The agent that holds most bytes of the inputs of a ready node, or most of small ones, may have it first."""
        cdef Node* node = &graph.nodes[task - graph.base]
        cdef dict held = {}
        cdef Page* page
        cdef uint32_t at, agent
        cdef uint64_t source
        for at in range(node.first_input, node.first_input + node.inputs):
            source = graph.base + graph.edges[at].input
            page = self.find(source)
            agent = page.agent[source & (PAGE_SIZE - 1)]
            held[agent] = held.get(agent, 0) + 1 + (<int64_t> graph.nodes[graph.edges[at].input].kib << 10)
        if held:
            best = max(held, key=held.get)
            self.tell().wishes.setdefault(best, []).append(task)

    cdef void shift_open(self, Graph graph, uint64_t task, int change) noexcept:
        cdef uint32_t at = graph.nodes[task - graph.base].head
        while at:
            graph.nodes[graph.edges[at - 1].dependant].open += change
            at = graph.edges[at - 1].next

    cdef leave_inputs(self, Graph graph, Node* node):
        """It needs its inputs no more."""
        cdef uint32_t at, source
        for at in range(node.first_input, node.first_input + node.inputs):
            source = graph.edges[at].input
            graph.nodes[source].uses -= 1
            if graph.nodes[source].uses == 0:
                self.drop_value(graph, self.find(graph.base + source), graph.base + source)

    cdef drop_value(self, Graph graph, Page* page, uint64_t task):
        """No dependant needs its value: the agents that have it are told, once no more dependants can come."""
        cdef int offset = task & (PAGE_SIZE - 1)
        if page == NULL or page.state[offset] != STORED:
            return
        if not graph.is_closed:
            graph.must_sweep = True
            return
        self.tell().tell(page.agent[offset], task, page.attempt[offset])
        self.free_copies(task)
        self.move(page, offset, FREED)
        page.agent[offset] = NO_AGENT

    cdef free_copies(self, uint64_t task):
        for agent in self.copies.pop(task, ()) if self.copies else ():
            self.tell().tell(agent, task, 0)

    cdef node_ended(self, RunRecord record, uint64_t task):
        """It ended without a value: so do all that need it."""
        cdef Graph graph = record.graph
        cdef Node* node = &graph.nodes[task - graph.base]
        cdef uint32_t at = node.head
        self.free_copies(task)
        self.deliver(record, graph, node)
        self.leave_inputs(graph, node)
        while at:
            self.doomed.append(graph.base + graph.edges[at - 1].dependant)
            at = graph.edges[at - 1].next
        self.left_graph(graph)
        if not self.is_dooming:
            self.end_doomed()
        self.finish_if_over(graph)

    cdef left_graph(self, Graph graph):
        graph.live -= 1
        if graph.live == 0:
            self.graphs.pop(graph.last, None)

    cdef end_doomed(self):
        self.is_dooming = True
        while self.doomed:
            self.doom(self.doomed.pop())
        self.is_dooming = False

    cdef doom(self, uint64_t task):
        cdef Page* page = self.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef int state = ENDED if page == NULL else page.state[offset]
        cdef RunRecord record
        cdef uint32_t at
        if state == ASSIGNED:
            record = self.record_at(page, offset)
            self.tell().tell(page.agent[offset], task, page.attempt[offset])
            self.tell().cascaded.append(task)
            self.to_cancelling(page, offset, task)
            at = record.graph.nodes[task - record.graph.base].head
            while at:
                self.doomed.append(record.graph.base + record.graph.edges[at - 1].dependant)
                at = record.graph.edges[at - 1].next
        elif state == PENDING or state == QUEUED or state == HELD or state == WAITING:
            record = self.record_at(page, offset)
            if state == QUEUED:
                record.queue.count -= 1
            if not record.intermediate:
                self.tell().ended.append(task)
            self.end(page, task, CANCELLED)

    cdef to_cancelling(self, Page* page, int offset, uint64_t task):
        cdef RunRecord record = self.record_at(page, offset)
        self.move(page, offset, CANCELLING)
        if record.graph is not None:
            self.shift_open(record.graph, task, 1)

    cdef kill(self, uint64_t task, int status):
        """An unfinished node ends with ``status``, which is in the news."""
        cdef RunRecord record
        cdef Page* page = self.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        if page == NULL or page.state[offset] == ENDED:
            return
        record = self.record_at(page, offset)
        if page.state[offset] == QUEUED:
            record.queue.count -= 1
        self.tell().died.append((task, status))
        self.end(page, task, status)

    def break_off(self, tasks, int status):
        """Nodes whose inputs cannot be had end."""
        for task in tasks:
            self.kill(task, status)

    cdef bint requeue_node(self, Page* page, int offset, uint64_t task, RunRecord record) except -1:
        """True: it may be queued. Otherwise it waits for its inputs, or ends because one of them ended."""
        cdef Graph graph = record.graph
        cdef Node* node = &graph.nodes[task - graph.base]
        cdef uint32_t at
        if page.state[offset] == ASSIGNED:
            self.shift_open(graph, task, 1)
        if not node.pending:
            return True
        page.attempt[offset] += 1
        page.agent[offset] = NO_AGENT
        self.move(page, offset, PENDING)
        for at in range(node.first_input, node.first_input + node.inputs):
            if self.state(graph.base + graph.edges[at].input) == ENDED:
                self.doom(task)
                break
        return False

    cdef finish_if_over(self, Graph graph):
        """All results for the client have reached it, or never will: nothing of the graph is needed any more."""
        cdef uint32_t index
        cdef uint64_t task
        cdef Page* page
        if graph.targets or not graph.is_closed or graph.is_finishing or graph.live == 0:
            return
        graph.is_finishing = True
        for index in range(graph.count):
            task = graph.base + index
            page = self.find(task)
            if graph.nodes[index].present and page != NULL:
                self.finish_node(graph, page, task)
        graph.is_finishing = False

    cdef finish_node(self, Graph graph, Page* page, uint64_t task):
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef int state = page.state[offset]
        if state == STORED:
            self.drop_value(graph, page, task)
            state = FREED
        if state == FREED:
            self.discard(page, task)
        elif state != ENDED and state != CANCELLING and state != DECIDING:
            self.doom(task)

    cdef discard(self, Page* page, uint64_t task):
        """A node whose value was made and is not needed leaves the table."""
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef RunRecord record = self.record_at(page, offset)
        self.free_copies(task)
        if record.graph.has_large and not record.intermediate:
            self.tell().delivered.append(task)
        self.move(page, offset, ENDED)
        page.live -= 1
        record.remaining -= 1
        if record.remaining == 0:
            self.records[record.index] = None
            self.free_records.append(record.index)
        if page.live == 0 and (task >> PAGE_BITS) != self.newest:
            self.drop_page(task >> PAGE_BITS)
        self.left_graph(record.graph)

    def settle(self, Graph graph, bint release):
        """Count a graph anew, from its states: values that are needed and nowhere are made again, and nodes that
        nobody needs do not run. ``release``: those HELD may run."""
        cdef list fatal = [], broken = []
        cdef uint32_t index
        graph.must_sweep = False
        for index in range(graph.count):
            graph.nodes[index].pending = graph.nodes[index].open = graph.nodes[index].uses = 0
        for index in range(graph.count, 0, -1):
            if graph.nodes[index - 1].present:
                self.settle_need(graph, index - 1, release, fatal)
        for index in range(graph.count):
            if graph.nodes[index].present:
                self.settle_wait(graph, index, broken)
        for task in fatal:
            self.kill(task, WORKER_DIED)
        for task in broken:
            self.doom(task)
        self.finish_if_over(graph)

    cdef settle_need(self, Graph graph, uint32_t index, bint release, list fatal):
        """Later nodes have been settled: decide whether this one must run, and whether its value is needed."""
        cdef uint64_t task = graph.base + index
        cdef Node* node = &graph.nodes[index]
        cdef Page* page = self.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef int state = ENDED if page == NULL else page.state[offset]
        cdef RunRecord record
        cdef bint needed
        cdef uint32_t at
        if state == ENDED or state == DONE_LARGE:
            return
        if state == STORED:
            if node.uses == 0:
                self.drop_value(graph, page, task)
            return
        record = self.record_at(page, offset)
        needed = node.uses > 0 or not (record.intermediate or node.delivered)
        if state == FREED:
            if not needed:
                return
            self.move(page, offset, PENDING)
            page.attempt[offset] += 1
            record.function.unfinished += 1
            if not record.rerun:
                fatal.append(task)
        elif state == PENDING or state == QUEUED or (state == HELD and release):
            needed = needed or not graph.is_closed
            if state == QUEUED and not needed:
                record.queue.count -= 1
            if not needed:
                record.function.unfinished -= 1
            if not needed or state == HELD:
                self.move(page, offset, PENDING if needed else FREED)
            if not needed:
                return
        for at in range(node.first_input, node.first_input + node.inputs):
            graph.nodes[graph.edges[at].input].uses += 1

    cdef settle_wait(self, Graph graph, uint32_t index, list broken):
        """Count what an unfinished node waits for."""
        cdef RunRecord record
        cdef uint64_t task = graph.base + index
        cdef Node* node = &graph.nodes[index]
        cdef Page* page = self.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef int state = ENDED if page == NULL else page.state[offset]
        cdef int there
        cdef uint32_t at
        if state == ENDED or state == STORED or state == DONE_LARGE or state == FREED:
            return
        for at in range(node.first_input, node.first_input + node.inputs):
            there = self.state(graph.base + graph.edges[at].input)
            if there != STORED and there != DONE_LARGE:
                node.pending += 1
                if there != ASSIGNED:
                    node.open += 1
            if there == ENDED and (state == PENDING or state == QUEUED or state == HELD):
                broken.append(task)
        if state == PENDING and node.pending == 0:
            self.to_queued(page, offset, task)
        elif state == QUEUED and node.pending:
            record = self.record_at(page, offset)
            record.queue.count -= 1
            self.move(page, offset, PENDING)

    def count_nodes(self, Graph graph):
        """How many nodes there are, and how many wait for inputs, are ready, run, are done, failed or were cancelled."""
        cdef int64_t waiting = 0, ready = 0, running = 0, done = 0, failed = 0, nodes = 0
        cdef uint32_t index
        cdef int state
        cdef Page* page
        for index in range(graph.count):
            if not graph.nodes[index].present:
                continue
            nodes += 1
            page = self.find(graph.base + index)
            state = ENDED if page == NULL else page.state[(graph.base + index) & (PAGE_SIZE - 1)]
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
        return nodes, waiting, ready, running, done, failed

    cdef int64_t count_queued(self, uint64_t first, uint64_t stop) except -1:
        cdef uint64_t task
        cdef int64_t number = 0
        cdef Page* page = NULL
        for task in range(first, stop):
            if page == NULL or (task & (PAGE_SIZE - 1)) == 0:
                page = self.find(task)
            if page != NULL and page.state[task & (PAGE_SIZE - 1)] == QUEUED:
                number += 1
        return number

    def value_holder(self, uint64_t task):
        """The agent that has the value of a node, or None."""
        cdef Page* page = self.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        if page == NULL or (page.state[offset] != STORED and page.state[offset] != DONE_LARGE):
            return None
        return page.agent[offset]

    def note_copy(self, uint64_t task, uint32_t agent):
        """Another agent asked for the value: it, too, is told when nobody needs it any more."""
        agents = self.copies.setdefault(task, [])
        if agent not in agents:
            agents.append(agent)

    def copies_of(self, uint64_t task):
        """The agents that have asked for the value, and may have it by now."""
        return tuple(self.copies.get(task, ()))

    cdef forget_copies(self, uint32_t agent):
        for task in list(self.copies):
            self.copies[task] = [each for each in self.copies[task] if each != agent]
            if not self.copies[task]:
                del self.copies[task]

    def lose_value(self, uint64_t task, uint32_t agent, int losses_limit):
        """The agent that should have a value does not: it is made again if it is needed. "requeue": for the client,
        the caller queues the task; "waits": for the client, it runs when it can; "died": it must not, or has been lost
        too often; None: the client has no part in it."""
        cdef Page* page = self.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef RunRecord record
        if page == NULL or page.agent[offset] != agent:
            return None
        if page.state[offset] == STORED:
            self.move(page, offset, FREED)
            page.agent[offset] = NO_AGENT
            self.settle(self.record_at(page, offset).graph, False)
            return None
        if page.state[offset] != DONE_LARGE:
            return None
        record = self.record_at(page, offset)
        page.losses[offset] += 1
        if not record.rerun or page.losses[offset] >= losses_limit:
            return DIED
        self.count_lost(record)
        if record.graph is None:
            return "requeue"
        self.move(page, offset, PENDING)
        page.attempt[offset] += 1
        page.agent[offset] = NO_AGENT
        self.settle(record.graph, False)
        return "waits"

    cdef bint inputs_are_at(self, Graph graph, uint64_t task, uint32_t agent) except -1:
        """Whether all that a node still waits for is at work at one agent."""
        cdef Node* node = &graph.nodes[task - graph.base]
        cdef uint32_t at
        cdef uint64_t source
        cdef Page* page
        cdef int offset, state
        for at in range(node.first_input, node.first_input + node.inputs):
            source = graph.base + graph.edges[at].input
            page = self.find(source)
            offset = source & (PAGE_SIZE - 1)
            state = ENDED if page == NULL else page.state[offset]
            if state != STORED and state != DONE_LARGE and (state != ASSIGNED or page.agent[offset] != agent):
                return False
        return True

    cdef check_graph(self, Graph graph):
        cdef uint32_t index, at
        cdef Node* node
        cdef int state, there
        live = targets = 0
        uses = {}
        for index in range(graph.count, 0, -1):
            node = &graph.nodes[index - 1]
            state = self.state(graph.base + index - 1) if node.present else ENDED
            task = graph.base + index - 1
            if state != ENDED:
                live += 1
                assert self.record(task).graph is graph, task
                assert node.uses == uses.get(index - 1, 0), (task, state, node.uses, uses.get(index - 1, 0))
                targets += not self.record(task).intermediate and not node.delivered
            if state == ENDED or state == STORED or state == DONE_LARGE or state == FREED:
                continue
            pending = still_open = 0
            for at in range(node.first_input, node.first_input + node.inputs):
                uses[graph.edges[at].input] = uses.get(graph.edges[at].input, 0) + 1
                there = self.state(graph.base + graph.edges[at].input)
                assert state == CANCELLING or (there != ENDED and there != FREED), (task, state, there)
                pending += there != STORED and there != DONE_LARGE
                still_open += there != STORED and there != DONE_LARGE and there != ASSIGNED
            if state != CANCELLING:
                assert (node.pending, node.open) == (pending, still_open), (task, node.pending, node.open)
            assert state != QUEUED or not pending, task
            assert state != PENDING or pending, task
        assert (live, targets) == (graph.live, graph.targets), (live, graph.live, targets, graph.targets)
        assert live and (targets or not graph.is_closed or self.count(CANCELLING)), "a graph outlived its targets"

    def check(self):
        """Assert that counters agree with the columns."""
        cdef int64_t seen[STATES]
        cdef PageBox box
        cdef int offset
        cdef int64_t live
        for state in range(STATES):
            seen[state] = 0
        left = {}
        for number in self.pages:
            box = <PageBox> self.pages[number]
            live = 0
            for offset in range(PAGE_SIZE):
                if box.page.state[offset] != ENDED:
                    live += 1
                    seen[box.page.state[offset]] += 1
                    left[box.page.run[offset]] = left.get(box.page.run[offset], 0) + 1
            assert live == box.page.live, (number, live, box.page.live)
        for state in range(1, STATES):
            assert seen[state] == self.counts[state], (state, seen[state], self.counts[state])
        assert seen[DECIDING] == 0
        for graph in self.graphs.values():
            self.check_graph(graph)
        for index, record in enumerate(self.records):
            assert (record.remaining if record is not None else 0) == left.get(index, 0), index
        for task in self.moving:
            assert self.state(task) == ASSIGNED or self.state(task) == CANCELLING, task

    def queued_by_class(self):
        """{queue class: number of queued tasks}, counted from the columns; for ``check``."""
        cdef PageBox box
        cdef int offset
        found = {}
        for number in self.pages:
            box = <PageBox> self.pages[number]
            for offset in range(PAGE_SIZE):
                if box.page.state[offset] == QUEUED:
                    queue = self.record_at(box.page, offset).queue
                    found[queue] = found.get(queue, 0) + 1
        return found

    def assigned_by_agent(self):
        """{agent: tasks with it}, counted from the columns; for ``check``."""
        cdef PageBox box
        cdef int offset
        found = {}
        for number in self.pages:
            box = <PageBox> self.pages[number]
            for offset in range(PAGE_SIZE):
                if box.page.state[offset] == ASSIGNED or box.page.state[offset] == CANCELLING:
                    found[box.page.agent[offset]] = found.get(box.page.agent[offset], 0) + 1
        return found


cdef bytearray with_fate(bytearray fates, const uint8_t[::1] statuses, int64_t index, int fate):
    """What is to be recorded as the statuses of a run, one of them changed."""
    if fates is None:
        fates = bytearray(statuses)
    fates[index] = fate
    return fates


cdef extend(list ranges, RunRecord record, uint64_t task):
    """Add a task to a list of [record, first, stop], joining neighbours of one run."""
    cdef list last
    if ranges:
        last = <list> ranges[len(ranges) - 1]
        if last[0] is record and last[2] == task:
            last[2] = task + 1
            return
    ranges.append([record, task, task + 1])
