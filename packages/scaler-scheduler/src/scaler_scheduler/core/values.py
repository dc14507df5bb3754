"""Results that agents hold: large ones, which their clients fetch, and values that other tasks need.

Values pass through the scheduler, or from store to store; nothing is kept here. ``relays`` knows whose turn it is.
"""

from __future__ import annotations

from dataclasses import replace

from scaler_protocol.messages import (
    CREDIT_WITHOUT_END,
    UPLOAD_NUMBER,
    ObjectChunk,
    ObjectCredit,
    ObjectKey,
    ObjectLocations,
    ObjectMissing,
    ObjectRequest,
    Status,
)
from scaler_scheduler.core import outbox, requeue, task_endings, timers
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.objects import SOURCES_LIMIT
from scaler_scheduler.core.relays import LostRead, is_last
from scaler_scheduler.core.state import SchedulerState
from scaler_scheduler.core.states import LOSSES_LIMIT, Action, TaskState

_WITHOUT_VALUE = (TaskState.ENDED, TaskState.FREED)
"""There is no result, and none will be made for a client that asks."""

NOT_KEPT_TEXT = (
    "The cluster no longer has this result: its call was cancelled, or it was not fetched for the "
    "--object-retention-seconds of the scheduler. Submit the call again."
)


def forget_reader(state: SchedulerState, session: bytes, now: float) -> None:
    """A peer that was to receive values is gone: their holders go on with the next reader, or stop."""
    for key, holder, others in state.relays.forget_reader(session) if state.relays else ():
        agent = state.agents.get(holder)
        if agent is not None:
            outbox.send(
                state, agent, state.relays.request(key) if others else ObjectCredit(key, CREDIT_WITHOUT_END), now
            )


def forget_holder(state: SchedulerState, session: bytes, now: float) -> list[LostRead]:
    """Agents that waited for values of a lost agent give up the tasks that need them. Returns what clients waited
    for: ``read_on`` when it is known which agents keep the values."""
    lost = state.relays.forget_holder(session) if state.relays else []
    for key, reader, _ in lost:
        _forget_copy(state, key, reader)
        if reader in state.agents:
            outbox.send(state, state.agents[reader], missing(state, key, task_endings.LOST_TEXT), now)
    return [read for read in lost if read.reader in state.clients]


def missing(state: SchedulerState, key: ObjectKey, text: str) -> ObjectMissing:
    """Return the answer to an agent that does not get a value, which says whether its task makes it again."""
    return ObjectMissing(key, text, _is_made_again(state, key))


def _is_made_again(state: SchedulerState, key: ObjectKey) -> bool:
    owner = state.clients.get(key.owner) if 0 < key.number < UPLOAD_NUMBER else None
    return owner is not None and owner.table.columns.state(key.number) not in (*_WITHOUT_VALUE, TaskState.CANCELLING)


def _forget_copy(state: SchedulerState, key: ObjectKey, reader: bytes) -> None:
    """A reader has not received all of a value."""
    agent, owner = state.agents.get(reader), state.clients.get(key.owner)
    if agent is not None and owner is not None and key.number < UPLOAD_NUMBER:
        owner.table.nodes.forget_copy(key.number, agent.index)


def read_on(state: SchedulerState, lost: LostRead, now: float) -> bool:
    """Have a client that waited for a large result get it from the agent that keeps it now, in the same way. False:
    there is none, and the client waits for a new attempt."""
    client = state.clients.get(lost.reader)
    keeper = result_holder(state, client, lost.key) if client is not None else None
    if keeper is not None:
        fetch(state, keeper, lost.key, lost.reader, lost.relayed, now)
    return keeper is not None


def fetch(state: SchedulerState, holder: Agent, key: ObjectKey, reader: bytes, relayed: bool, now: float) -> None:
    """Have the holder of a value send it to a reader, as soon as it is that reader's turn."""
    if state.relays.join(key, holder.session, reader, relayed):
        outbox.send(state, holder, state.relays.request(key), now)


def on_client_request(state: SchedulerState, client: ClientPeer, body: ObjectRequest, now: float) -> None:
    """A client requests a large result."""
    key = body.key
    agent = result_holder(state, client, key)
    if agent is not None:
        client.fetching[key.number] = True
        fetch(state, agent, key, client.session, not body.direct, now)
    elif key.owner == client.session and client.table.columns.state(key.number) not in _WITHOUT_VALUE:
        client.fetching[key.number] = True
    else:
        outbox.send(state, client, ObjectMissing(key, NOT_KEPT_TEXT), now)


def on_client_credit(state: SchedulerState, client: ClientPeer, body: ObjectCredit, now: float) -> None:
    """A client can take more of a large result."""
    pass_credit(state, client.session, body, now)


def pass_credit(state: SchedulerState, reader: bytes, credit: ObjectCredit, now: float) -> None:
    """Pass the credit of a reader on to the holder of the value."""
    holder = state.relays.holder(credit.key, reader)
    if holder is not None and holder in state.agents:
        outbox.send(state, state.agents[holder], credit, now)
        if credit.offset == CREDIT_WITHOUT_END:
            _serve_next(state, state.agents[holder], credit.key, now)


def _serve_next(state: SchedulerState, holder: Agent, key: ObjectKey, now: float) -> None:
    """One reader has all of a value: the next one gets it."""
    if state.relays.next(key):
        outbox.send(state, holder, state.relays.request(key), now)


