"""The table in ``limits`` is applied to every peer, once per tick."""

from __future__ import annotations

from scaler_protocol.messages import RefusalReason, Refused
from scaler_scheduler.core import notices, outbox, session_endings
from scaler_scheduler.core.agents import Agent, agents_with_unread
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.limits import (
    DEMANDS_LIMIT,
    FEW_MESSAGES,
    IDLE_SESSIONS_LIMIT,
    NESTED_SESSIONS_LIMIT,
    UNREAD_BYTES_TEXT,
    UNREAD_MESSAGES_LIMIT,
    UNREAD_TEXT,
)
from scaler_scheduler.core.state import SchedulerState


def on_tick(state: SchedulerState, now: float) -> None:
    """End the sessions that exceed a limit."""
    nested: dict[bytes, int] = {}
    for client in list(state.clients.values()):
        if client.route is not None:
            nested[client.route] = nested.get(client.route, 0) + 1
        text = None if client.is_broken else _excess_of_client(state, client)
        if text is not None:
            _end(state, client, text, now)
    _limit_agents(state, nested, now)
    if len(state.clients) > IDLE_SESSIONS_LIMIT:
        _limit_idle_sessions(state, now)
    if len(state.placement.classes) > DEMANDS_LIMIT:
        _limit_demands(state, now)


def held_bytes(state: SchedulerState, client: ClientPeer) -> int:
    """Return the memory, in bytes, that the scheduler uses for a client."""
    objects = state.objects.held_bytes.get(client.session, 0)
    return client.table.columns.held_bytes + client.definition_bytes + unread_bytes(client) + objects


def unread_bytes(peer: ClientPeer | Agent) -> int:
    """The memory of the messages that a peer has not acknowledged. A few may be left out: most peers have few."""
    return peer.link.retained_bytes if peer.link.in_flight > FEW_MESSAGES else 0


def _excess_of_client(state: SchedulerState, client: ClientPeer) -> str | None:
    if held_bytes(state, client) > state.settings.client_memory_bytes:
        mebibytes = state.settings.client_memory_bytes >> 20
        return (
            f"Cannot keep more than {mebibytes} MiB of tasks, objects and results for one client. Submit fewer at a "
            "time, as imap does, or start the scheduler with a larger --client-memory."
        )
    return UNREAD_TEXT if client.link.in_flight > UNREAD_MESSAGES_LIMIT else None


def _excess_of_agent(state: SchedulerState, agent: Agent) -> str | None:
    if agent.link.in_flight > UNREAD_MESSAGES_LIMIT:
        return UNREAD_TEXT
    if unread_bytes(agent) > state.settings.client_memory_bytes:
        return UNREAD_BYTES_TEXT.format(state.settings.client_memory_bytes >> 20)
    return None


def _limit_agents(state: SchedulerState, nested: dict[bytes, int], now: float) -> None:
    """End the sessions of agents that exceed a limit. There may be thousands of agents: those within their limits cost
    one comparison each."""
    for agent in agents_with_unread(state.agents, FEW_MESSAGES):
        text = _excess_of_agent(state, agent)
        if text is not None:
            _end(state, agent, text, now)
    for session, number in nested.items():
        if number > NESTED_SESSIONS_LIMIT and session in state.agents:
            text = f"Cannot have more than {NESTED_SESSIONS_LIMIT} clients inside the tasks of one agent."
            _end(state, state.agents[session], text, now)


def _end(state: SchedulerState, peer: ClientPeer | Agent, text: str, now: float) -> None:
    notices.log(state, f"The session {peer.session.hex()[:8]} ends: {text}", "WARNING")
    outbox.refuse(state, peer.session, Refused(RefusalReason.OTHER, text), peer.route)
    session_endings.end_session(state, peer.session, now)


def _limit_idle_sessions(state: SchedulerState, now: float) -> None:
    idle = [
        client
        for client in state.clients.values()
        if client.gone_at is not None and not client.table.columns.unfinished
    ]
    idle.sort(key=lambda client: client.gone_at or 0.0, reverse=True)
    for client in idle[IDLE_SESSIONS_LIMIT:]:
        session_endings.end_session(state, client.session, now)


def _limit_demands(state: SchedulerState, now: float) -> None:
    """Forget the queues that no task needs. When too many are needed, end the client with most of them."""
    needed = {client.session: client.table.columns.queues() for client in state.clients.values()}
    living = {session: queues for session, queues in needed.items() if not state.clients[session].is_broken}
    state.placement.keep_classes({queue: None for queues in needed.values() for queue in queues})
    state.forget_queue()
    while len({queue for queues in living.values() for queue in queues}) > DEMANDS_LIMIT:
        worst = max(living, key=lambda session: len(living[session]))
        text = f"Cannot queue tasks with more than {DEMANDS_LIMIT} combinations of capabilities."
        _end(state, state.clients[worst], text, now)
        del living[worst]
