"""What one client or one agent may take of the scheduler, so that the others keep their share.

This is the table of these limits; docs/limits.md explains each, and ``scaler_protocol.limits`` has those of a single
message. Every peer is compared with the table once per tick, which costs the path of tasks nothing: between two ticks a
peer adds no more than its connection carries. A peer beyond a limit loses its session, and is told which limit it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scaler_protocol.messages import RefusalReason, Refused

if TYPE_CHECKING:
    from scaler_scheduler.core.agents import Agent
    from scaler_scheduler.core.clients import Client
    from scaler_scheduler.core.endings import Endings

CLIENT_MEMORY_BYTES = 4 << 30
"""Of tasks, objects, functions and unread results of one client, unless the settings say otherwise."""

UNREAD_MESSAGES_LIMIT = 500_000
"""Messages to one peer that it has not acknowledged. Those with results end much earlier: its tasks pause."""

UNREAD_TEXT = f"Cannot keep more than {UNREAD_MESSAGES_LIMIT} messages that a peer has not acknowledged."

NESTED_SESSIONS_LIMIT = 10_000
"""Clients inside the tasks of one agent."""

IDLE_SESSIONS_LIMIT = 10_000
"""Clients whose connection has ended and that have no tasks, of all together. The oldest end: should such a client come
back, it gets a new session and loses nothing."""

DEMANDS_LIMIT = 2_000
"""Different combinations of capabilities and depth that queued or running tasks have, of all clients together."""

FUNCTION_BYTES = 512
"""What a function or a serializer takes beside its bytes."""

CERTIFICATE_LIMIT_BYTES = 65_536
"""Of what an agent tells of the death of a worker process; it is kept until the task has ended."""

DESCRIPTION_SECONDS = 0.1
"""How long one description of the cluster answers all who ask for it."""

IGNORED_LIMIT = 10_000
"""Sessions that were refused, and of which nothing but a Hello is looked at."""

STATED_CANCELS_LIMIT = 100_000
"""Of one client: cancels of tasks that the scheduler does not know yet, because it has been restarted. Agents are told
of the others a second later."""


def on_tick(core: Endings, now: float) -> None:
    """End the sessions that are beyond a limit."""
    nested: dict[bytes, int] = {}
    for client in list(core.clients.values()):
        if client.route is not None:
            nested[client.route] = nested.get(client.route, 0) + 1
        text = None if client.is_broken else _excess_of_client(core, client)
        if text is not None:
            _end(core, client, text, now)
    _limit_agents(core, nested, now)
    if len(core.clients) > IDLE_SESSIONS_LIMIT:
        _limit_idle_sessions(core, now)
    if len(core.allocator.classes) > DEMANDS_LIMIT:
        _limit_demands(core, now)


def held_bytes(core: Endings, client: Client) -> int:
    """What the scheduler keeps in memory for a client."""
    objects = core.objects.held_bytes.get(client.session, 0)
    return client.table.held_bytes + client.definition_bytes + client.unacknowledged_bytes + objects


def _excess_of_client(core: Endings, client: Client) -> str | None:
    if held_bytes(core, client) > core.settings.client_memory_bytes:
        mebibytes = core.settings.client_memory_bytes >> 20
        return (
            f"Cannot keep more than {mebibytes} MiB of tasks, objects and results for one client. Submit fewer at a "
            "time, as imap does, or start the scheduler with a larger --client-memory."
        )
    return UNREAD_TEXT if client.link.in_flight > UNREAD_MESSAGES_LIMIT else None


def _limit_agents(core: Endings, nested: dict[bytes, int], now: float) -> None:
    """There may be thousands of them: those within their limits cost one comparison each."""
    beyond = [agent for agent in core.agents.values() if agent.link.in_flight > UNREAD_MESSAGES_LIMIT]
    for agent in beyond:
        _end(core, agent, UNREAD_TEXT, now)
    for session, number in nested.items():
        if number > NESTED_SESSIONS_LIMIT and session in core.agents:
            text = f"Cannot have more than {NESTED_SESSIONS_LIMIT} clients inside the tasks of one agent."
            _end(core, core.agents[session], text, now)


def _end(core: Endings, peer: Client | Agent, text: str, now: float) -> None:
    core._log(f"The session {peer.session.hex()[:8]} ends: {text}", "WARNING")
    core._refuse(peer.session, Refused(RefusalReason.OTHER, text), peer.route)
    core._end_peer(peer.session, now)


def _limit_idle_sessions(core: Endings, now: float) -> None:
    idle = [client for client in core.clients.values() if client.gone_at is not None and not client.table.unfinished]
    idle.sort(key=lambda client: client.gone_at or 0.0, reverse=True)
    for client in idle[IDLE_SESSIONS_LIMIT:]:
        core._end_peer(client.session, now)


def _limit_demands(core: Endings, now: float) -> None:
    """Forget the queues that no task needs. Should too many be needed, the client with most of them ends."""
    needed = {client.session: client.table.queues() for client in core.clients.values()}
    living = {session: queues for session, queues in needed.items() if not core.clients[session].is_broken}
    core.allocator.keep_classes({queue: None for queues in needed.values() for queue in queues})
    core._forget_queue()
    while len({queue for queues in living.values() for queue in queues}) > DEMANDS_LIMIT:
        worst = max(living, key=lambda session: len(living[session]))
        text = f"Cannot queue tasks with more than {DEMANDS_LIMIT} combinations of capabilities."
        _end(core, core.clients[worst], text, now)
        del living[worst]
