"""Events for monitors besides the life of tasks: peers that join and leave."""

from __future__ import annotations

from scaler_protocol.ids import shown_id
from scaler_protocol.limits import NO_WORKER
from scaler_protocol.messages import HeartbeatEcho
from scaler_protocol.monitor.records import NONE, Kind
from scaler_protocol.monitor.ring import RingWriter
from scaler_scheduler.core import daemon_logs, outbox
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.running_tasks import executions_reported_by
from scaler_scheduler.core.state import SchedulerState

RUNS_TOLD_LIMIT = 20_000
"""Runs of tasks that came before the recording, of all clients together. More would keep the scheduler too long."""

NAMES_TOLD_LIMIT_BYTES = 8 * 1024 * 1024
"""Names of their functions and options, after which no further runs are told of."""

LONGEST_SECONDS = 31e6
"""A year: what an agent may claim that a task has run."""

_LONGEST_AGE_US = 2**32 - 1


def start(state: SchedulerState, ring: RingWriter, clock_offset: float, now: float) -> None:
    """Write all events from now on into ``ring``. ``clock_offset``: seconds since 1970 at the core's time 0."""
    state.events.now = now
    state.events.start(ring, clock_offset)
    for agent in state.agents.values():
        if agent.has_introduced_itself:
            _name_agent(state, agent)
    for client in state.clients.values():
        _name_client(state, client)
    for client in state.clients.values():
        _note_known_parent(state, client)
    _tell_of_tasks(state)
    daemon_logs.tell(state)
    _tell_agents(state, now)


def _tell_of_tasks(state: SchedulerState) -> None:
    """Tell monitors of what came before the recording: they know the tasks that wait and run, too."""
    room = RUNS_TOLD_LIMIT
    names_limit_bytes = state.events.named_bytes + NAMES_TOLD_LIMIT_BYTES
    for client in state.clients.values():
        room -= client.table.columns.tell_all_submitted(room, names_limit_bytes)


def stop(state: SchedulerState, now: float) -> None:
    """Write no more events."""
    state.events.stop()
    _tell_agents(state, now)


def _tell_agents(state: SchedulerState, now: float) -> None:
    """Agents send more details while events are recorded."""
    for agent in state.agents.values():
        if agent.attached:
            outbox.send(state, agent, HeartbeatEcho(0.0, state.events.is_on), now)


def note_agent_joined(state: SchedulerState, agent: Agent, now: float) -> None:
    if state.events.is_on:
        _name_agent(state, agent)
        state.events.note(Kind.AGENT_JOINED, agent=agent.index)
        outbox.send(state, agent, HeartbeatEcho(0.0, True), now)


def note_manager_joined(state: SchedulerState, agent: Agent) -> None:
    if state.events.is_on:
        _name_agent(state, agent)


def note_agent_gone(state: SchedulerState, agent: Agent, has_left: bool, now: float) -> None:
    """An agent is gone. Until ``note_agent_removed``, tasks that end were running there, as far as it has told."""
    if state.events.is_on and agent.attached:
        state.events.note(Kind.AGENT_LOST, agent=agent.index, first=has_left)
        age_us = min(int((now - agent.heartbeat_at) * 1e6), _LONGEST_AGE_US)
        state.events.agent_lost(agent.index, _places(state, agent), age_us)


def note_agent_removed(state: SchedulerState) -> None:
    state.events.agent_removed()


def _places(state: SchedulerState, agent: Agent) -> dict[tuple[int, int, int], tuple[int, int]]:
    """Return the worker of each execution that the last heartbeat of an agent reports, and for how many microseconds it
    had run then, by the number of its client, task and attempt."""
    found = {}
    for running, seconds in executions_reported_by(agent):
        client = state.clients.get(running.session)
        if client is not None:
            name = client.table.columns.number, running.task, running.attempt
            worker = running.worker if running.worker < NO_WORKER else NONE
            found[name] = worker, int(min(seconds, LONGEST_SECONDS) * 1e6)
    return found


def note_client_joined(state: SchedulerState, client: ClientPeer) -> None:
    if state.events.is_on:
        _name_client(state, client)
        state.events.note(Kind.CLIENT_JOINED, session=client.table.columns.number)
        for nested in state.lineage.of_client(client.session):  # after a restart, they may come back before it
            _note_known_parent(state, nested)


def note_client_left(state: SchedulerState, client: ClientPeer) -> None:
    if state.events.is_on:
        state.events.note(Kind.CLIENT_LEFT, session=client.table.columns.number)


def note_nested(state: SchedulerState, client: ClientPeer, first_child: int) -> None:
    """The client lives in the task ``client.parent`` from now on, and numbers its tasks from ``first_child`` on."""
    parent = client.parent
    owner = state.clients.get(parent.session) if parent is not None and state.events.is_on else None
    if parent is not None and owner is not None:
        place = owner.table.columns.number, parent.task, parent.attempt
        state.events.nested(client.table.columns.number, first_child, place)


def _note_known_parent(state: SchedulerState, client: ClientPeer) -> None:
    """The client has lived in its task for a while."""
    if client.parent is not None:
        is_first = client.parent[:2] == (client.hello.parent_session, client.hello.parent_task)
        note_nested(state, client, 0 if is_first else client.table.columns.next_task)


def _name_agent(state: SchedulerState, agent: Agent) -> None:
    name = agent.name if agent.manager is None else f"manager {agent.manager.report.name}"
    value = {"session": agent.shown_id.hex(), "name": name, "host": agent.host, "pid": agent.pid}
    state.events.name_agent(agent.index, value | {"workers": agent.worker_names})


def _name_client(state: SchedulerState, client: ClientPeer) -> None:
    hello = client.hello
    value = {"session": client.shown_id.hex(), "host": hello.host, "pid": hello.pid}
    state.events.name_session(client.table.columns.number, value | {"parent": shown_id(hello.parent_session).hex()})
