# cython: language_level=3
"""The scheduler's state of one agent. See agents.pyi for the contract."""

from scaler_scheduler.core.connections cimport PeerConnection

from scaler_protocol.ids import shown_id
from scaler_protocol.link import Link
from scaler_protocol.log_lines import LatestLines
from scaler_protocol.messages import UNITS_PER_WHOLE, UNLIMITED_AMOUNT
from scaler_protocol.monitor.bounds import CAPABILITIES_LIMIT, CAPABILITY_LIMIT, short_text
from scaler_scheduler.core.agent_loads import AgentLoad


cdef class Agent:
    def __init__(self, hello, index, double now, dict agents_with_cancels):
        self.session, self.shown_id, self.index = hello.session, shown_id(hello.session), index
        self.hello, self.user, self.link = hello, b"", Link()
        self.connection = PeerConnection(self.session, None, self.link, now)
        self.name, self.host, self.pid, self.worker_names, self.workers = "", hello.host, hello.pid, (), ()
        self.manager_name = self.shown_capabilities = ""
        self.capabilities, self.capacity = {}, {}
        self.store, self.store_endpoint = b"", ""
        self.heard_at = self.attached_at = self.idle_at = now
        self.actors, self.log = {}, LatestLines()
        self.load = new_load(self, 0, 0, now)
        self.known, self.outbox, self.releases, self.cancels = set(), [], [], {}
        self.agents_with_cancels = agents_with_cancels

    @property
    def is_available(self):
        return self.available()

    @property
    def has_introduced_itself(self):
        return self.attached or self.manager is not None

    @property
    def is_broken(self):
        return not self.attached

    def attach(self, body, per_worker_queue_size, double now):
        slots = len(body.worker_names)
        self.attached, self.attached_at = True, now
        self.name, self.host, self.pid, self.worker_names = body.name, body.host, body.pid, body.worker_names
        self.manager_name = body.manager
        self.capabilities = {capability.name: capability.units for capability in body.capabilities}
        self.capacity = {name: (units or UNITS_PER_WHOLE) * slots for name, units in self.capabilities.items()}
        self.shown_capabilities = shown_offer(self.capabilities)
        self.load = new_load(self, slots, max(1, per_worker_queue_size) * slots, now)

    def can_serve(self, demand):
        for name, amount in demand:
            if self.capabilities.get(name, 0) < amount:
                return False
        return True

    def cancel(self, session, tasks, attempts):
        column = self.cancels.setdefault(session, ([], []))
        column[0].extend(tasks)
        column[1].extend(attempts)
        self.agents_with_cancels[self.index] = self

    def shown_capabilities_left(self):
        if not self.capacity:
            return ""
        cdef dict left = self.load.resources
        cdef list shown = [
            f"{short_text(name, CAPABILITY_LIMIT)} {shown_units(left.get(name, 0))} of {shown_units(units)}"
            for name, units in list(self.capacity.items())[:CAPABILITIES_LIMIT]
            if is_limited(self.capabilities[name])
        ]
        return ", ".join(shown)

    def title(self):
        return f"{self.name or self.session.hex()[:8]} ({self.host}, pid {self.pid})"


cdef new_load(Agent agent, slots, ceiling, double now):
    load = AgentLoad(agent.index, slots, ceiling, agent.capacity)
    load.session, load.store, load.progress_at = agent.session, agent.store, now
    load.live_actors = agent.actors
    return load


def due_agents(dict agents, int64_t turn, int64_t turns):
    cdef Agent agent
    cdef list due = []
    for agent in agents.values():
        if agent.load.outstanding or not agent.available() or (<int64_t> agent.index + turn) % turns == 0:
            due.append(agent)
    return due


def agents_with_unread(dict agents, int64_t limit):
    cdef Agent agent
    cdef list found = []
    for agent in agents.values():
        if agent.link.in_flight > limit:
            found.append(agent)
    return found


def agents_to_answer(dict agents):
    cdef Agent agent
    cdef list found = []
    for agent in agents.values():
        if agent.releases or agent.link.owes_acknowledgement:
            found.append(agent)
    return found


def agents_with_actors(dict agents):
    cdef Agent agent
    cdef list found = []
    for agent in agents.values():
        if agent.actors:
            found.append(agent)
    return found


def demand_of(capabilities):
    return tuple(sorted([(capability.name, capability.units or UNITS_PER_WHOLE) for capability in capabilities]))


def shown_demand(demand):
    return ", ".join([f"{name}={shown_units(units)}" for name, units in demand])


cdef shown_units(units):
    return f"{units / UNITS_PER_WHOLE:.15g}"


def shown_offer(dict capabilities):
    cdef list shown = [
        short_text(name, CAPABILITY_LIMIT) + (f"={shown_units(units)}" if is_limited(units) else "")
        for name, units in list(capabilities.items())[:CAPABILITIES_LIMIT]
    ]
    return ", ".join(shown)


cdef bint is_limited(units):
    return units < UNLIMITED_AMOUNT * UNITS_PER_WHOLE
