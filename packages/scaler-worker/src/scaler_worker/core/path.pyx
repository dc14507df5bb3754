# cython: language_level=3
"""A task's way through the agent and back. See path.pyi for the contract."""

from libc.stdint cimport int64_t
from scaler_worker.board cimport Handed
from scaler_worker.core.durations cimport Durations
from scaler_worker.core.feeder cimport Feeder
from scaler_worker.core.lease cimport Lease
from scaler_worker.core.processor cimport Processor
from scaler_worker.core.queue cimport TaskQueue
from scaler_worker.core.roster cimport Roster

from scaler_protocol.codec import split_results
from scaler_protocol.effects import Send
from scaler_protocol.link import LinkGap
from scaler_protocol.messages import Acknowledgement, Results, Tasks
from scaler_worker.core.effects import AttachStore, ReadOutput

SCHEDULER = b""
PING_SECONDS = 0.4
LEASE_STEP_SECONDS = 0.05

cdef double _ping_seconds = PING_SECONDS
cdef double _lease_step_seconds = LEASE_STEP_SECONDS


cdef class SlotsPath:
    cdef readonly int64_t slots
    cdef readonly TaskQueue queue
    cdef readonly Durations durations
    cdef readonly object nodes
    cdef readonly dict processors
    cdef readonly dict blocked
    cdef readonly list finished
    cdef readonly object endings
    cdef public bint is_watched
    cdef public bint accepting
    cdef readonly Roster _roster
    cdef readonly Feeder _feeder
    cdef readonly object _starts
    cdef public object _poll_at

    def __init__(
        self, Roster roster, TaskQueue queue, Durations durations, nodes, Feeder feeder, starts, endings
    ):
        self.slots = roster.slots
        self.queue = queue
        self.durations = durations
        self.nodes = nodes
        self.processors, self.blocked = roster.processors, roster.blocked
        self.finished = []
        self.endings = endings
        self.accepting = True
        self._roster = roster
        self._feeder = feeder
        self._starts = starts

    def turn(self, double now, bint may_start):
        if not self.accepting:
            return
        if self.blocked or len(self.processors) < self.slots or self._starts.after:
            self._start_missing(now)
        if not may_start:
            return
        self._feeder.feed()
        if self._feeder.broken:
            for processor in self._feeder.broken:
                self._end_broken(processor)
            self._feeder.broken.clear()
        if self._roster.full:
            self._watch_full(now)
        if self._roster.busy and self.endings.next_at is None:
            if self._feeder.has_timed or self.endings.task_timeout_seconds:
                self._feeder.has_timed = False
                self.endings.next_at = 0.0

    def harvest(self, Processor processor, double now):
        cdef Handed entry
        board = processor.board
        if board is None or not board.has_results():
            return
        self._starts.failures = 0
        harvest = board.harvest(processor.handed, now, self._place_of(processor) if self.is_watched else None)
        if board.broken is not None:
            self._end_broken(processor)
        for entry, count, seconds in harvest.totals:
            self.durations.add(entry.run.function, count, seconds)
        self.finished.extend(harvest.runs)
        if harvest.large or harvest.interrupted or harvest.kept:
            self._take_others(processor, harvest)
        if processor.ending or processor.blocked_sequence is not None:
            self._forget_ended(processor, board.harvested)
        if harvest.has_more:
            self._catch_up(processor)
        for entry in processor.handed:
            if entry.run.options.stream_output:
                self._catch_up(processor)
                break
        self._roster.settle(processor)
        if not processor.handed:
            processor.idle_since = now

    def next_deadline(self):
        first, limits_at = self._poll_at, self.endings.next_at
        if limits_at is not None and (first is None or limits_at < first):
            first = limits_at
        if len(self.processors) == self.slots and not self._starts.after:
            return first
        return self._with_starts(first)


