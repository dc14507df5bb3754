# cython: language_level=3
"""The hot path of the agent: what each message of tasks and each result costs. See hot_path.pyi for the contract."""

from libc.stdint cimport int64_t
from scaler_worker.board cimport DispatchedRun
from scaler_worker.core.durations cimport Durations
from scaler_worker.core.prefetch cimport Prefetcher
from scaler_worker.core.lease cimport Lease
from scaler_worker.core.outbox cimport Outbox
from scaler_worker.core.worker_process cimport WorkerProcess
from scaler_worker.core.queue cimport TaskQueue
from scaler_worker.core.roster cimport Roster
from scaler_worker.core.state cimport AgentState

from scaler_protocol.codec import split_results
from scaler_protocol.effects import Send
from scaler_protocol.link import LinkGap
from scaler_protocol.messages import Acknowledgement, Results, Tasks
from scaler_worker.core.effects import AttachStore, ReadOutput

SCHEDULER = b""
PING_SECONDS = 0.4
LEASE_STEP_SECONDS = 0.05
ACKNOWLEDGEMENT_SECONDS = 0.1

cdef double _ping_seconds = PING_SECONDS
cdef double _lease_step_seconds = LEASE_STEP_SECONDS
cdef double _acknowledgement_seconds = ACKNOWLEDGEMENT_SECONDS


cdef class SlotsHotPath:
    cdef readonly double lease_told
    cdef public object poll_at
    cdef AgentState _state
    cdef Durations _durations
    cdef Roster _roster
    cdef Prefetcher _prefetcher
    cdef object _starts
    cdef object _timeouts
    cdef object _rules
    cdef bint _suspends
    cdef dict _actors_due

    def __init__(
        self, AgentState state, Roster roster, Durations durations, Prefetcher prefetcher, starts, timeouts, rules, bint suspends
    ):
        self._state = state
        self._roster = roster
        self._durations = durations
        self._prefetcher = prefetcher
        self._starts = starts
        self._timeouts = timeouts
        self._rules = rules
        self._suspends = suspends
        self._actors_due = state.actors.due

    def turn(self, double now, bint may_start):
        cdef double lease = self._state.lease.until
        if lease > self.lease_told + _lease_step_seconds or lease < self.lease_told:
            self.lease_told = lease
            self._rules.set_lease(lease)
        if self._actors_due:
            self._rules.serve_actors(may_start)
        if self._state.accepting:
            self.fill(now, may_start)
        if self._suspends:
            self._rules.suspend_blocked()
        if self._roster.blocked or self._state.lent[0] or self._state.queue.environments:
            self._rules.note_lent()

    cdef object fill(self, double now, bint may_start):
        """Start missing worker processes and give each one the tasks that it needs."""
        roster, prefetcher = self._roster, self._prefetcher
        if roster.worn:
            self._rules.end_worn()
        if roster.blocked or len(roster.processes) < roster.slots or self._starts.after:
            self._rules.start_missing(now)
        if not may_start:
            return
        if roster.in_environments or self._state.queue.environments:
            self._rules.fill_environments(now)
        else:
            prefetcher.fill()
        if prefetcher.broken:
            self.end_broken()
        if roster.full:
            self._rules.watch_full(now)
        if roster.busy and self._timeouts.next_at is None:
            if prefetcher.has_timed or self._timeouts.task_timeout_seconds:
                prefetcher.has_timed = False
                self._timeouts.next_at = 0.0

    cdef object end_broken(self):
        for process in self._prefetcher.broken:
            self._rules.end_broken(process)
        self._prefetcher.broken.clear()

    def harvest_number(self, number, double now):
        process = self._roster.processes.get(number)
        if process is not None:
            self.harvest(process, now)
            if self._state.host_store is None and self._state.objects.stored:
                self._state.outbox.add(AttachStore())  # a result is in the host's store, which is not known yet

    def on_news(self, number, double now):
        self.harvest_number(number, now)
        for process in list(self._roster.busy.values()):
            self.harvest(process, now)

    cpdef object harvest(self, WorkerProcess process, double now):
        cdef DispatchedRun entry
        board = process.board
        if board is None:
            return
        if not board.has_results():
            if board.has_left_out_tasks():
                self._rules.end_broken(process)
            return
        self._starts.failures = 0
        process.polled_position = -1
        harvest = board.harvest(
            process.dispatched, now, self._rules.worker_index(process) if self._state.is_watched else None
        )
        if board.broken is not None:
            self._rules.end_broken(process)
        for entry, count, seconds in harvest.totals:
            self._durations.add(entry.run.function, count, seconds)
        if process.is_dedicated:
            self._rules.take_constructed(process, harvest, now)
        self._state.finished.extend(harvest.runs)
        if harvest.large or harvest.interrupted or harvest.kept:
            self._rules.take_others(process, harvest)
        if process.ending or process.blocked_sequence is not None:
            self._rules.forget_ended(process)
        if harvest.has_more or streams_output(process):
            self._state.objects.catch_up(process.number)
        self._roster.settle(process)
        if not process.dispatched:
            process.idle_since = now

    def next_deadline(self):
        first, limits_at = self.poll_at, self._timeouts.next_at
        if limits_at is not None and (first is None or limits_at < first):
            first = limits_at
        roster = self._roster
        if len(roster.processes) == roster.slots and not self._starts.after and not roster.in_environments:
            return first
        return self._rules.deadline_with_starts(first)


