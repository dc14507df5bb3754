# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The tasks that one agent is assigned in one turn. See assignments.pyi for the contract."""

from dataclasses import replace

from scaler_protocol import limits

from cython cimport final
from libc.stdint cimport int64_t, uint32_t, uint64_t
from scaler_scheduler.core.agent_loads cimport HORIZON_US, AgentLoad
from scaler_scheduler.core.events cimport Recorder
from scaler_scheduler.core.function_loads cimport FunctionLoad
from scaler_scheduler.core.graph cimport Graph, Node
from scaler_scheduler.core.inputs cimport Inputs
from scaler_scheduler.core.pages cimport OUT_OF_PATIENCE, PAGE_SIZE, Page
from scaler_scheduler.core.data_locations cimport DataLocations
from scaler_scheduler.core.priority_queues cimport ClientQueue, QueueClass
from scaler_scheduler.core.reservations cimport Reservation, pop_reserved, reserve
from scaler_scheduler.core.run_records cimport RunRecord
from scaler_scheduler.core.fair_shares cimport ShareGroup
from scaler_scheduler.core.states cimport ASSIGNED, PENDING, QUEUED
from scaler_scheduler.core.task_table cimport TaskTable

cdef enum:
    NEGLIGIBLE_US = 500
    CHUNK_US = 1000  # of work per worker: less than that costs more to send than it gains to spread it
    CHUNKS_LIMIT = 4  # where there are many agents
    CHUNK_AGENTS = 16
    TURN_US = 4000  # what a client is given before it is the next one's turn; at least one task
    NO_BOUND = 0x7FFFFFFF
    HIGHEST_PRIORITY = 0x7FFFFFFF

cdef double REAL_LIMIT = limits.REAL_LIMIT


