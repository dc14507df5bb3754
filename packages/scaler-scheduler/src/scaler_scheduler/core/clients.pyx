# cython: language_level=3
"""The scheduler's state of one client. See clients.pyi for the contract."""

from collections import deque

from libc.stdint cimport int64_t
from scaler_scheduler.core.connections cimport PeerConnection
from scaler_scheduler.core.deliveries cimport Delivery
from scaler_scheduler.core.task_table cimport TaskTable

from scaler_protocol.codec import ResultRun
from scaler_protocol.ids import shown_id
from scaler_protocol.link import Link
from scaler_protocol.messages import MESSAGE_LIMIT_BYTES, Results
from scaler_scheduler.core.holds import Holds
from scaler_scheduler.core.known_agents import KnownAgents
from scaler_scheduler.core.settings import HOLD_ONCE_SECONDS, HOLD_SECONDS, RESULT_BUDGET_BYTES

cdef int64_t ROW_BYTES = 48
cdef int64_t MESSAGE_BYTES = 256
cdef int64_t GROUP_LIMIT_BYTES = MESSAGE_LIMIT_BYTES * 9 // 10


cdef class ClientPeer:
    def __init__(self, hello, route, totals, double now):
        self.session, self.shown_id = hello.session, shown_id(hello.session)
        self.hello, self.user, self.route = hello, b"", route
        self.link = Link(self.on_acknowledged)
        self.connection = PeerConnection(self.session, route, self.link, 0.0)
        self.table = TaskTable(self.session, totals)
        self.budget_bytes = RESULT_BUDGET_BYTES
        self.outgoing, self.rows, self.deliveries = [], [], {}
        self.functions, self.serializers, self.unwanted, self.objects = {}, {}, {}, {}
        self.holds, self.once_holds = Holds(HOLD_SECONDS), Holds(HOLD_ONCE_SECONDS)
        self.known_agents = KnownAgents()
        self.waiting, self.stated_cancels, self.asked_cancels = deque(), {}, {}
        self.states_until = now + HOLD_SECONDS
        self.unsent, self.unsent_since = (), now
        self.certificates, self.failures, self.large, self.fetching = {}, {}, {}, {}
        self.large_bytes = {}

    @property
    def is_reachable(self):
        return not self.is_orphan

    cdef forward(self, run, Delivery delivery):
        """Send a run at the end of this turn; what it came from is released when the client has it."""
        if not self.is_orphan:
            delivery.hold()
            self.outgoing.append((run, delivery))

    def row(self, task, status, payload=b"", attempt=0):
        if not self.is_orphan:
            self.rows.append((task, attempt, status, payload, 0, 0, 0))

    cdef list take_results(self):
        """The results to send now, in messages under the limit: body, deliveries, bytes."""
        cdef list groups = [], runs, deliveries
        cdef int64_t size = GROUP_LIMIT_BYTES, cost
        if self.rows:
            for run in runs_of(self.session, self.rows):
                self.outgoing.append((run, None))
            self.rows = []
        for run, delivery in self.outgoing:
            cost = <int64_t> run.payload_bytes + <int64_t> run.count * ROW_BYTES
            if size + cost > GROUP_LIMIT_BYTES:
                runs, deliveries, size = [], [], MESSAGE_BYTES
                groups.append(None)
                body = Results(runs)
            size += cost
            runs.append(run)
            if delivery is not None:
                deliveries.append(delivery)
            groups[-1] = (body, deliveries, size)
        self.outgoing = []
        return groups

    def sent(self, envelope, list deliveries, int64_t size):
        self.remember(envelope, deliveries, size)

    cdef remember(self, envelope, list deliveries, int64_t size):
        self.deliveries[envelope.sequence] = (deliveries, size)
        self.count_bytes(size)

    cdef count_bytes(self, int64_t size):
        self.unacknowledged_bytes += size
        self.is_paused = self.unacknowledged_bytes > self.budget_bytes

    def amend_bytes(self, int64_t size):
        self.unacknowledged_bytes = 0
        self.count_bytes(size)

    def on_acknowledged(self, envelope):
        cdef tuple entry = self.deliveries.pop(envelope.sequence, None)
        cdef Delivery delivery
        if self.known_agents.under_way:
            self.known_agents.on_acknowledged(envelope.sequence)
        if entry is not None:
            self.count_bytes(-<int64_t> entry[1])
            for delivery in <list> entry[0]:
                delivery.release()

    def drop_deliveries(self):
        cdef Delivery delivery
        for _, delivery in self.outgoing:
            if delivery is not None:
                delivery.release()
        for deliveries, _ in self.deliveries.values():
            for delivery in deliveries:
                delivery.release()
        self.outgoing, self.rows = [], []
        self.deliveries.clear()
        self.unacknowledged_bytes = 0
        self.is_paused = False

    def states(self, double now):
        if now < self.states_until or not self.has_stated:
            self.states_until = now + HOLD_SECONDS
        self.has_stated = True

    def take_note_of_left_out(self):
        size, self.output_left_out_bytes = self.output_left_out_bytes, 0
        return f"\n[{size} bytes of output were left out: they came too fast]\n".encode()

    def forget(self, task):
        self.certificates.pop(task, None)
        self.failures.pop(task, None)
        self.large.pop(task, None)
        self.large_bytes.pop(task, None)
        self.fetching.pop(task, None)

    def compare_bytes(self, census):
        counted = sum([size for _, size in self.deliveries.values()])
        if counted != self.unacknowledged_bytes and census.must_correct(
            f"{self.unacknowledged_bytes} bytes under way, {counted} counted"
        ):
            self.amend_bytes(counted)
        counted = sum(self.functions.values()) + sum(self.serializers.values())
        if counted != self.definition_bytes and census.must_correct(
            f"{self.definition_bytes} bytes of functions, {counted} counted"
        ):
            self.definition_bytes = counted


cdef list runs_of(bytes session, list rows):
    """Rows as runs that each fit a message."""
    cdef list runs = [], part = []
    cdef int64_t size = 0, cost
    for row in rows:
        cost = len(row[3]) + ROW_BYTES
        if part and size + cost > GROUP_LIMIT_BYTES:
            runs.append(ResultRun(session, part))
            part, size = [], 0
        part.append(row)
        size += cost
    runs.append(ResultRun(session, part))
    return runs
