"""The release of objects that a client no longer needs."""

from __future__ import annotations

from collections.abc import Sequence

from scaler_protocol.messages import ObjectKey, ObjectMissing, ObjectRelease
from scaler_scheduler.core import outbox
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.state import SchedulerState
from scaler_scheduler.core.stored_objects import StoredObject

KEYS_PER_MESSAGE = 4096


def release_objects(state: SchedulerState, client: ClientPeer, keys: Sequence[ObjectKey], now: float) -> None:
    """A client needs these objects no longer. The agents that have those of which it was the last owner are told, each
    of all of them at once: every message about one object would wake the agent, its worker processes and the store."""
    gone: dict[bytes, list[ObjectKey]] = {}
    for key in keys:
        client.objects.pop(key, None)
        stored, replies = state.objects.release(client.session, key)
        outbox.send_all(state, replies, now)
        if stored is not None:
            _tell_readers(state, stored, now)
            for session in _where(state, stored):
                gone.setdefault(session, []).append(key)
    for session, released in gone.items():
        for start in range(0, len(released), KEYS_PER_MESSAGE):
            part = tuple(released[start : start + KEYS_PER_MESSAGE])
            outbox.send(state, state.agents[session], ObjectRelease(part), now)


def forget_owner(state: SchedulerState, session: bytes, now: float) -> None:
    """A client that may have objects at agents or in stores has left. Most objects were released one by one. This
    reaches the others: copies that the scheduler does not know of since its restart, and what no agent knows of,
    because the agent has died, its connection to the store was cut, or the client was killed before any task read it.
    """
    for agent in state.agents.values():
        outbox.send(state, agent, ObjectRelease((), session), now)


def _tell_readers(state: SchedulerState, stored: StoredObject, now: float) -> None:
    """Tell the agents to which the object is on its way."""
    for session in stored.holders:
        if (session in stored.readers or session in stored.waiting) and session in state.agents:
            outbox.send(state, state.agents[session], ObjectMissing(stored.key, "Its owner has dropped it."), now)


def _where(state: SchedulerState, stored: StoredObject) -> dict[bytes, None]:
    """Return the sessions of the agents that have the object, or whose host's store has it."""
    sessions = dict.fromkeys(session for session in stored.holders if session in state.agents)
    for store in stored.stores:
        sessions.update(dict.fromkeys(agent.session for agent in state.agents_by_store.get(store, ())))
    return sessions
