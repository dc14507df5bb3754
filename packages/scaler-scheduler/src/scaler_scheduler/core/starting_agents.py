"""Decides which agents may start tasks with ``rerun=False``, so that no started one starts again after a restart.

A restarted scheduler learns from agents which tasks they have, and cannot know which agents have not come back. Their
names come from the clients: a client is told of an agent before that agent gets the first of its tasks with
``rerun=False``, and states the names together with its tasks. These tasks are held until all stated agents have said
what they have: the others have not started then. If an agent is missing at the end of the hold, they fail
(``once_holds``).

| Event | Consequence |
|---|---|
| tasks wait, and no known agent has room | the client is told of agents that could run them |
| the client has acknowledged that | these agents get its tasks |
| an agent is lost or has left | the client is told, after the results that tell how its tasks have ended |
| it has not said before what it has | it is waited for like one that has not come back |
| a client had not stated its tasks yet | these count as started, too (``forgotten_tasks``) |
| the client states agents | its tasks are held until these have reported |
| the client's session ends | its tasks and calls count as started: agents are told to drop them (``forgotten_tasks``) |
| the scheduler restarts once more | agents tell the next one what was dropped (``dropped_tasks``) |

While a client has a graph, it is not told that agents are gone: a node may run again for its dependants until the graph
is over. An orphan need not be told of agents, because no one states its tasks again. Clients of versions before 1.4
cannot be told.
"""

from __future__ import annotations

from collections.abc import Iterator

from scaler_protocol.messages import STARTING_AGENTS_SINCE_MINOR, StartingAgents
from scaler_scheduler.core import outbox
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.priority_queues import QueueClass
from scaler_scheduler.core.settings import HOLD_SECONDS
from scaler_scheduler.core.state import SchedulerState

Demand = tuple[tuple[str, int], ...]


# ---- clients are told of agents --------------------------------------------------------------------------------------


def queue_of(state: SchedulerState, client: ClientPeer, demand: Demand, depth: int) -> QueueClass:
    """Return the queue of a client's tasks with ``rerun=False``: it is served by the agents that the client knows."""
    known = client.known_agents
    known.demands[demand, depth] = None
    state.introductions[client.session] = client
    return state.placement.queue_class(demand, depth, known, known.sessions)


def admit(state: SchedulerState) -> None:
    """Agents that clients have confirmed may be given their tasks."""
    for client in state.introductions.values():
        for session in client.known_agents.take_learned():
            if session in state.agents:
                state.placement.offer(state.agents[session])


def introduce(state: SchedulerState, now: float) -> bool:
    """Tasks have found no agent: tell their clients of agents that they do not know. Returns whether some clients need
    not be told, so that agents may be given their tasks at once."""
    learned = False
    for client in list(state.introductions.values()):
        queues = _waiting_queues(state, client)
        if not queues:
            del state.introductions[client.session]
            continue
        wanted = {agent.session: None for queue in queues for agent in _wanted(state, client, queue)}
        if client.is_orphan:
            wanted.update(dict.fromkeys(client.known_agents.under_way))
        if wanted:
            learned = _tell(state, client, wanted, now) or learned
    return learned


def look_again(state: SchedulerState) -> None:
    """Look at all clients: their tasks may have been queued again, or there is another agent."""
    for client in state.clients.values():
        if client.known_agents.demands and _waiting_queues(state, client):
            state.introductions[client.session] = client


def _waiting_queues(state: SchedulerState, client: ClientPeer) -> list[QueueClass]:
    """Return the queues of a client in which tasks wait. Those that were forgotten are empty."""
    classes = state.placement.classes
    found = [classes.get((demand, depth, client.known_agents)) for demand, depth in client.known_agents.demands]
    return [queue for queue in found if queue is not None and queue.count]


def _wanted(state: SchedulerState, client: ClientPeer, queue: QueueClass) -> Iterator[Agent]:
    """Yield the agents to tell a client of: the least loaded ones, until they have a slot for each task that waits."""
    known = client.known_agents
    if len(known.sessions) >= len(state.agents) + len(known.awaited):
        return
    able = [agent for agent in state.placement.agents.values() if agent.is_available and agent.can_serve(queue.demand)]
    room = queue.count - sum(agent.load.slots for agent in able if agent.session in known.under_way)
    new = [agent for agent in able if agent.session not in known]
    for agent in sorted(new, key=lambda agent: agent.load.outstanding - agent.load.slots) if room > 0 else ():
        yield agent
        room -= max(1, agent.load.slots)
        if room <= 0:
            return


def _tell(state: SchedulerState, client: ClientPeer, sessions: dict[bytes, None], now: float) -> bool:
    """Tell a client of agents. Returns whether it need not be told."""
    if client.is_orphan or not takes_names(client):
        client.known_agents.learn(sessions)
        admit(state)
        return True
    envelope = outbox.send(state, client, StartingAgents(b"".join(sessions)), now)
    client.known_agents.tell(sessions, envelope.sequence)
    return False


def takes_names(client: ClientPeer) -> bool:
    return client.hello.minor >= STARTING_AGENTS_SINCE_MINOR


# ---- agents that are gone --------------------------------------------------------------------------------------------


def on_agent_gone(state: SchedulerState, agent: Agent, now: float) -> None:
    """An agent is lost or has left: clients drop it when they have been told how its tasks have ended. Tasks of clients
    that have not stated them yet are lost with it, and may have started."""
    reported = has_reported(agent, now)
    for client in state.clients.values():
        if client.known_agents.lose(agent.session, reported):
            state.clients_to_part[client.session] = client
    for session, tasks in state.unclaimed.forget_agent(agent):
        state.forgotten.add(session, tasks)


def has_reported(agent: Agent, now: float) -> bool:
    """Return whether an agent has said everything that it has from before a restart."""
    is_old = agent.hello.minor < STARTING_AGENTS_SINCE_MINOR
    return agent.attached and (agent.has_reported or (is_old and now >= agent.attached_at + HOLD_SECONDS))


def part(state: SchedulerState, now: float) -> None:
    """Tell clients of the agents that are gone, behind the results of this turn."""
    for client in list(state.clients_to_part.values()):
        if client.table.nodes.graphs and state.clients.get(client.session) is client:
            continue
        del state.clients_to_part[client.session]
        gone = b"".join(client.known_agents.gone)
        client.known_agents.gone.clear()
        if gone and not client.is_orphan and takes_names(client):
            outbox.send(state, client, StartingAgents(b"", gone), now)
