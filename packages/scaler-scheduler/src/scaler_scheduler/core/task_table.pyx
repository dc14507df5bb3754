# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The table of a client's tasks: all that happens to a task. See task_table.pyi for the contract and states.py for
the rules."""

from cython cimport final
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from scaler_scheduler.core.agent_loads cimport AgentLoad
from scaler_scheduler.core.census cimport Census
from scaler_scheduler.core.events cimport Recorder
from scaler_scheduler.core.function_loads cimport FunctionLoad
from scaler_scheduler.core.graph cimport Graph, Node
from scaler_scheduler.core.node_table cimport NO_TASK, NodeTable
from scaler_scheduler.core.pages cimport (
    NO_AGENT,
    OUT_OF_PATIENCE,
    PAGE_BITS,
    PAGE_SIZE,
    Page,
    PageBox,
    next_attempt,
    plausible,
)
from scaler_scheduler.core.run_records cimport MessageMemory, RunRecord, extend
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
)
from scaler_scheduler.core.totals cimport Totals

cdef enum:
    NOT_RECORDED = 0xFF
    RUNS_AGAIN = 0x80

LARGE, DIED, RETRY, DISCARD, REFUSE = "large", "died", "retry", "discard", "refuse"


@final
cdef class TaskTable(NodeTable):
    def __init__(self, bytes session, Totals totals):
        super().__init__(session, totals)
        self.moving = {}

    # ---- waiting and ending -------------------------------------------------------------------------------------

    def requeue(self, uint64_t task):
        """Queue a task again, with its next attempt; the record it belongs to. None: it is a node of a graph that waits
        for its inputs, or has lost them, or the task has ended meanwhile."""
        cdef Page* page = self.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef int state = ENDED if page == NULL else page.state[offset]
        cdef RunRecord record
        if state != ASSIGNED and state != DECIDING and state != DONE_LARGE:
            return None
        record = self.record_at(page, offset)
        if record.graph is not None and not self.requeue_node(page, offset, task, record):
            return None
        self.move(page, offset, QUEUED)
        page.attempt[offset] = next_attempt(page.attempt[offset])
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
        if page == NULL or page.state[offset] != DECIDING:
            raise KeyError(task)
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
            if record is not current:
                if recording and record.function is not function:
                    function = record.function
                    segments.append((index if segments else 0, function.named(events)))
                if group:
                    agent.give_back(current, group, group_load, group_moving)
                    if timed:
                        current.function.observe(group_us, timed)
                current = record
                group = timed = 0
                group_load = group_moving = 0
                group_us = 0.0
            if state != HELD:
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

    cdef bint accept_node(self, Page* page, int offset, uint64_t task, int status, uint32_t attempt, RunRecord record,
                          AgentLoad agent, list special, int64_t index, run) except -1:
        """One result of a node. True: it is to be forwarded."""
        cdef int state = page.state[offset]
        cdef Graph graph = record.graph
        cdef bint wanted = not record.intermediate and not graph.at(task - graph.base).delivered
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

    cdef bint decide(self, Page* page, int offset, int state, int status, RunRecord record, uint32_t attempt,
                     uint32_t agent) noexcept:
        """True: the row does not simply end its task; what becomes of it is decided by the core."""
        if status == SUCCESS_LARGE:
            if state == CANCELLING:
                self.move(page, offset, DECIDING)
            else:
                self.move(page, offset, DONE_LARGE)
                page.attempt[offset] = plausible(attempt)
                page.agent[offset] = agent
            return True
        if state == CANCELLING:
            return False
        if status == PROCESSOR_DIED or (record.retries and (
                status == EXCEPTION or status == EXCEPTION_NOT_SERIALIZABLE)):
            page.attempt[offset] = max(page.attempt[offset], plausible(attempt))
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
                page.attempt[offset] = plausible(attempts[index])
                page.agent[offset] = agent.index
                page.estimate_us[offset] = record.function.estimate()
                agent.take(record, 1, page.estimate_us[offset])
                if record.graph is not None:
                    self.shift_open(record.graph, task, -1)
            elif state == ENDED:
                unknown.append(index)
            elif page.agent[offset] != agent.index or page.attempt[offset] != <uint32_t> attempts[index]:
                stale.append(index)
                if state == QUEUED or state == PENDING or state == WAITING:  # what is said of it is not of the next one
                    page.attempt[offset] = max(page.attempt[offset], next_attempt(plausible(attempts[index])))
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
                    page.attempt[offset] = next_attempt(page.attempt[offset])
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
            state = ENDED if page == NULL else page.state[task & (PAGE_SIZE - 1)]
            record = None if state == ENDED else self.record_at(page, task & (PAGE_SIZE - 1))
            if record is None or record.graph is None or state == DONE_LARGE or state == CANCELLING:
                unneeded.append(task)
                continue
            node = record.graph.at(task - record.graph.base)
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

    def abandon(self, dict loads):
        """End what agents still have, without waiting for their answers. ``loads``: by agent."""
        cdef PageBox box
        cdef Page* page
        cdef int offset
        cdef uint64_t task
        cdef AgentLoad load
        for number in sorted(self.pages):
            box = <PageBox> self.pages[number]
            page = box.page
            for offset in range(PAGE_SIZE):
                if page.state[offset] == ASSIGNED or page.state[offset] == CANCELLING:
                    task = (box.number << PAGE_BITS) + offset
                    load = loads.get(page.agent[offset])
                    if load is not None:
                        load.give_back(self.record_at(page, offset), 1, page.estimate_us[offset], self.take_moving(task))
                    self.end(page, task, CANCELLED)

    def recount(self, Census census, bint corrects):
        """Count the tasks anew, from their states, into ``census``. Returns what was wrong, in words; ``corrects``: and
        puts it right."""
        cdef list wrong = []
        cdef int64_t seen[STATES]
        cdef int64_t live
        cdef int64_t* left = <int64_t*> calloc(max(1, len(self.records)), sizeof(int64_t))
        cdef PageBox box
        if left == NULL:
            raise MemoryError
        for state in range(STATES):
            seen[state] = 0
        try:
            for number in list(self.pages):
                box = <PageBox> self.pages[number]
                live = self.recount_page(box, census, seen, left)
                if live != box.page.live:
                    wrong.append(f"{box.page.live} tasks live on page {number}, {live} counted")
                    if corrects:
                        box.page.live = <int> live
            self.amend_records(left, corrects, wrong)
        finally:
            free(left)
        for state in range(1, STATES):
            if seen[state] != self.counts[state]:
                wrong.append(f"{self.counts[state]} tasks in state {state}, {seen[state]} counted")
                if corrects:
                    self.counts[state] = seen[state]
        if seen[DECIDING]:
            wrong.append(f"{seen[DECIDING]} tasks were left undecided")
        self.amend_graphs(corrects, wrong)
        return wrong

    cdef int64_t recount_page(self, PageBox box, Census census, int64_t* seen, int64_t* left) except -1:
        """Returns how many tasks are live."""
        cdef Page* page = box.page
        cdef int offset = 0, start, state
        cdef uint32_t run
        cdef int64_t live = 0
        cdef RunRecord record
        while offset < PAGE_SIZE:
            state = page.state[offset]
            if state == ENDED:
                offset += 1
                continue
            start, run = offset, page.run[offset]
            while offset < PAGE_SIZE and page.state[offset] == state and page.run[offset] == run:
                offset += 1
            live += offset - start
            seen[state] += offset - start
            record = self.record_at(page, start)
            left[run] += offset - start
            if state == QUEUED:
                census.add_queued(record, offset - start)
            if state != STORED and state != FREED:
                census.add_unfinished(record, offset - start)
            if state == ASSIGNED or state == CANCELLING:
                self.recount_assigned(box, start, offset, record, census)
        return live

    cdef recount_assigned(self, PageBox box, int start, int stop, RunRecord record, Census census):
        cdef uint64_t first = box.number << PAGE_BITS
        cdef int offset
        cdef int64_t moving_us
        for offset in range(start, stop):
            moving_us = self.moving.get(first + <uint64_t> offset, 0) if self.moving else 0
            census.tally_of(box.page.agent[offset]).add(record, box.page.estimate_us[offset], moving_us)

    cdef amend_records(self, int64_t* left, bint corrects, list wrong):
        cdef RunRecord record
        cdef dict memories = {}
        cdef int64_t live = 0, index, size = 0
        for index in range(len(self.records)):
            record = <RunRecord> self.records[index]
            if record is None:
                continue
            if record.remaining != left[index]:
                wrong.append(f"{record.remaining} tasks of a run remain, {left[index]} counted")
                if corrects:
                    record.remaining = left[index]
                    if record.remaining == 0:
                        self.forget(record)
                        continue
            live += 1
            if record.memory not in memories:
                size += record.memory.size_bytes
            memories[record.memory] = memories.get(record.memory, 0) + 1
        if live != self.live_records or size != self.message_bytes:
            wrong.append(f"{self.live_records} runs in {self.message_bytes} bytes, {live} in {size} counted")
            if corrects:
                self.live_records = live
                self.message_bytes = size
        for memory, records in memories.items():
            if (<MessageMemory> memory).records != records:
                wrong.append(f"{(<MessageMemory> memory).records} runs of a message remain, {records} counted")
                if corrects:
                    (<MessageMemory> memory).records = records

    cdef amend_graphs(self, bint corrects, list wrong):
        """Graphs are not put right count by count: they are counted anew as after the loss of an agent."""
        cdef Graph graph
        cdef int64_t size = 0
        for graph in list(self.graphs.values()):
            try:
                self.check_graph(graph)
            except AssertionError as error:
                wrong.append(f"graph {graph.last}: {error}")
                if corrects:
                    self.amend_graph(graph)
        for graph in self.graphs.values():
            size += graph.size_bytes
        if size != self.graph_bytes:
            wrong.append(f"graphs in {self.graph_bytes} bytes, {size} counted")
            if corrects:
                self.graph_bytes = size
        for task in [task for task in self.moving if not self.is_given(task)]:
            wrong.append(f"task {task} is to be moved, and is with no agent")
            if corrects:
                del self.moving[task]

    cdef bint is_given(self, uint64_t task) except -1:
        cdef int state = self.state(task)
        return state == ASSIGNED or state == CANCELLING

    def undecided(self):
        """Tasks that a message has left DECIDING, because handling it raised."""
        cdef list found = []
        cdef PageBox box
        cdef int offset
        if self.counts[DECIDING] == 0:
            return found
        for number in sorted(self.pages):
            box = <PageBox> self.pages[number]
            for offset in range(PAGE_SIZE):
                if box.page.state[offset] == DECIDING:
                    found.append((box.number << PAGE_BITS) + offset)
        return found

    def push_queued(self, client):
        """Every queued task enters its queue, which is empty."""
        cdef PageBox box
        cdef int offset
        cdef list ranges = []
        cdef RunRecord record
        for number in sorted(self.pages):
            box = <PageBox> self.pages[number]
            for offset in range(PAGE_SIZE):
                if box.page.state[offset] == QUEUED:
                    box.page.agent[offset] = NO_AGENT
                    extend(ranges, self.record_at(box.page, offset), (box.number << PAGE_BITS) + offset)
        for record, first, stop in ranges:
            record.queue.push(client, self, record.priority, first, stop)

    def check(self):
        """Assert that counters agree with the columns."""
        wrong = self.recount(Census(), False)
        assert not wrong, wrong


cdef bytearray with_fate(bytearray fates, const uint8_t[::1] statuses, int64_t index, int fate):
    """What is to be recorded as the statuses of a run, one of them changed."""
    if fates is None:
        fates = bytearray(statuses)
    fates[index] = fate
    return fates