def result_holder(state: SchedulerState, client: ClientPeer, key: ObjectKey) -> Agent | None:
    """Return the agent that holds a large result of this client, or None."""
    if key.owner != client.session or key.number >= UPLOAD_NUMBER:
        return None
    known = client.table.columns.describe(key.number)
    if known is None or known.state != TaskState.DONE_LARGE:
        return None
    return state.agent_by_index.get(known.agent_index)


def on_agent_chunk(state: SchedulerState, agent: Agent, body: ObjectChunk | ObjectMissing, now: float) -> None:
    """Part of a value on its way to a reader, or the news that the value is gone."""
    key = body.key
    if isinstance(body, ObjectMissing):
        on_missing(state, agent, body, now)
        return
    reader = state.relays.reader(key, agent.session)
    if reader is not None:
        outbox.send_all(state, [(reader, body)], now)
        if is_last(body):
            _serve_next(state, agent, key, now)


def on_locations(state: SchedulerState, agent: Agent, body: ObjectLocations, now: float) -> None:
    """A holder says where the store of a reader can fetch a value."""
    reader = state.relays.reader(body.key, agent.session)
    if reader is not None:
        outbox.send_all(state, [(reader, replace(body, sources=_sources(state, body, reader)))], now)
        _serve_next(state, agent, body.key, now)


def _sources(state: SchedulerState, body: ObjectLocations, reader: bytes) -> tuple[str, ...]:
    """The store of the holder, then stores that have fetched the value: they are tried when the first is gone or
    stalls."""
    client = state.clients.get(body.key.owner)
    if client is None or body.key.number >= UPLOAD_NUMBER:
        return body.sources
    copies = [state.agent_by_index.get(index) for index in client.table.nodes.copies_of(body.key.number)]
    others = [each.store_endpoint for each in copies if each is not None and each.session != reader]
    return tuple(dict.fromkeys((*body.sources, *filter(None, others))))[:SOURCES_LIMIT]


def on_missing(state: SchedulerState, agent: Agent, body: ObjectMissing, now: float) -> None:
    """An agent does not have a value any more. If it is read there, clients get it from another agent, or wait when its
    task runs again, and agents give up the tasks that need it."""
    lost = state.relays.drop(body.key, agent.session)
    for read in lost:
        _forget_copy(state, body.key, read.reader)
    runs_again = _lose(state, agent, body.key, now)
    waiting = [read for read in lost if read.reader not in state.agents and read_on(state, read, now)]
    told = [read for read in lost if read.reader in state.agents or not (runs_again or read in waiting)]
    answer = missing(state, body.key, body.text)
    outbox.send_all(state, [(read.reader, answer) for read in told], now)


def _lose(state: SchedulerState, agent: Agent, key: ObjectKey, now: float) -> bool:
    """Forget where a value is. Returns whether its task runs again for the client."""
    client = state.clients.get(key.owner)
    if client is None or key.number >= UPLOAD_NUMBER:
        return False
    action = client.table.nodes.lose_value(key.number, agent.index, LOSSES_LIMIT)
    if action == Action.NOTHING:
        return False
    client.large.pop(key.number, None)
    client.large_bytes.pop(key.number, None)
    if action == Action.GIVE_UP:
        client.table.finish(key.number, Status.OBJECT_MISSING)
        task_endings.report_failed(state, client, key.number, Status.OBJECT_MISSING)
        return False
    if action == Action.REQUEUE:
        requeue.requeue(client, key.number)
    return True


def on_agent_request(state: SchedulerState, agent: Agent, client: ClientPeer, body: ObjectRequest, now: float) -> None:
    """An agent has a task that needs the value of a node, which another agent holds."""
    key = body.key
    awaited = state.awaited_values.get(key)
    if awaited is not None:
        awaited.pop(agent.session, None)
    index = client.table.nodes.value_holder(key.number)
    if index == agent.index:  # who should have it asks for it
        _lose(state, agent, key, now)
        index = client.table.nodes.value_holder(key.number)
    if index is None or index == agent.index or index not in state.agent_by_index:
        _answer_missing(state, agent, body, now)
        return
    client.table.nodes.note_copy(key.number, agent.index)
    fetch(state, state.agent_by_index[index], key, agent.session, body.relayed, now)


def _answer_missing(state: SchedulerState, agent: Agent, body: ObjectRequest, now: float) -> None:
    """No other agent has the value. An agent that waits is answered when it has been made again."""
    answer = missing(state, body.key, NOT_KEPT_TEXT)
    if body.waits and answer.is_made_again:
        state.awaited_values.setdefault(body.key, {})[agent.session] = body.relayed
        timers.arm_tick(state, now)
    else:
        outbox.send(state, agent, answer, now)


def on_tick(state: SchedulerState, now: float) -> None:
    """Look at the values that agents wait for."""
    for key in list(state.awaited_values):
        client = state.clients.get(key.owner)
        is_here = client is not None and client.table.nodes.value_holder(key.number) is not None
        if is_here or not _is_made_again(state, key):
            _answer_waiting(state, client, key, now)


def _answer_waiting(state: SchedulerState, client: ClientPeer | None, key: ObjectKey, now: float) -> None:
    """A value that agents wait for has been made again, or will not be."""
    for session, relayed in state.awaited_values.pop(key).items():
        agent = state.agents.get(session)
        if agent is None:
            continue
        if client is None or client.table.nodes.value_holder(key.number) == agent.index:
            # an agent that has made it itself knows, unless it is small now
            outbox.send(state, agent, ObjectMissing(key, NOT_KEPT_TEXT), now)
        else:
            on_agent_request(state, agent, client, ObjectRequest(key, relayed, waits=True), now)
