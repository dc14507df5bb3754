# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The table of a client's tasks: all that happens to a task. See task_table.pyi for the contract and states.py for
the rules."""

from cython cimport final
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from scaler_scheduler.core.accepted_results cimport NOT_RECORDED, RUNS_AGAIN, AcceptedResults
from scaler_scheduler.core.agent_loads cimport AgentLoad
from scaler_scheduler.core.census cimport Census
from scaler_scheduler.core.graph cimport Graph, Node
from scaler_scheduler.core.node_table cimport NO_TASK, NodeTable
from scaler_scheduler.core.pages cimport (
    CREDIBLE_ATTEMPT,
    NO_AGENT,
    OUT_OF_PATIENCE,
    PAGE_BITS,
    PAGE_SIZE,
    Page,
    PageBox,
    next_attempt,
    plausible,
)
from scaler_scheduler.core.priority_queues cimport QueueClass
from scaler_scheduler.core.run_records cimport MessageMemory, RunRecord, extend
from scaler_scheduler.core.states cimport (
    ASSIGNED,
    CANCELLED,
    CANCELLING,
    DECIDING,
    DO_CANCEL_AT_AGENT,
    DO_DELIVER,
    DO_FORWARD,
    DO_FREE_AT_AGENT,
    DO_GIVE_UP,
    DO_KEEP_LARGE,
    DO_KEEP_UNKNOWN,
    DO_NOTHING,
    DO_REFUSE,
    DO_TELL_CANCELLED,
    DONE_LARGE,
    ENDED,
    EXCEPTION,
    EXCEPTION_NOT_SERIALIZABLE,
    FREED,
    HELD,
    OBJECT_MISSING,
    ON_AGENT_LOST,
    ON_AGENT_LOST_FINALLY,
    ON_CANCELLED_BY_CLIENT,
    ON_CLAIMED,
    ON_CLAIMED_BY_OTHER,
    ON_DIED,
    ON_FAILED,
    ON_FAILED_WITH_RETRIES,
    ON_GIVEN_UP,
    ON_INPUT_MISSING,
    ON_STOPPED,
    ON_SUCCEEDED,
    ON_SUCCEEDED_LARGE,
    ON_WITHDRAWN,
    PROCESSOR_DIED,
    PENDING,
    QUEUED,
    STATES,
    STORED,
    SUCCESS,
    SUCCESS_LARGE,
    WAITING,
)
from scaler_scheduler.core.task_columns cimport TaskColumns
from scaler_scheduler.core.totals cimport Totals
from scaler_scheduler.core.transitions cimport OF_NODES, OF_TASKS, TRANSITIONS

@final
cdef class LostTasks:
    """The outcome of the tasks of an agent that is gone. ``has_left``: it had said goodbye, so it has started none of
    those that it still had, apart from actors and their calls. ``fatal``: nodes that end once their graphs are settled."""

    def __init__(self, uint32_t agent, bint has_left, int losses_limit, int status):
        self.agent = agent
        self.has_left = has_left
        self.losses_limit = losses_limit
        self.status = status
        self.ranges, self.died, self.cancelled, self.fatal = [], [], [], []
        self.graphs = {}

    cdef int event(self, Page* page, int offset, RunRecord record) noexcept:
        cdef bint may_have_started = not self.has_left or record.hosts_actor or record.is_call
        cdef bint is_blameless = page.state[offset] == ASSIGNED and not may_have_started
        cdef bint may_run_again = record.rerun or is_blameless
        cdef int spent = page.losses[offset], limit = self.losses_limit
        if record.hosts_actor:
            spent, limit = spent + page.deaths[offset] - 1, record.retries  # as many as it survives
        if may_run_again and spent < limit:
            return ON_AGENT_LOST
        return ON_AGENT_LOST_FINALLY


@final
cdef class CancelledTasks:
    """The outcome of tasks that a client cancels: see ``TaskTable.cancel``."""

    def __init__(self):
        self.ended = []
        self.told, self.freed = {}, {}

    cdef tell(self, uint32_t agent, uint64_t task, uint32_t attempt):
        cdef tuple column = <tuple> self.told.get(agent)
        if column is None:
            column = self.told[agent] = ([], [])
        (<list> column[0]).append(task)
        (<list> column[1]).append(attempt)


cdef inline int table_of(RunRecord record) noexcept:
    """Return which transitions hold for the tasks of a record."""
    return OF_TASKS if record.graph is None else OF_NODES


cdef inline int event_of(int status, RunRecord record) noexcept:
    """The event that a result is for a task of this record."""
    if status == SUCCESS:
        return ON_SUCCEEDED
    if status == SUCCESS_LARGE:
        return ON_SUCCEEDED_LARGE
    if status == CANCELLED:
        return ON_STOPPED
    if status == PROCESSOR_DIED:
        return ON_DIED
    if record.retries and not record.hosts_actor and (status == EXCEPTION or status == EXCEPTION_NOT_SERIALIZABLE):
        return ON_FAILED_WITH_RETRIES
    if status == OBJECT_MISSING and record.has_uploads and not record.is_call:
        return ON_INPUT_MISSING
    return ON_FAILED


cdef inline int action_of_result(Page* page, int offset, int status, uint32_t attempt, uint32_t agent) noexcept:
    """NOTHING: the result does not count. KEEP_UNKNOWN: there is no such task. Any other: it counts."""
    cdef int state = ENDED if page == NULL else page.state[offset]
    if (state == ASSIGNED or state == CANCELLING) and (
            page.attempt[offset] != attempt or page.agent[offset] != agent):
        return DO_NOTHING
    return TRANSITIONS[OF_TASKS][ON_STOPPED if status == CANCELLED else ON_SUCCEEDED][state].action


@final
cdef class TaskTable:
    def __init__(self, bytes session, Totals totals):
        self.columns = TaskColumns(session, totals)
        self.nodes = NodeTable(self.columns)
        self.moving = {}

    # ---- waiting and ending -------------------------------------------------------------------------------------

    def requeue(self, uint64_t task):
        """Queue a task again, with its next attempt; the record it belongs to. None: it is a node of a graph that waits
        for its inputs, or has lost them, or the task has ended meanwhile."""
        cdef Page* page = self.columns.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef int state = ENDED if page == NULL else page.state[offset]
        cdef RunRecord record
        if state != ASSIGNED and state != DECIDING and state != DONE_LARGE:
            return None
        record = self.columns.record_at(page, offset)
        if record.graph is not None and not self.nodes.requeue_node(page, offset, task, record):
            return None
        self.columns.move(page, offset, QUEUED)
        self.columns.raise_attempt(page, offset)
        page.agent[offset] = NO_AGENT
        return record

    def finish(self, uint64_t task, int status):
        cdef Page* page = self.columns.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef int state = ENDED if page == NULL else page.state[offset]
        if state == ENDED:
            return
        if TRANSITIONS[table_of(self.columns.record_at(page, offset))][ON_GIVEN_UP][state].state == ENDED:
            self.nodes.end(page, task, status)

    def died(self, uint64_t task):
        """Count one death of its worker process; how many there were."""
        cdef Page* page = self.columns.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        if page == NULL or page.state[offset] != DECIDING:
            raise KeyError(task)
        page.deaths[offset] += 1
        return page.deaths[offset]

    def count_loss(self, uint64_t task):
        """Count that its agent could not get its inputs; how often that was, or its agent was lost."""
        cdef Page* page = self.columns.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        if page == NULL or page.state[offset] != DECIDING:
            raise KeyError(task)
        page.losses[offset] += 1
        return page.losses[offset]

    def await_inputs(self, uint64_t task):
        """See task_table.pyi."""
        cdef Page* page = self.columns.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        if page == NULL or page.state[offset] != DECIDING:
            raise KeyError(task)
        self.nodes.to_pending_again(page, offset)

    def awaits_inputs(self, uint64_t task):
        """See task_table.pyi."""
        cdef Page* page = self.columns.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        return page != NULL and page.state[offset] == PENDING and self.columns.record_at(page, offset).graph is None

    def inputs_made(self, tasks):
        """See task_table.pyi."""
        cdef list ranges = []
        cdef Page* page
        for task in tasks:
            if self.awaits_inputs(task):
                page = self.columns.find(task)
                self.columns.move(page, task & (PAGE_SIZE - 1), QUEUED)
                extend(ranges, self.columns.record_at(page, task & (PAGE_SIZE - 1)), task)
        return ranges

    def ready(self, uint64_t first, uint64_t stop):
        """WAITING or HELD tasks of a range may be queued: (record, first, stop) of those that are still there."""
        cdef Page* page
        cdef uint64_t task
        cdef int offset
        cdef list ranges = []
        for task in range(first, stop):
            page = self.columns.find(task)
            offset = task & (PAGE_SIZE - 1)
            if page != NULL and (page.state[offset] == WAITING or page.state[offset] == HELD):
                self.columns.move(page, offset, QUEUED)
                extend(ranges, self.columns.record_at(page, offset), task)
        return ranges

    # ---- results --------------------------------------------------------------------------------------------------

    cpdef accept(self, run, AgentLoad agent):
        """Take in a run of results from ``agent``. None: all of them count and may be forwarded as they are."""
        cdef TaskColumns columns = self.columns
        cdef const uint64_t[::1] tasks = run.task_column
        cdef const uint32_t[::1] attempts = run.attempt_column
        cdef const uint8_t[::1] statuses = run.status_column
        cdef const uint64_t[::1] durations = run.duration_column
        cdef const uint64_t[::1] cpu_times = run.cpu_time_column
        cdef AcceptedResults results = AcceptedResults(run, agent, columns.share, columns.events)
        cdef RunRecord record
        cdef int64_t row, count = run.count
        cdef uint64_t task
        cdef Page* page
        cdef int offset, status, action
        for row in range(count):
            task, status = tasks[row], statuses[row]
            offset = task & (PAGE_SIZE - 1)
            page = columns.find(task)
            action = action_of_result(page, offset, status, attempts[row], agent.index)
            if action == DO_NOTHING or action == DO_KEEP_UNKNOWN:
                self.leave_out(results, row, page, task, status, attempts[row], action)
                continue
            record = columns.record_at(page, offset)
            if record is not results.record:
                results.begin(record, row)
            if page.state[offset] != HELD:
                if record.graph is not None:
                    results.count_dependencies(record.graph.waited_us(task, results.events.now))
                results.count(row, page.estimate_us[offset], self.take_moving(task) if record.has_moving else 0,
                              status, attempts[row], durations[row], cpu_times[row])
            if record.graph is not None:
                self.accept_node(results, row, page, task, status, attempts[row], record)
            elif status == SUCCESS:
                columns.close(page, task, status, record)
                results.forward(row)
            else:
                self.accept_unusual(results, row, page, task, status, attempts[row], record)
        self.nodes.accepting = NO_TASK
        return results.outcome(columns.number)

    cdef leave_out(
        self, AcceptedResults results, int64_t row, Page* page, uint64_t task, int status, uint32_t attempt, int action
    ):
        """A result does not count: its agent need not keep the value."""
        cdef uint32_t agent = results.agent.index
        results.leave_out(row)
        results.record_as(row, NOT_RECORDED)
        if action == DO_KEEP_UNKNOWN:
            results.unknown.append(row)
        elif status <= SUCCESS_LARGE:
            if status == SUCCESS_LARGE and self.nodes.is_stray(page, task & (PAGE_SIZE - 1), agent):
                results.decide(row, task, DO_REFUSE)
            self.nodes.refuse_value(page, task & (PAGE_SIZE - 1), task, attempt, agent)

    cdef accept_unusual(
        self, AcceptedResults results, int64_t row, Page* page, uint64_t task, int status, uint32_t attempt,
        RunRecord record
    ):
        """A result of a task outside graphs that is not a small success."""
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef int event = event_of(status, record)
        cdef int state = page.state[offset]
        cdef int action = TRANSITIONS[OF_TASKS][event][state].action
        if action == DO_FORWARD:
            self.columns.close(page, task, status, record)
            results.forward(row)
            return
        results.decide(row, task, action)
        if action == DO_KEEP_LARGE:
            self.columns.move(page, offset, TRANSITIONS[OF_TASKS][event][state].state)
            page.attempt[offset] = plausible(attempt)
            page.agent[offset] = results.agent.index
            results.forward(row)
            return
        self.to_deciding(page, offset, attempt)
        results.leave_out(row)
        results.record_as(row, status | RUNS_AGAIN)

    cdef to_deciding(self, Page* page, int offset, uint32_t attempt):
        """The rules decide what becomes of a task that has left its agent."""
        page.attempt[offset] = max(page.attempt[offset], plausible(attempt))
        self.columns.move(page, offset, DECIDING)

    cdef accept_node(
        self, AcceptedResults results, int64_t row, Page* page, uint64_t task, int status, uint32_t attempt,
        RunRecord record
    ):
        """A result of a node of a graph."""
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef int state = page.state[offset]
        cdef int action = TRANSITIONS[OF_NODES][event_of(status, record)][state].action
        cdef bint is_forwarded = not record.intermediate and not record.graph.at(task - record.graph.base).delivered
        self.nodes.accepting = task
        if state == CANCELLING:
            is_forwarded = is_forwarded and status != SUCCESS_LARGE
            self.end_cancelled_node(results, row, page, task, status, attempt)
        elif status <= SUCCESS_LARGE:
            is_forwarded = self.accept_value(results, row, page, task, status, attempt, record, is_forwarded)
        elif action == DO_FORWARD:
            is_forwarded = True
            self.nodes.end(page, task, status)
        else:
            is_forwarded = False
            self.to_deciding(page, offset, attempt)
            if state == ASSIGNED:
                self.nodes.shift_open(record.graph, task, 1)
            results.decide(row, task, action)
            results.record_as(row, status | RUNS_AGAIN)
        if is_forwarded:
            results.forward(row)
        else:
            results.leave_out(row)

    cdef end_cancelled_node(
        self, AcceptedResults results, int64_t row, Page* page, uint64_t task, int status, uint32_t attempt
    ):
        """The agent of a cancelled node has answered. A large result counts as no result."""
        if status == SUCCESS_LARGE:
            results.record_as(row, CANCELLED)
        if status <= SUCCESS_LARGE:
            self.nodes.tell().tell(results.agent.index, task, attempt)
        self.nodes.end(page, task, CANCELLED if status == SUCCESS_LARGE else status)

    cdef bint accept_value(
        self, AcceptedResults results, int64_t row, Page* page, uint64_t task, int status, uint32_t attempt,
        RunRecord record, bint is_wanted
    ) except -1:
        """A node succeeded. Whether its result is forwarded to the client, which wants it."""
        if (is_wanted and status == SUCCESS and page.state[task & (PAGE_SIZE - 1)] == HELD
                and len(results.run.payload(row)) == 0):
            is_wanted = False  # the client has it, and the agent keeps it for dependants
        if status == SUCCESS_LARGE and is_wanted:
            results.decide(row, task, DO_KEEP_LARGE)
        self.nodes.note_size(record.graph, task, results.run, row if status == SUCCESS_LARGE else -1)
        self.nodes.node_done(page, task, record, attempt, results.agent.index, status)
        return is_wanted

    # ---- agents ---------------------------------------------------------------------------------------------------

    def claim(self, tasks, attempts, AgentLoad agent):
        """``agent`` says it holds these. Returns (indices it must drop, indices never heard of)."""
        cdef list stale = [], unknown = []
        cdef Page* page
        cdef int offset, state, index, event, action
        cdef uint64_t task
        cdef RunRecord record
        for index in range(len(tasks)):
            task = tasks[index]
            offset = task & (PAGE_SIZE - 1)
            page = self.columns.find(task)
            state = ENDED if page == NULL else page.state[offset]
            if state == ENDED:
                unknown.append(index)
                continue
            record = self.columns.record_at(page, offset)
            event = ON_CLAIMED_BY_OTHER
            if page.agent[offset] == agent.index and page.attempt[offset] == <uint32_t> attempts[index]:
                event = ON_CLAIMED
            action = TRANSITIONS[table_of(record)][event][state].action
            if action == DO_CANCEL_AT_AGENT:
                stale.append(index)
                self.outnumber(page, offset, attempts[index])
            elif TRANSITIONS[table_of(record)][event][state].state != state:
                self.columns.move(page, offset, TRANSITIONS[table_of(record)][event][state].state)
                page.attempt[offset] = plausible(attempts[index])
                page.agent[offset] = agent.index
                page.estimate_us[offset] = record.function.estimate()
                agent.take(record, 1, page.estimate_us[offset])
                self.columns.share.charge(page.estimate_us[offset])
                if record.graph is not None:
                    self.nodes.shift_open(record.graph, task, -1)
        return stale, unknown

    cdef void outnumber(self, Page* page, int offset, uint32_t claimed) noexcept:
        """An agent has been told to stop an execution from before a restart. Its answer must not be taken for that of a
        later execution, which may be given to the same agent: that gets a larger number."""
        if page.state[offset] == QUEUED or page.state[offset] == PENDING or page.state[offset] == WAITING:
            page.attempt[offset] = max(page.attempt[offset], next_attempt(plausible(claimed)))
        else:
            self.columns.least_attempt = max(self.columns.least_attempt, next_attempt(min(claimed, CREDIBLE_ATTEMPT)))

    def withdrawn(self, tasks, attempts, AgentLoad agent, bint to_any_agent=False):
        """``agent`` gave these tasks back unstarted. Return (ranges that are queued again, tasks whose cancel this
        answers). ``to_any_agent``: the first agent with a free slot takes them, even if another has their objects."""
        cdef list ranges = [], cancelled = []
        cdef Page* page
        cdef int offset, index
        cdef uint64_t task
        cdef RunRecord record
        for index in range(len(tasks)):
            task = tasks[index]
            offset = task & (PAGE_SIZE - 1)
            page = self.columns.find(task)
            if not self.is_with(page, offset, agent.index):
                continue
            if len(attempts) and page.attempt[offset] != <uint32_t> attempts[index]:
                continue
            record = self.columns.record_at(page, offset)
            agent.give_back(record, 1, page.estimate_us[offset], self.take_moving(task))
            self.columns.share.charge(-<double> page.estimate_us[offset])
            if TRANSITIONS[table_of(record)][ON_WITHDRAWN][page.state[offset]].action == DO_TELL_CANCELLED:
                self.nodes.end(page, task, CANCELLED)
                cancelled.append(task)
            elif self.requeue(task) is not None:
                if to_any_agent:
                    page.agent[offset] = OUT_OF_PATIENCE
                extend(ranges, record, task)
        return ranges, cancelled

    def short_tasks(self, uint32_t agent, double limit_us):
        """([tasks], [attempts]) that ``agent`` has, may be started twice, and are known to take no longer."""
        cdef list tasks = [], attempts = []
        cdef PageBox box
        cdef int offset
        cdef RunRecord record
        for number in sorted(self.columns.pages):
            box = <PageBox> self.columns.pages[number]
            for offset in range(PAGE_SIZE):
                if box.page.state[offset] != ASSIGNED or box.page.agent[offset] != agent:
                    continue
                record = self.columns.record_at(box.page, offset)
                if record.hosts_actor:
                    continue  # its duration says nothing about it
                if record.rerun and record.function.samples and record.function.duration_us <= limit_us:
                    tasks.append((box.number << PAGE_BITS) + offset)
                    attempts.append(box.page.attempt[offset])
        return tasks, attempts

    def unfinished_tasks(self, function=None):
        """The tasks that have not ended; ``function``: only those of functions with this name."""
        cdef list tasks = []
        cdef PageBox box
        cdef int offset, state
        for number in sorted(self.columns.pages):
            box = <PageBox> self.columns.pages[number]
            for offset in range(PAGE_SIZE):
                state = box.page.state[offset]
                if state == ENDED or state == DONE_LARGE or state == STORED or state == FREED or state == CANCELLING:
                    continue
                if function is None or self.columns.record_at(box.page, offset).function.is_called(function):
                    tasks.append((box.number << PAGE_BITS) + offset)
        return tasks

    def set_priority(self, function, int64_t priority):
        """The queued tasks get this priority; ``function``: only those of functions with this name. Their queues are
        to be built again. Returns their number."""
        cdef PageBox box
        cdef int offset
        cdef int64_t count = 0
        cdef RunRecord record
        for box in self.columns.pages.values():
            for offset in range(PAGE_SIZE):
                if box.page.state[offset] != QUEUED:
                    continue
                record = self.columns.record_at(box.page, offset)
                if not record.is_call and (function is None or record.function.is_called(function)):
                    if record.set_priority(priority) and self.columns.events.is_on:
                        self.columns.tell_submitted(record)
                    count += 1
        return count

    def deepen(self, uint64_t task, QueueClass queue not None):
        """A queued task waits in this class from now on, as one that is so deep. Returns its record, which no other
        task shares; None: it is not queued."""
        cdef Page* page = self.columns.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef RunRecord record, own
        if page == NULL or page.state[offset] != QUEUED:
            return None
        record = self.columns.record_at(page, offset)
        own = record.deeper(task, queue)
        record.queue.count -= 1
        self.columns.part(page, offset, own)
        return own

    def actors(self):
        """The unfinished tasks that host actors."""
        cdef dict tasks = {}
        cdef RunRecord record
        cdef uint64_t task
        for record in self.columns.records:
            if record is not None and record.hosts_actor:
                for task in range(record.first, record.stop):
                    if self.columns.state(task) != ENDED:
                        tasks[task] = None
        return list(tasks)

    cdef int64_t take_moving(self, uint64_t task) except -1:
        """Return how long what an assigned task needs would take to move; it leaves its agent."""
        return self.moving.pop(task, 0) if self.moving else 0

    cdef bint is_with(self, Page* page, int offset, uint32_t agent) noexcept:
        if page == NULL or page.agent[offset] != agent:
            return False
        return page.state[offset] == ASSIGNED or page.state[offset] == CANCELLING

    def lose(self, uint32_t agent, int losses_limit, int status):
        return self.end_agent(LostTasks(agent, False, losses_limit, status))

    def take_back(self, uint32_t agent, int losses_limit, int status):
        return self.end_agent(LostTasks(agent, True, losses_limit, status))

    cdef tuple end_agent(self, LostTasks lost):
        cdef PageBox box
        self.nodes.forget_copies(lost.agent)
        for number in sorted(self.columns.pages):
            box = <PageBox> self.columns.pages.get(number)
            if box is not None:
                self.lose_page(box, lost)
        for graph in lost.graphs.values():
            self.nodes.settle(graph)
        for task in lost.fatal:
            self.nodes.kill(task, lost.status)
        return lost.ranges, lost.died, lost.cancelled

    cdef lose_page(self, PageBox box, LostTasks lost):
        cdef Page* page = box.page
        cdef int offset
        for offset in range(PAGE_SIZE):
            if page.state[offset] >= ASSIGNED and page.agent[offset] == lost.agent:
                self.lose_task(page, (box.number << PAGE_BITS) + offset, lost)

    cdef lose_task(self, Page* page, uint64_t task, LostTasks lost):
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef int state = page.state[offset]
        cdef RunRecord record = self.columns.record_at(page, offset)
        cdef int action
        self.take_moving(task)
        if (state == STORED or state == DONE_LARGE) and self.nodes.take_copy(page, offset, task):
            return
        if state == STORED:
            self.nodes.lose_stored(page, offset)
            lost.graphs[record.graph.last] = record.graph
            return
        if not lost.has_left and state != CANCELLING:
            page.losses[offset] += 1
        action = TRANSITIONS[table_of(record)][lost.event(page, offset, record)][state].action
        if state == DONE_LARGE:
            self.nodes.count_lost(record)
        if action == DO_TELL_CANCELLED:
            self.nodes.end(page, task, CANCELLED)
            if record.graph is not None:
                self.nodes.tell().ended.append(task)  # reported behind the node that was the reason
            else:
                lost.cancelled.append(task)
        elif record.graph is not None:
            self.nodes.to_pending_again(page, offset)
            lost.graphs[record.graph.last] = record.graph
            if action == DO_GIVE_UP:
                lost.fatal.append(task)
        elif action == DO_GIVE_UP:
            self.nodes.end(page, task, lost.status)
            lost.died.append(task)
        else:
            self.requeue(task)
            extend(lost.ranges, record, task)

    # ---- cancels --------------------------------------------------------------------------------------------------

    def cancel(self, tasks):
        """Returns (tasks that ended, {agent: ([tasks], [attempts])} to be told, {agent: [tasks]} whose large results
        the client no longer needs). None: all tasks."""
        cdef CancelledTasks cancelled = CancelledTasks()
        cdef Page* page
        cdef uint64_t task
        if self.nodes.graphs:
            self.nodes.close_cancelled(tasks)
        if tasks is None:
            tasks = self.columns.all_tasks()
        for task in tasks:
            page = self.columns.find(task)
            if page != NULL:
                self.cancel_task(page, task, cancelled)
        return cancelled.ended, cancelled.told, cancelled.freed

    cdef cancel_task(self, Page* page, uint64_t task, CancelledTasks cancelled):
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef int state = page.state[offset]
        cdef RunRecord record
        cdef int action
        if state == ENDED:
            return
        record = self.columns.record_at(page, offset)
        action = TRANSITIONS[table_of(record)][ON_CANCELLED_BY_CLIENT][state].action
        if action == DO_CANCEL_AT_AGENT:
            self.nodes.to_cancelling(page, offset, task)
            cancelled.tell(page.agent[offset], task, page.attempt[offset])
        elif action == DO_DELIVER:
            self.nodes.deliver_large(page, offset, task)
        elif action == DO_FREE_AT_AGENT:
            for agent in (page.agent[offset], *self.nodes.copies.pop(task, ())):
                cancelled.freed.setdefault(agent, []).append(task)
            self.nodes.end(page, task, SUCCESS_LARGE)
        elif action == DO_TELL_CANCELLED:
            if state == QUEUED:
                record.queue.count -= 1
            cancelled.ended.append(task)
            self.nodes.end(page, task, CANCELLED)

    def release(self, tasks):
        """The client needs these large results no more. Returns those that are not needed: they are to be cancelled. A
        node that is being made again, because its value was lost, may still be needed by others."""
        cdef list unneeded = []
        cdef RunRecord record
        cdef Node* node
        cdef Page* page
        cdef uint64_t task
        cdef int state
        for task in tasks:
            page = self.columns.find(task)
            state = ENDED if page == NULL else page.state[task & (PAGE_SIZE - 1)]
            record = None if state == ENDED else self.columns.record_at(page, task & (PAGE_SIZE - 1))
            if record is None or record.graph is None or state == DONE_LARGE or state == CANCELLING:
                unneeded.append(task)
                continue
            node = record.graph.at(task - record.graph.base)
            if node.uses == 0:
                unneeded.append(task)
                continue
            self.nodes.deliver(record, record.graph, node)
            node.released = 1
            self.nodes.tell().delivered.append(task)
            self.nodes.finish_if_over(record.graph)
        return unneeded

    def abandon(self, dict loads):
        """End what agents still have, without waiting for their answers. ``loads``: by agent."""
        cdef PageBox box
        cdef Page* page
        cdef int offset
        cdef uint64_t task
        cdef AgentLoad load
        for number in sorted(self.columns.pages):
            box = <PageBox> self.columns.pages[number]
            page = box.page
            for offset in range(PAGE_SIZE):
                if page.state[offset] == ASSIGNED or page.state[offset] == CANCELLING:
                    task = (box.number << PAGE_BITS) + offset
                    load = loads.get(page.agent[offset])
                    if load is not None:
                        load.give_back(self.columns.record_at(page, offset), 1, page.estimate_us[offset], self.take_moving(task))
                    self.nodes.end(page, task, CANCELLED)

    def recount(self, Census census):
        """Recount the tasks from their states into ``census``, and compare the counts of this table with that."""
        cdef int64_t seen[STATES]
        cdef int64_t live
        cdef int64_t* left = <int64_t*> calloc(max(1, len(self.columns.records)), sizeof(int64_t))
        cdef PageBox box
        if left == NULL:
            raise MemoryError
        for state in range(STATES):
            seen[state] = 0
        try:
            for number in list(self.columns.pages):
                box = <PageBox> self.columns.pages[number]
                live = self.recount_page(box, census, seen, left)
                if live != box.page.live and census.must_correct(
                    f"{box.page.live} tasks live on page {number}, {live} counted"
                ):
                    box.page.live = <int> live
            self.compare_records(left, census)
        finally:
            free(left)
        for state in range(1, STATES):
            if seen[state] != self.columns.counts[state] and census.must_correct(
                f"{self.columns.counts[state]} tasks in state {state}, {seen[state]} counted"
            ):
                self.columns.counts[state] = seen[state]
        if seen[DECIDING]:
            census.must_correct(f"{seen[DECIDING]} tasks were left undecided")  # the caller decides them
        self.compare_graphs(census)

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
            record = self.columns.record_at(page, start)
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

    cdef compare_records(self, int64_t* left, Census census):
        """Compare the counts of runs and messages. ``left``: how many tasks each run has, by its index."""
        cdef RunRecord record
        cdef dict memories = {}
        cdef int64_t live = 0, index, size = 0
        for index in range(len(self.columns.records)):
            record = <RunRecord> self.columns.records[index]
            if record is None:
                continue
            if record.remaining != left[index] and census.must_correct(
                f"{record.remaining} tasks of a run remain, {left[index]} counted"
            ):
                record.remaining = left[index]
                if record.remaining == 0:
                    self.columns.forget(record)
                    continue
            live += 1
            if record.memory not in memories:
                size += record.memory.size_bytes
            memories[record.memory] = memories.get(record.memory, 0) + 1
        if (live != self.columns.live_records or size != self.columns.message_bytes) and census.must_correct(
            f"{self.columns.live_records} runs in {self.columns.message_bytes} bytes, {live} in {size} counted"
        ):
            self.columns.live_records = live
            self.columns.message_bytes = size
        for memory, records in memories.items():
            if (<MessageMemory> memory).records != records and census.must_correct(
                f"{(<MessageMemory> memory).records} runs of a message remain, {records} counted"
            ):
                (<MessageMemory> memory).records = records

    cdef compare_graphs(self, Census census):
        """Graphs are not put right count by count: they are recounted as after the loss of an agent."""
        cdef Graph graph
        cdef int64_t size = 0
        for graph in list(self.nodes.graphs.values()):
            try:
                self.nodes.check_graph(graph)
            except AssertionError as error:
                if census.must_correct(f"graph {graph.last}: {error}"):
                    self.nodes.amend_graph(graph)
        for graph in self.nodes.graphs.values():
            size += graph.size_bytes
        if size != self.columns.graph_bytes and census.must_correct(
            f"graphs in {self.columns.graph_bytes} bytes, {size} counted"
        ):
            self.columns.graph_bytes = size
        self.compare_copies(census)
        for task in [task for task in self.moving if not self.is_given(task)]:
            if census.must_correct(f"task {task} is to be moved, and is with no agent"):
                del self.moving[task]

    cdef compare_copies(self, Census census):
        for task, agents in list(self.nodes.copies.items()):
            holder = self.nodes.value_holder(task)
            if holder is None or holder in agents or len(set(agents)) < len(agents):
                if census.must_correct(f"copies of {task}, which agent {holder} holds, are at agents {agents}"):
                    del self.nodes.copies[task]

    cdef bint is_given(self, uint64_t task) except -1:
        cdef int state = self.columns.state(task)
        return state == ASSIGNED or state == CANCELLING

    def undecided(self):
        """Tasks that a message has left DECIDING, because handling it raised."""
        cdef list found = []
        cdef PageBox box
        cdef int offset
        if self.columns.counts[DECIDING] == 0:
            return found
        for number in sorted(self.columns.pages):
            box = <PageBox> self.columns.pages[number]
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
        for number in sorted(self.columns.pages):
            box = <PageBox> self.columns.pages[number]
            for offset in range(PAGE_SIZE):
                if box.page.state[offset] == QUEUED:
                    box.page.agent[offset] = NO_AGENT
                    extend(ranges, self.columns.record_at(box.page, offset), (box.number << PAGE_BITS) + offset)
        for record, first, stop in ranges:
            record.queue.push(client, self, record.priority, first, stop)

    def check(self):
        """Assert that counters agree with the columns."""
        cdef Census census = Census()
        self.recount(census)
        assert not census.wrong, census.wrong
