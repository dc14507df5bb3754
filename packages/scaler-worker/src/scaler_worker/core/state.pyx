# cython: language_level=3
"""The state of an agent. See state.pyi for the contract."""

from scaler_worker.core.lease cimport Lease
from scaler_worker.core.outbox cimport Outbox
from scaler_worker.core.queue cimport TaskQueue

from scaler_protocol.link import Link
from scaler_worker.core.actors import HostedActors
from scaler_worker.core.nested import NestedClients
from scaler_worker.core.nodes import Nodes
from scaler_worker.core.objects import ObjectExchange
from scaler_worker.core.packages import NeededPackages
from scaler_worker.core.own_results import OwnRows


cdef class AgentState:
    def __init__(self, store, double now):
        self.outbox = Outbox()
        self.queue, self.nodes, self.functions, self.serializers = TaskQueue(), Nodes(), {}, {}
        self.accepting, self.actors = True, HostedActors()
        self.finished, self.rows, self.given_back, self.retained = [], OwnRows(), [], {}
        self.objects, self.freed = ObjectExchange(store), []
        self.packages = NeededPackages(self.queue, self.objects, self.outbox)
        self.link, self.lease, self.unsent, self.sent_at = Link(), Lease(now), [], now
        self.output_sizes = {}
        self.nested, self.lent = NestedClients(), (0, 0, False, 0)
