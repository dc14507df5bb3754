"""The consequences of an exception in handling or sending a message: one peer pays, and the others are not affected.

A message that raises costs its sender the session. When something raises for a peer that only receives, that peer loses
its link: it is asked for another Hello, and begins a new session. The same goes for a sender whose message raises
because this process has no memory. In all cases counts are checked, because the work stopped halfway.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from scaler_protocol.messages import WhoAreYou
from scaler_scheduler.core import count_check, outbox, session_endings, share_membership
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.effects import Trouble
from scaler_scheduler.core.state import SchedulerState

_Peer = TypeVar("_Peer", Agent, ClientPeer)


def on_message(state: SchedulerState, peer: bytes, kind: str, error: Exception, now: float) -> None:
    """A message of ``peer`` could not be handled."""
    known = state.agents.get(peer) or state.clients.get(peer)
    if isinstance(error, MemoryError) and known is not None:
        return on_receiver(state, known, error, now)
    state.effects.append(Trouble(f"Cannot process {kind} from {peer.hex()[:8]}", error))
    _end(state, peer, lambda: session_endings.on_malformed(state, peer, f"{kind} cannot be processed.", now), now)


def on_nested_message(
    state: SchedulerState, agent: Agent, session: bytes, kind: str, error: Exception, now: float
) -> None:
    """A message of a nested client could not be handled. Its agent is not to blame."""
    client = state.clients.get(session)
    if isinstance(error, MemoryError) and client is not None:
        return on_receiver(state, client, error, now)
    state.effects.append(Trouble(f"Cannot process {kind} from {session.hex()[:8]}", error))
    _end(
        state,
        session,
        lambda: session_endings.refuse_nested(state, agent, session, f"{kind} cannot be processed.", now),
        now,
    )


def on_receiver(state: SchedulerState, peer: ClientPeer | Agent, error: Exception, now: float) -> None:
    """The messages due for ``peer`` could not be worked out or sent."""
    state.effects.append(Trouble(f"{peer.session.hex()[:8]} must begin a new session", error))
    _end(state, peer.session, lambda: session_endings.end_session(state, peer.session, now), now)
    outbox.answer(state, peer.session, peer.route, WhoAreYou(), now)


def _end(state: SchedulerState, session: bytes, end: Callable[[], None], now: float) -> None:
    try:
        end()
    except Exception as error:
        state.effects.append(Trouble(f"{session.hex()[:8]} could not be ended", error))
        _remove(state, session)
    count_check.after_fault(state, now)


def _remove(state: SchedulerState, session: bytes) -> None:
    """Not even the end of the session can be worked out: forget it."""
    agent = state.agents.pop(session, None)
    if agent is not None:
        state.agent_by_index.pop(agent.index, None)
        state.placement.remove(agent)
    client = state.clients.pop(session, None)
    if client is not None:
        client.table.columns.leave()
        share_membership.leave(state, client)
    for waiting in (
        state.clients_with_results,
        state.clients_to_acknowledge,
        state.clients_waiting,
        state.graph_clients,
    ):
        waiting.pop(session, None)


def for_each(
    state: SchedulerState, peers: list[_Peer], step: Callable[[SchedulerState, _Peer, float], None], now: float
) -> None:
    """Take a step for each of these peers. A peer that has ended meanwhile, together with another one, is skipped. A
    peer for which the step raises pays for it."""
    for peer in peers:
        if (state.agents.get(peer.session) or state.clients.get(peer.session)) is peer:
            try:
                step(state, peer, now)
            except Exception as error:
                on_receiver(state, peer, error, now)
