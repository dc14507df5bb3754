"""A client needs an object no longer."""

from __future__ import annotations

from scaler_protocol.messages import ObjectKey, ObjectMissing, ObjectRelease
from scaler_scheduler.core import outbox
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.state import SchedulerState


def release_object(state: SchedulerState, client: ClientPeer, key: ObjectKey, now: float) -> None:
    """A client needs an object no longer. When it was the last one, the agents that have the object are told."""
    client.objects.pop(key, None)
    stored, replies = state.objects.release(client.session, key)
    if stored is None:
        outbox.send_all(state, replies, now)
        return
    for session in stored.holders:
        agent = state.agents.get(session)
        if agent is None:
            continue
        if session in stored.readers or session in stored.waiting:
            outbox.send(state, agent, ObjectMissing(key, "Its owner has dropped it."), now)
        outbox.send(state, agent, ObjectRelease((key,)), now)
    for store in stored.stores:
        for agent in state.agents_by_store.get(store, ()):
            if agent.session not in stored.holders:
                outbox.send(state, agent, ObjectRelease((key,)), now)
