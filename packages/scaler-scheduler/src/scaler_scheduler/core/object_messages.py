"""Messages of clients and agents about objects and the object stores of hosts."""

from __future__ import annotations

from functools import partial

from scaler_protocol.messages import (
    CREDIT_WITHOUT_END,
    UPLOAD_NUMBER,
    ObjectChunk,
    ObjectCredit,
    ObjectKey,
    ObjectMissing,
    ObjectRelease,
    ObjectRequest,
    ObjectsLost,
    ObjectsStored,
    ObjectStored,
    StoreAttached,
    StoreStatus,
)
from scaler_scheduler.core import (
    absent_clients,
    cancellation,
    definitions,
    draining,
    lost_agents,
    object_release,
    orphaned_objects,
    outbox,
    stated_copies,
    timers,
    values,
)
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.objects import LOST_TEXT
from scaler_scheduler.core.settings import HOLD_SECONDS
from scaler_scheduler.core.state import SchedulerState
from scaler_scheduler.core.stored_objects import Forged


def stated_by(state: SchedulerState, key: ObjectKey, now: float) -> float | None:
    """Return until when the owner of an object may still state it; None: the owner would have stated it by now."""
    owner = state.clients.get(key.owner)
    if owner is not None and now < owner.states_until:
        return owner.states_until
    if not key.number and (key.owner in state.functions or key.owner in state.serializers):
        return now + HOLD_SECONDS
    return state.absent.return_until if absent_clients.may_return(state, key.owner, now) else None


def expire(state: SchedulerState, now: float) -> None:
    """Some owners have not stated their objects in time."""
    expired = state.objects.expire(now, partial(stated_by, state))
    answers = dict.fromkeys((session, _answer(state, body)) for session, body in expired)
    outbox.send_all(state, list(answers), now)


def _answer(state: SchedulerState, body: object) -> object:
    """Return what an agent is told of an object that has expired. It may wait for a result that is being made again. An
    owner that is not there at all may come back yet: stores keep what it has put into them while it is connected."""
    if isinstance(body, ObjectMissing):
        return values.missing(state, body.key, body.text)
    if isinstance(body, ObjectRelease) and body.keys[0].number and body.keys[0].owner not in state.clients:
        return ObjectRelease((), body.keys[0].owner)
    return body


def on_client_object(state: SchedulerState, client: ClientPeer, body: ObjectChunk | ObjectStored, now: float) -> None:
    """A client uploads an object, or has put it into the store of its host."""
    key = body.key
    if key.owner != client.session and (key.number or key.owner in state.clients):
        cancellation.end_with_reason(state, client, "A client may only upload objects of its own session.", now)
        return
    client.objects[key] = True
    client.has_stored |= key.number != 0
    client.states(now)
    try:
        if isinstance(body, ObjectStored):
            replies = state.objects.on_stored(client.session, body)
        else:
            replies = state.objects.on_chunk(client.session, body)
    except Forged as error:
        cancellation.end_with_reason(state, client, str(error), now)
        return
    outbox.send_all(state, replies, now)


def on_client_objects(state: SchedulerState, client: ClientPeer, body: ObjectsStored, now: float) -> None:
    """A client has put objects of its own into the store of its host."""
    if len(body.numbers) != len(body.sizes):
        text = "The number of stored objects differs from the number of their sizes."
        cancellation.end_with_reason(state, client, text, now)
        return
    if body.owner != client.session:
        cancellation.end_with_reason(state, client, "A client may only store objects of its own session.", now)
        return
    for number, size in zip(body.numbers, body.sizes, strict=True):
        on_client_object(state, client, ObjectStored(ObjectKey(body.owner, number), size, body.store), now)
        if state.clients.get(client.session) is not client:
            return  # its session has ended


def on_client_missing(state: SchedulerState, client: ClientPeer, body: ObjectMissing, now: float) -> None:
    """A client cannot send an object."""
    outbox.send_all(state, state.objects.on_lost(client.session, body.key), now)