cdef class AgentPath:
    cdef public object slots
    cdef readonly list _effects
    cdef readonly object _objects
    cdef readonly Lease _lease
    cdef public list _outbox
    cdef readonly dict _output_sizes
    cdef readonly dict _retained
    cdef readonly dict _handlers
    cdef readonly bint _suspends
    cdef public object _link
    cdef public bint _welcomed
    cdef public bint _output_waits
    cdef public bint _goodbye_due
    cdef public double _lease_told
    cdef public double _sent_at
    cdef public object _acknowledge_at
    cdef public object _host_store
    cdef public object _stop_at
    cdef public tuple _lent
    cdef dict greetings

    def __init__(self, list effects, objects, Lease lease, link, bint suspends, double now):
        self._effects = effects
        self._objects = objects
        self._lease = lease
        self._link = link
        self._suspends = suspends
        self._sent_at = now
        self._outbox, self._output_sizes, self._retained, self._handlers, self.greetings = [], {}, {}, {}, {}
        self._lent = (0, 0, False)

    def handle(self, dict greetings, dict handlers):
        self.greetings.update(greetings)
        self._handlers.update(handlers)

    # ---- messages --------------------------------------------------------------------------------------------------

    def on_message(self, peer, envelope, double now):
        if self._lease.turn(now):
            self._ask_for_proof(now)
        body = envelope.body
        kind = type(body)
        greeting = self.greetings.get(kind)
        if greeting is not None:
            greeting(body, now)
        elif self._welcomed:
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
            fresh = self._link.accept(envelope)
        except LinkGap as gap:
            self._on_gap(gap, now)
            return False
        if self._output_sizes:
            self._release_output(envelope.acknowledged)
        return fresh

    cdef object take_tasks(self, tasks):
        slots = self.slots
        cdef dict functions = slots.functions
        for definition in tasks.functions:
            functions[definition.digest] = definition
        for definition in tasks.serializers:
            slots.serializers[definition.digest] = definition
        for run in tasks.runs:
            try:
                definition = functions.get(run.function)
                if definition is None or not definition.payload or is_special(run):
                    self._accept(run)
                else:
                    (<TaskQueue?> slots.queue).push(run)
            except Exception as error:
                self._refuse(run, error)

    def on_processor_news(self, number, double now):
        if self._lease.turn(now):
            self._ask_for_proof(now)
        processor = self.slots.processors.get(number)
        if processor is not None:
            self.slots.harvest(processor, now)
            if self._host_store is None and self._objects.stored:
                self._effects.append(AttachStore())  # a result is in the host's store, which is not known yet

    # ---- the end of a drain ----------------------------------------------------------------------------------------

    def take_effects(self, double now):
        cdef double lease = self._lease.until
        cdef list effects
        slots = self.slots
        if lease > self._lease_told + _lease_step_seconds or lease < self._lease_told:
            self._tell_lease(lease)
        slots.turn(now, self._welcomed and lease > now)
        if self._suspends:
            slots.suspend_blocked()
        if slots.blocked or self._lent[0]:
            self._note_lent()
        if self._stop_at is not None:
            self._give_back()
            self._advance_stop(now)
        if self._output_waits and not self.is_full_of_output:
            self._output_waits = False
            self._effects.append(ReadOutput())
        if self._welcomed:
            self.flush(now)
        effects = self._effects[:]
        self._effects.clear()
        return effects

    cdef object flush(self, double now):
        slots = self.slots
        if self._outbox or slots.rows.waiting or slots.given_back:
            self._flush(now)
        if slots.finished:
            self.send_results(now)
        if self._goodbye_due:
            self._say_goodbye(now)
        self._acknowledge_at = self._link.acknowledgement_at(now)
        if self._acknowledge_at is not None and now >= <double> self._acknowledge_at:
            self._send(self._link.wrap(Acknowledgement()), now)
            self._acknowledge_at = None

    cdef object send_results(self, double now):
        cdef list finished = self.slots.finished
        for runs in split_results(finished):
            envelope = self._link.wrap(Results(runs))
            self._retained[envelope.sequence] = runs
            self._effects.append(Send(SCHEDULER, envelope))
        self._sent_at = now
        finished.clear()

    def _send(self, envelope, double now):
        self._sent_at = now
        self._effects.append(Send(SCHEDULER, envelope))

    # ---- time ------------------------------------------------------------------------------------------------------

    def next_deadline(self):
        first = self.slots.next_deadline()
        if not self._welcomed or self._stop_at is not None:
            return self._next_deadline_unusual(first)
        cdef double due = self._sent_at + _ping_seconds
        if self._acknowledge_at is not None and <double> self._acknowledge_at < due:
            due = self._acknowledge_at
        return due if first is None or due < <double> first else first


cdef bint is_special(object run) except -1:
    """It needs more than its function."""
    return run.has_references or bool(run.serializer) or run.options.graph != 0