cdef bint streams_output(WorkerProcess process) except -1:
    cdef DispatchedRun entry
    for entry in process.dispatched:
        if entry.run.options.stream_output:
            return True
    return False


cdef class AgentHotPath:
    cdef AgentState _state
    cdef Outbox _outbox
    cdef Lease _lease
    cdef object _backend
    cdef object _rules
    cdef dict _greetings
    cdef dict _handlers

    def __init__(self, AgentState state, backend, rules, dict greetings, dict handlers):
        self._state, self._outbox, self._lease = state, state.outbox, state.lease
        self._backend = backend
        self._rules = rules
        self._greetings, self._handlers = greetings, handlers

    # ---- messages --------------------------------------------------------------------------------------------------

    cpdef object turn(self, double now):
        if self._lease.turn(now):
            self._rules.ask_for_proof(now)

    def on_message(self, peer, envelope, double now):
        self.turn(now)
        body = envelope.body
        kind = type(body)
        greeting = self._greetings.get(kind)
        if greeting is not None:
            greeting(body, now)
        elif self._state.welcomed:
            self._lease.heard(now)
            if self.is_fresh(envelope, now):
                if kind is Tasks:
                    self.take_tasks(body)
                else:
                    handler = self._handlers.get(kind)
                    if handler is not None:
                        handler(body, now)

    cdef bint is_fresh(self, envelope, double now) except -1:
        try:
            fresh = self._state.link.accept(envelope)
        except LinkGap as gap:
            self._rules.on_gap(gap, now)
            return False
        if self._state.output_sizes:
            self._rules.release_output(envelope.acknowledged)
        return fresh

    cdef object take_tasks(self, tasks):
        cdef dict functions = self._state.functions
        for definition in tasks.functions:
            functions[definition.digest] = definition
        for definition in tasks.serializers:
            self._state.serializers[definition.digest] = definition
            if definition.environment:
                self._state.queue.environments[definition.digest] = definition.environment
        for run in tasks.runs:
            try:
                definition = functions.get(run.function)
                if definition is None or not definition.payload or is_special(run):
                    self._rules.accept(run)
                else:
                    self._state.queue.push(run)
            except Exception as error:
                self._rules.refuse(run, error)

    # ---- the end of a turn -----------------------------------------------------------------------------------------

    def take_effects(self, double now):
        state = self._state
        self._backend.turn(now, state.welcomed and self._lease.until > now)
        if state.stop_at is not None:
            self._rules.advance_stop(now)
        if state.output_waits and not self._rules.is_full_of_output:
            state.output_waits = False
            self._outbox.add(ReadOutput())
        if state.welcomed:
            self.flush(now)
        return self._outbox.take()

    cdef object flush(self, double now):
        state = self._state
        if state.unsent or state.rows.waiting or state.given_back:
            self._rules.send_unsent(now)
        if state.finished:
            self.send_results(now)
        if state.report_ends:
            self._rules.end_report(now)
        if state.goodbye_due:
            self._rules.say_goodbye(now)
        state.acknowledge_at = state.link.acknowledgement_at(now, _acknowledgement_seconds)
        if state.acknowledge_at is not None and now >= <double> state.acknowledge_at:
            send(state, state.link.wrap(Acknowledgement()), now)
            state.acknowledge_at = None

    cdef object send_results(self, double now):
        cdef list finished = self._state.finished
        for runs in split_results(finished):
            envelope = self._state.link.wrap(Results(runs))
            self._state.retained[envelope.sequence] = runs
            self._outbox.add(Send(SCHEDULER, envelope))
        self._state.sent_at = now
        finished.clear()

    # ---- time ------------------------------------------------------------------------------------------------------

    def next_deadline(self):
        first = self._backend.next_deadline()
        state = self._state
        if not state.welcomed or state.stop_at is not None:
            return self._rules.unusual_deadline(first)
        cdef double due = max(state.sent_at, state.looked_at) + _ping_seconds
        if state.acknowledge_at is not None and <double> state.acknowledge_at < due:
            due = state.acknowledge_at
        return due if first is None or due < <double> first else first


cpdef object send(AgentState state, envelope, double now):
    state.sent_at = now
    state.outbox.add(Send(SCHEDULER, envelope))


cdef bint is_special(object run) except -1:
    """It needs more than its function."""
    options = run.options
    return run.has_references or bool(run.serializer) or options.graph != 0 or options.actor != 0 or options.hosts_actor