@final
cdef class Assignment:
    """The tasks that one agent is assigned in one turn, and how many more it has room for."""
    cdef AgentLoad agent
    cdef QueueClass source
    cdef DataLocations locations
    cdef list runs
    cdef int64_t share
    cdef int64_t free
    cdef int64_t room
    cdef int64_t budget_us
    cdef int64_t chunk_us
    cdef int64_t taken
    cdef int64_t taken_us
    cdef int64_t turn
    cdef int64_t turn_us
    cdef int64_t raised
    cdef bint full
    cdef bint agent_full
    cdef bint was_idle
    cdef dict fresh  # by table and by the steps of priority that its client was raised
    cdef Recorder events

    def __init__(self, AgentLoad agent, QueueClass source, DataLocations locations, int64_t share):
        self.fresh = {}
        cdef int here = agent.deep(source.depth)
        self.agent = agent
        self.source = source
        self.locations = locations
        self.runs = []
        self.share = share
        self.free = max(0, agent.usable(source.depth) - here)
        self.room = min(agent.limit() - here, agent.fits(source.demand))
        self.budget_us = agent.budget_us(source.depth)
        self.chunk_us = CHUNK_US * agent.slots * max(1, min(CHUNKS_LIMIT, len(source.candidates) // CHUNK_AGENTS))
        self.full = self.agent_full = self.room <= 0
        self.was_idle = agent.outstanding < agent.slots + agent.lent

    cdef give(self, TaskTable table, RunRecord record, uint64_t first, uint64_t stop, uint32_t attempt):
        cdef list last
        self.events = table.columns.events
        if self.was_idle:  # nothing has waited there until now
            self.agent.progress_at = max(self.agent.progress_at, table.columns.events.now)
        if self.runs:
            last = <list> self.runs[len(self.runs) - 1]
            if last[0] is record and last[2] == first and last[3] == attempt and last[4] == self.raised:
                last[2] = stop
                return
        self.runs.append([record, first, stop, attempt, self.raised])

    cdef list pieces(self):
        cdef RunRecord record
        cdef Recorder events = self.events
        cdef list found = []
        for record, first, stop, attempt, raised in self.runs:
            if record.submitted_at and record.graph is not None:
                self.add_timed(found, record, first, stop, attempt, raised)
            else:
                found.append(piece_of(record, first, stop, attempt, raised))
            if events.is_on:
                events.handed(record.session, record.function.named(events), self.agent.index, first, stop, attempt)
        return found

    cdef add_timed(self, list found, RunRecord record, uint64_t first, uint64_t stop, uint32_t attempt, int64_t raised):
        """Add the nodes of a range as runs that state when their inputs were there, for spans."""
        cdef uint64_t task
        for task in range(first, stop):
            run = piece_of(record, task, task + 1, attempt, raised)
            found.append(run.with_options(replace(run.options, ready_at=self.ready_at(record, task))))

    cdef double ready_at(self, RunRecord record, uint64_t task) except? -1.0:
        """Return when the inputs of a node were there, by the clock of its client; 0: some are missing."""
        cdef Graph graph = record.graph
        cdef double now = self.events.now
        cdef int64_t ready_us = graph.waited_us(task, now)
        if graph.at(task - graph.base).pending:
            return 0.0
        if ready_us < 0:
            return record.submitted_at
        return min(REAL_LIMIT, record.submitted_at + max(0.0, now - record.entered_at - ready_us * 1e-6))

    cdef take(self, ClientQueue queue, int64_t turn_us):
        """Take from the front of the current range, one run after another, for at most one turn."""
        cdef ShareGroup group = queue.share.group
        self.turn = group.worker_limit - group.running if group.worker_limit else NO_BOUND
        self.turn_us = turn_us
        self.raised = queue.rank - queue.priority
        while queue.first < queue.stop and not self.full and self.may_go_on():
            self.take_run(queue)

    cdef inline bint may_go_on(self) noexcept:
        """Return whether it is still the same client's turn."""
        return self.turn > 0 and self.turn_us > 0

    cdef charge(self, TaskTable table, int64_t number, int64_t us):
        """Charge the client of a table for tasks that were assigned to it, at their estimated durations."""
        table.columns.share.charge(us)
        table.columns.share.group.running += number

    cdef take_run(self, ClientQueue queue):
        """Take the first tasks of the current range, as far as they belong to one run."""
        cdef TaskTable table = <TaskTable> queue.table
        cdef uint64_t task = queue.first
        cdef Page* page = table.columns.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef RunRecord record
        if page == NULL or page.state[offset] != QUEUED:
            queue.first += 1
            return
        record = table.columns.record_at(page, offset)
        if record.queue is not self.source:
            queue.first += 1
        elif self.has_weight(record):
            self.take_large(queue, table, page, record)
        else:
            self.take_alike(queue, table, page, record)

    cdef take_alike(self, ClientQueue queue, TaskTable table, Page* page, RunRecord record):
        """Take tasks of one run that have the same attempt, as far as the agent has room."""
        cdef uint64_t start = queue.first, task = queue.first
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef uint32_t attempt = page.attempt[offset], run = page.run[offset]
        cdef uint32_t estimate = record.function.estimate()
        cdef int64_t number
        while task < queue.stop and self.admit(record.function, estimate):
            page.state[offset] = ASSIGNED
            page.agent[offset] = self.agent.index
            page.estimate_us[offset] = estimate
            task += 1
            offset = task & (PAGE_SIZE - 1)
            if offset == 0:
                page = table.columns.find(task)
            if (page == NULL or page.state[offset] != QUEUED or page.run[offset] != run
                    or page.attempt[offset] != attempt):
                break
        queue.first = task
        number = <int64_t> (task - start)
        if number:
            table.columns.counts[QUEUED] -= number
            table.columns.counts[ASSIGNED] += number
            self.source.count -= number
            self.agent.take(record, number, number * estimate)
            self.charge(table, number, number * estimate)
            self.give(table, record, start, task, attempt)
            if record.graph is not None:
                self.follow(table, record.graph, start, task)

    cdef inline bint has_weight(self, RunRecord record) except -1:
        """Return whether it matters which agent gets tasks of a run, because they may need many bytes."""
        if not record.has_uploads and (record.graph is None or not record.graph.has_large):
            return False
        return len(self.source.served) > 1

    cdef Inputs inputs_of(self, TaskTable table, RunRecord record, uint64_t task):
        cdef Inputs inputs = Inputs(self.locations)
        if record.graph is not None and record.graph.has_large:
            inputs.add_values(table, record.graph, task)
        if record.has_uploads:
            inputs.add_uploads(record.run.slice(task - record.first, task - record.first + 1).uploads())
        return inputs

    cdef take_large(self, ClientQueue queue, TaskTable table, Page* page, RunRecord record):
        """A task that needs many bytes is assigned to this agent, or reserved for another agent that has them."""
        cdef uint64_t task = queue.first
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef uint32_t estimate = record.function.estimate()
        cdef Inputs inputs
        cdef AgentLoad other
        cdef double now = table.columns.events.now
        if not self.may_admit(record.function, estimate):
            return
        queue.first += 1
        inputs = self.inputs_of(table, record, task)
        other = self.better(inputs, page.agent[offset] == OUT_OF_PATIENCE, now)
        if other is not None:
            reserve(other, Reservation(now + inputs.missing_us(self.agent.index) / 1e6, queue.client, table, task, self.raised))
            self.source.reserving.append(other)
            return
        self.admit(record.function, estimate)
        self.assign(table, page, task, record, inputs)
        self.give(table, record, task, task + 1, page.attempt[offset])
        if record.graph is not None:
            self.follow(table, record.graph, task, task + 1)

    cdef AgentLoad better(self, Inputs inputs, bint is_urgent, double now):
        """The agent where a task would start earliest, or None if that is this agent. Such an agent has bytes of the
        task, and the task's turn comes there sooner than the bytes could be moved here. ``is_urgent``: only an agent
        where the task starts at once."""
        cdef AgentLoad found = None, other
        cdef double waiting_us, us, least_us
        if inputs.missing_us(self.agent.index) == 0.0:
            return None
        least_us = self.agent.waiting_us(now) + inputs.missing_us(self.agent.index) - NEGLIGIBLE_US
        for index in inputs.held:
            other = self.source.served.get(index)
            if other is None or other is self.agent or not other.can_hold(self.source):
                continue
            if not self.source.admits(other.session):
                continue
            waiting_us = other.waiting_us(now)
            us = waiting_us + inputs.missing_us(other.index)
            if us < least_us and not (is_urgent and waiting_us > 0):
                found = other
                least_us = us
        return found

    cdef inline bint may_wait(self, FunctionLoad function, uint32_t estimate) noexcept:
        """Return whether a task may be prefetched while others run. The last one may be longer than what is left of the
        horizon. Otherwise a worker whose tasks are that long would have none prefetched and would be idle for every
        round trip. Distance extends the horizon, and a task may be this long, only if its duration is known: others may
        last for hours."""
        cdef int64_t longest = self.agent.longest_ahead_us(), budget = self.budget_us
        if function.samples == 0:
            budget -= (self.agent.horizon_us - HORIZON_US) * self.agent.slots
            longest = 2 * HORIZON_US
        return budget >= estimate or (budget > 0 and estimate <= longest)

    cdef inline bint may_admit(self, FunctionLoad function, uint32_t estimate) noexcept:
        if not self.may_go_on():
            return False
        if self.taken >= self.share and self.taken_us >= self.chunk_us and self.room > 0:
            self.full = True
            return False
        if self.room <= 0 or not (self.free > 0 or self.may_wait(function, estimate)):
            self.full = self.agent_full = True
            return False
        return True

    cdef inline bint admit(self, FunctionLoad function, uint32_t estimate) noexcept:
        if not self.may_admit(function, estimate):
            return False
        if self.free > 0:
            self.free -= 1
        else:
            self.budget_us -= estimate
        self.room -= 1
        self.turn -= 1
        self.turn_us -= estimate
        self.taken += 1
        self.taken_us += estimate
        return True

    # ---- fragments of graphs: what waits only for tasks of this agent goes with them -------------------------------

    cdef follow(self, TaskTable table, Graph graph, uint64_t first, uint64_t stop):
        """These nodes are assigned: note the dependants that wait only for tasks of this agent."""
        cdef uint64_t task
        cdef uint32_t at
        cdef Node* dependant
        cdef tuple key = (table, self.raised)
        cdef list tasks = self.fresh.get(key)
        for task in range(first, stop):
            at = graph.at(task - graph.base).head
            while at:
                dependant = graph.at(graph.edges[at - 1].dependant)
                dependant.open -= 1
                if dependant.open == 0:
                    if tasks is None:
                        tasks = self.fresh[key] = []
                    tasks.append(graph.base + graph.edges[at - 1].dependant)
                at = graph.edges[at - 1].next

    cdef extend_fragments(self):
        """Assign what may follow, in rounds: each has all that the round before has opened, so neighbours meet."""
        cdef dict fresh
        cdef list tasks
        while self.fresh:
            fresh, self.fresh = self.fresh, {}
            for (table, self.raised), tasks in fresh.items():
                tasks.sort()
                self.extend_round(table, tasks)

    cdef extend_round(self, TaskTable table, list tasks):
        """Assign those of ``tasks`` that may go to this agent as well; neighbours go as one run."""
        cdef int64_t index, count = len(tasks)
        cdef uint64_t task, first = 0, stop = 0
        cdef RunRecord record, current = None
        cdef uint32_t attempt = 0
        cdef Page* page
        cdef int offset
        for index in range(count):
            task = tasks[index]
            page = self.candidate(table, task)
            if page == NULL:
                continue
            offset = task & (PAGE_SIZE - 1)
            record = table.columns.record_at(page, offset)
            if not self.admit_more(record.function, record.function.estimate()):
                self.agent.deferred.extend([(table, each, self.raised) for each in tasks[index:]])
                break
            if record is not current or task != stop or page.attempt[offset] != attempt:
                self.send_fragment(table, current, first, stop, attempt)
                current, first, attempt = record, task, page.attempt[offset]
            self.assign(table, page, task, record)
            stop = task + 1
        self.send_fragment(table, current, first, stop, attempt)

    cdef Page* candidate(self, TaskTable table, uint64_t task) except? NULL:
        cdef Page* page = table.columns.find(task)
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef RunRecord record
        if page == NULL or (page.state[offset] != PENDING and page.state[offset] != QUEUED):
            return NULL
        record = table.columns.record_at(page, offset)
        if record.queue is not self.source or record.graph is None or table.columns.share.group.worker_limit:
            return NULL
        if page.state[offset] == PENDING and not table.nodes.inputs_are_at(record.graph, task, self.agent.index):
            return NULL
        if page.state[offset] == PENDING and self.has_weight(record) and self.is_far(table, record, task):
            return NULL
        return page

    cdef bint is_far(self, TaskTable table, RunRecord record, uint64_t task) except -1:
        """Return whether many of the bytes that a task needs are elsewhere: its agent is chosen when the task is
        ready."""
        return self.inputs_of(table, record, task).missing_us(self.agent.index) > 0.0

    cdef assign(self, TaskTable table, Page* page, uint64_t task, RunRecord record, Inputs inputs=None):
        """Assign one task. ``inputs``: those of the task, if they are known already."""
        cdef int offset = task & (PAGE_SIZE - 1)
        cdef uint32_t estimate = record.function.estimate()
        cdef int64_t moving_us = 0
        if inputs is None and self.has_weight(record):
            inputs = self.inputs_of(table, record, task)
        if inputs is not None:
            record.has_moving = True
            moving_us = <int64_t> self.locations.moving_us(inputs.total)
        if page.state[offset] == QUEUED:
            self.source.count -= 1
        table.columns.move(page, offset, ASSIGNED)
        page.agent[offset] = self.agent.index
        page.estimate_us[offset] = estimate
        if moving_us:
            table.moving[task] = moving_us
        self.agent.take(record, 1, estimate, moving_us)
        self.charge(table, 1, estimate)

    cdef assign_reserved(self):
        """Assign what is reserved for the agent, as far as it has room."""
        cdef Reservation reservation = pop_reserved(self.agent, self.source)
        cdef Page* page
        cdef int offset
        while reservation is not None:
            if (<TaskTable> reservation.table).columns.share.group.is_full() or not self.admit(
                    reservation.record.function, reservation.record.function.estimate()):
                reserve(self.agent, reservation)
                return
            self.raised = reservation.raised
            page = reservation.table.columns.find(reservation.task)
            offset = reservation.task & (PAGE_SIZE - 1)
            self.assign(reservation.table, page, reservation.task, reservation.record)
            self.give(
                reservation.table, reservation.record, reservation.task, reservation.task + 1, page.attempt[offset]
            )
            if reservation.record.graph is not None:
                self.follow(reservation.table, reservation.record.graph, reservation.task, reservation.task + 1)
            reservation = pop_reserved(self.agent, self.source)

    cdef send_fragment(self, TaskTable table, RunRecord record, uint64_t first, uint64_t stop, uint32_t attempt):
        if record is not None:
            self.give(table, record, first, stop, attempt)
            self.follow(table, record.graph, first, stop)

    cdef bint admit_more(self, FunctionLoad function, uint32_t estimate) noexcept:
        if self.room <= 0:
            return False
        if self.free > 0:
            self.free -= 1
        elif self.may_wait(function, estimate):
            self.budget_us -= estimate
        else:
            return False
        self.room -= 1
        return True


cdef piece_of(RunRecord record, uint64_t first, uint64_t stop, uint32_t attempt, int64_t raised):
    run = record.piece(first, stop, attempt)
    return run if raised == 0 else raised_by(run, raised)


def raised_by(run, int64_t steps):
    """The run as if its client had given it a higher priority, so that it does not wait for others at the agent."""
    options = run.options
    return run.with_options(replace(options, priority=min(HIGHEST_PRIORITY, options.priority + steps)))


cpdef tuple assign_queued(
    QueueClass source, AgentLoad agent, DataLocations locations, int64_t share, double now=0.0,
    double aging_seconds=0.0, bint one_turn=False, bint starts_only=False
):
    """Assign tasks of a class to ``agent`` until it is full, or has ``share`` of them that last a while, or for one
    turn. ``starts_only``: nothing is prefetched. Returns task runs ready to be sent, and whether the agent may take
    more."""
    cdef Assignment assignment = Assignment(agent, source, locations, share)
    cdef ClientQueue queue
    cdef int64_t taken
    if starts_only:
        assignment.budget_us = -1
    if source.count == 0:
        source.by_priority.clear()
        return [], True
    while not assignment.full:
        queue = source.next_queue(now, aging_seconds)
        if queue is None:
            break
        taken = assignment.taken
        queue.begin_turn()
        assignment.take(queue, NO_BOUND if queue.is_alone and not one_turn else TURN_US)
        if assignment.taken > taken:
            queue.end_turn(now, aging_seconds)
        if one_turn and assignment.runs:
            break
    assignment.extend_fragments()
    return assignment.pieces(), not assignment.agent_full


cpdef list assign_calls(QueueClass source, AgentLoad agent, DataLocations locations):
    """Assign all calls of an actor to the agent that has it, those of each client in order. They take no slot, so
    the load of the agent does not matter. Returns task runs ready to be sent."""
    cdef Assignment assignment = Assignment(agent, source, locations, NO_BOUND)
    cdef ClientQueue queue
    for queue in source.take_queues():
        queue.sort()
        while queue.advance():
            assignment.full = False
            assignment.room = assignment.free = assignment.turn = assignment.turn_us = NO_BOUND
            assignment.take_run(queue)
    return assignment.pieces()


cpdef list assign_reserved(AgentLoad agent, DataLocations locations):
    """Assign the tasks that are reserved for ``agent``, as far as it has room: deeper ones first. Returns task runs
    ready to be sent."""
    cdef QueueClass queue
    cdef Assignment assignment
    cdef list runs = []
    for queue in sorted(agent.reserved, key=depth_of, reverse=True):
        assignment = Assignment(agent, queue, locations, NO_BOUND)
        assignment.turn = assignment.turn_us = NO_BOUND
        assignment.assign_reserved()
        assignment.extend_fragments()
        runs.extend(assignment.pieces())
    return runs


def depth_of(QueueClass queue):
    return queue.depth


cpdef list assign_deferred(AgentLoad agent, DataLocations locations):
    """Assign the nodes for which ``agent`` had no room before, and those whose inputs it holds. Returns task runs ready
    to be sent."""
    cdef list waiting = agent.deferred, runs = []
    cdef dict by_queue = {}, fresh
    cdef QueueClass queue
    cdef Assignment assignment
    agent.deferred = []
    for table, task, raised in waiting:
        queue = queue_of(table, task)
        if queue is not None and queue.admits(agent.session):
            fresh = by_queue.setdefault(queue, {})
            fresh.setdefault((table, raised), []).append(task)
    for queue, fresh in by_queue.items():
        assignment = Assignment(agent, queue, locations, 0)
        assignment.fresh = fresh
        assignment.extend_fragments()
        runs.extend(assignment.pieces())
    return runs


cdef QueueClass queue_of(TaskTable table, uint64_t task):
    cdef Page* page = table.columns.find(task)
    cdef int offset = task & (PAGE_SIZE - 1)
    if page == NULL or (page.state[offset] != PENDING and page.state[offset] != QUEUED):
        return None
    return table.columns.record_at(page, offset).queue