def on_client_release(state: SchedulerState, client: ClientPeer, body: ObjectRelease, now: float) -> None:
    """A client needs objects, results or functions no longer."""
    results, objects = [], []
    for key in body.keys:
        if key.owner == client.session and key.number < UPLOAD_NUMBER:
            results.append(key.number)
        elif key.number == 0 and key.owner in client.functions:
            client.unwanted[key.owner] = True
        elif key.owner == client.session or key in client.objects:
            objects.append(key)
    object_release.release_objects(state, client, objects, now)
    unneeded = client.table.release(results) if results else None
    if unneeded:
        cancellation.cancel(state, client, unneeded, now)
    if client.unwanted:
        definitions.drop_unwanted(state, client, now)


def on_lost(state: SchedulerState, agent: Agent, body: ObjectsLost, now: float) -> None:
    """The store of an agent's host has died, with these objects."""
    for key in body.keys:
        if key.number < UPLOAD_NUMBER:
            values.on_missing(state, agent, ObjectMissing(key, LOST_TEXT), now)
            draining.on_copy_lost(state, agent, key, now)
        else:
            state.objects.lose_copy(agent.session, key, agent.store)


def on_store_attached(state: SchedulerState, agent: Agent, body: StoreAttached, now: float) -> None:
    """An agent has an object store, or has it no longer."""
    if agent.store and body.store != agent.store:
        state.objects.forget_store(agent.store)
    lost_agents.leave_store(state, agent)
    agent.store, agent.store_endpoint = body.store, body.endpoint
    state.placement.join_store(agent, body.store)
    if body.store:
        state.agents_by_store.setdefault(body.store, []).append(agent)


def on_store_status(state: SchedulerState, agent: Agent, body: StoreStatus, now: float) -> None:
    """Note the contents of the store of an agent's host."""
    agent.store_status = body
    orphaned_objects.on_owners(state, agent, body.owners, now)


def on_agent_request(state: SchedulerState, agent: Agent, body: ObjectRequest, now: float) -> None:
    """An agent needs an object, or a value, that the store of its host does not have."""
    key = body.key
    state.transfers.end(agent.session, key, 0, now)
    if key.owner in state.clients and key.number < UPLOAD_NUMBER:
        values.on_agent_request(state, agent, state.clients[key.owner], body, now)
        return
    until = _awaited_until(state, agent, key, now)
    endpoints = {} if body.relayed else _endpoints(state)
    outbox.send_all(state, state.objects.on_request(agent.session, key, until, endpoints), now)
    timers.arm_tick(state, now)


def _awaited_until(state: SchedulerState, agent: Agent, key: ObjectKey, now: float) -> float | None:
    """Return until when the owner of an object may still state it. After a restart of the scheduler the owner may yet
    come back."""
    until = stated_by(state, key, now)
    if until is None and key.owner not in state.clients and now < agent.attached_at + HOLD_SECONDS:
        return agent.attached_at + HOLD_SECONDS  # after a restart of the scheduler: its owner may come back, too
    return until


def _endpoints(state: SchedulerState) -> dict[bytes, str]:
    """Return where stores can be reached, by store and by agent."""
    found = {store: agents[0].store_endpoint for store, agents in state.agents_by_store.items()}
    for agents in state.agents_by_store.values():
        found.update((agent.session, agent.store_endpoint) for agent in agents)
    return found


def on_agent_stored(state: SchedulerState, agent: Agent, body: ObjectStored, now: float) -> None:
    """The store of an agent's host has fetched an object, and can serve it to others."""
    state.transfers.end(agent.session, body.key, body.size, now)
    state.placement.locations.bytes_per_us = state.transfers.bytes_per_second / 1e6
    key = body.key
    if 0 < key.number < UPLOAD_NUMBER:  # a copy of a value
        draining.on_kept(state, agent, key, now)
        stated_copies.on_stated(state, agent, key, now)
        return
    until = _awaited_until(state, agent, key, now)
    outbox.send_all(state, state.objects.on_copied(agent.session, body, until, _endpoints(state)), now)
    timers.arm_tick(state, now)


def on_agent_credit(state: SchedulerState, agent: Agent, body: ObjectCredit, now: float) -> None:
    """An agent can take more of an object or a value, or does not need it any more."""
    state.transfers.end(agent.session, body.key, 0, now)
    if body.offset == CREDIT_WITHOUT_END:
        draining.on_refused(state, agent, body.key, now)
    if state.relays.holder(body.key, agent.session) is not None:
        values.pass_credit(state, agent.session, body, now)
        return
    outbox.send_all(state, state.objects.on_credit(agent.session, body), now)
