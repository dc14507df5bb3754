# cython: language_level=3
"""Everything that the scheduler knows. See state.pyi for the contract."""

from scaler_scheduler.core.placement cimport Placement
from scaler_scheduler.core.fair_shares cimport Shares

from scaler_protocol.log_lines import LatestLines
from scaler_scheduler.core.absent_sessions import AbsentSessions
from scaler_scheduler.core.action_rates import ActionRates
from scaler_scheduler.core.actor_queues import ActorQueues
from scaler_scheduler.core.work_stealing import Balancer
from scaler_scheduler.core.ended_clients import EndedClients
from scaler_protocol.forgotten_tasks import ForgottenTasks
from scaler_scheduler.core.function_totals import FunctionTotals
from scaler_scheduler.core.lineage import Lineage
from scaler_scheduler.core.lock_table import LockTable
from scaler_scheduler.core.named_table import NamedTable
from scaler_scheduler.core.software_table import SoftwareTable
from scaler_scheduler.core.profile_table import ProfileTable
from scaler_scheduler.core.stack_table import StackTable
from scaler_scheduler.core.objects import ObjectStore
from scaler_scheduler.core.output_table import OutputTable
from scaler_scheduler.core.relays import Relays
from scaler_scheduler.core.repetition import Repetition
from scaler_scheduler.core.data_locations import DataLocations
from scaler_scheduler.core.settings import BYTES_PER_SECOND
from scaler_scheduler.core.group_settings import named_counts, named_numbers
from scaler_scheduler.core.totals import Totals
from scaler_scheduler.core.transfers import Transfers
from scaler_scheduler.core.unclaimed import Unclaimed


cdef class SchedulerState:
    def __init__(self, settings, double now):
        self.settings, self.started_at = settings, now
        self.clients, self.agents, self.agent_by_index, self.agents_by_store = {}, {}, {}, {}
        self.lineage, self.nested_to_cancel, self.ignored, self.unclaimed = Lineage(), [], {}, Unclaimed()
        self.forgotten = ForgottenTasks()
        self.absent = AbsentSessions()
        self.functions, self.function_users, self.function_loads = {}, {}, {}
        self.function_totals, self.ended_clients = FunctionTotals(), EndedClients()
        self.serializers, self.serializer_users = {}, {}
        self.transfers = Transfers(BYTES_PER_SECOND)
        self.objects, self.relays, self.departures = ObjectStore(self.transfers), Relays(), {}
        self.unknown_owners = {}
        self.locks = LockTable(now)
        self.lock_requests_by_task = self.locks.by_task
        self.named = NamedTable()
        self.named_requests_by_task = self.named.by_task
        self.action_rates = ActionRates()
        self.stacks = StackTable()
        self.profiles = ProfileTable()
        self.software = SoftwareTable()
        self.outputs = OutputTable()
        self.log = LatestLines()
        self.nested_clients = self.lineage.children
        self.actors = ActorQueues()
        self.actors_waiting = self.actors.waiting
        self.placement = Placement(DataLocations(self.objects.objects, BYTES_PER_SECOND / 1e6), settings.aging_seconds)
        self.shares = Shares(named_numbers(settings.group_weights), named_counts(settings.group_limits))
        self.balancer = Balancer(settings.load_balance_seconds, settings.load_balance_trigger_times)
        self.is_bounded = settings.max_number_of_tasks_waiting >= 0
        self.clients_waiting, self.graph_clients, self.deepened_options, self.lost_inputs = {}, {}, {}, {}
        self.introductions, self.clients_to_part = {}, {}
        self.awaited_values, self.stated_copies = {}, {}
        self.recount_at, self.stalled_at = now, float("-inf")
        self.effects, self.clients_with_results = [], {}
        self.clients_to_acknowledge, self.agents_with_cancels = {}, {}
        self.shutdown_requested_by = {}
        self.totals = Totals()
        self.events = self.totals.events
        self.malformed_warnings, self.refusal_warnings = Repetition(), Repetition()
        self.lock_warnings, self.group_warnings = Repetition(), Repetition()
        self.description, self.await_description = (float("-inf"), b""), []

    cpdef forget_queue(self):
        self.last_options = None
