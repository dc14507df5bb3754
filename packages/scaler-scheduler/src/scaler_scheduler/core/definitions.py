"""Functions and serializers: which clients have them, and which agents know them."""

from __future__ import annotations

from scaler_protocol import ids
from scaler_protocol.messages import INLINE_LIMIT_BYTES, FunctionDefinition, ObjectKey, ObjectRelease
from scaler_scheduler.core import object_release, outbox
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.limits import FUNCTION_BYTES
from scaler_scheduler.core.state import SchedulerState

_RELEASED_PER_MESSAGE = 4096


def drop_unwanted(state: SchedulerState, client: ClientPeer, now: float) -> None:
    """Drop functions that a client has released. Functions of tasks that may still run, or run again, are kept."""
    if client.table.nodes.graphs:
        return
    loads = state.function_loads
    gone = [digest for digest in client.unwanted if digest not in loads or not loads[digest].unfinished]
    for digest in gone:
        del client.unwanted[digest]
        client.definition_bytes -= client.functions.pop(digest)
    object_release.release_objects(state, client, [ObjectKey(digest, 0) for digest in gone], now)
    drop_functions(state, gone, now)


def drop_functions(state: SchedulerState, digests: list[bytes], now: float) -> None:
    """A client needs these functions no longer; agents forget the ones that no client needs."""
    _forget_at_agents(state, [digest for digest in digests if _is_last_user(state, digest)], now)


def drop_serializers(state: SchedulerState, client: ClientPeer, now: float) -> None:
    """A client has ended, and with it the need for its serializers."""
    for digest in client.serializers:
        state.serializer_users[digest] -= 1
    gone = [digest for digest in client.serializers if not state.serializer_users[digest]]
    for digest in gone:
        del state.serializer_users[digest], state.serializers[digest]
    _forget_at_agents(state, gone, now)


def _forget_at_agents(state: SchedulerState, digests: list[bytes], now: float) -> None:
    """Tell agents which functions and serializers no client needs."""
    gone = [digest for digest in digests if digest not in state.functions and digest not in state.serializers]
    for start in range(0, len(gone), _RELEASED_PER_MESSAGE):
        part = gone[start : start + _RELEASED_PER_MESSAGE]
        for agent in state.agents.values():
            known = [digest for digest in part if digest in agent.known]
            if known:
                agent.known.difference_update(known)
                outbox.send(state, agent, ObjectRelease(tuple(ObjectKey(digest, 0) for digest in known)), now)


def _is_last_user(state: SchedulerState, digest: bytes) -> bool:
    """Count one user less. Return whether no client has the function any more."""
    state.function_users[digest] -= 1
    if state.function_users[digest]:
        return False
    del state.function_users[digest]
    state.functions.pop(digest, None)
    load = state.function_loads.pop(digest, None)
    if load is not None:
        state.function_totals.keep(load)
    return True


def define(state: SchedulerState, client: ClientPeer, definition: FunctionDefinition) -> None:
    """Note that a client has a function."""
    digest = definition.digest
    client.unwanted.pop(digest, None)
    if digest in client.functions:
        return
    client.functions[digest] = _size_of(definition)
    client.definition_bytes += client.functions[digest]
    state.functions[digest] = definition
    state.function_users[digest] = state.function_users.get(digest, 0) + 1


def define_serializer(state: SchedulerState, client: ClientPeer, definition: FunctionDefinition) -> None:
    """Note that a client has a serializer."""
    digest = definition.digest
    if digest not in client.serializers:
        client.serializers[digest] = _size_of(definition)
        client.definition_bytes += client.serializers[digest]
        state.serializers[digest] = definition
        state.serializer_users[digest] = state.serializer_users.get(digest, 0) + 1


def is_named_by_content(definition: FunctionDefinition) -> bool:
    """Other clients use the same digest for the same function, and must not get another one."""
    payload = definition.payload
    return not payload or (len(payload) <= INLINE_LIMIT_BYTES and ids.digest(payload) == definition.digest)


def _size_of(definition: FunctionDefinition) -> int:
    return FUNCTION_BYTES + len(definition.payload) + len(definition.environment)
