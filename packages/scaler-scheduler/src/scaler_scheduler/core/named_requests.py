"""Values that clients and tasks share by name: what sessions request. See ``named_table``."""

from __future__ import annotations

from scaler_protocol.ids import ID_SIZE_BYTES
from scaler_protocol.messages import (
    LOCK_NAME_LIMIT_BYTES,
    NAMED_VALUE_LIMIT_BYTES,
    CoordinationKind,
    NamedAction,
    NamedRequest,
    NamedState,
)
from scaler_scheduler.core import cancellation, lock_table, named_table
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.named_table import PendingRequest
from scaler_scheduler.core.named_values import reply, tell
from scaler_scheduler.core.state import SchedulerState

REQUESTS_LIMIT = 4096
"""Requests of one session that may wait."""

_STATED = (NamedAction.RESTATE, NamedAction.RESTATE_CLEARED)
_PUBLISHING = (NamedAction.TRY_SET, NamedAction.RESTATE)
_ADDING = (NamedAction.PUT, NamedAction.TRY_PUT, NamedAction.RETURN)
"""To what a name has already."""

_CHANGES = (NamedAction.SET, NamedAction.CLEAR, *_STATED)
_WAITING = (NamedAction.READ, NamedAction.PUT, NamedAction.TAKE)
_OF_VARIABLES = frozenset((NamedAction.SET, NamedAction.CLEAR, NamedAction.READ, NamedAction.PEEK, *_STATED))
_ACTIONS = {
    CoordinationKind.EVENT: _OF_VARIABLES,
    CoordinationKind.VARIABLE: _OF_VARIABLES,
    CoordinationKind.QUEUE: frozenset(
        (
            NamedAction.PUT,
            NamedAction.TRY_PUT,
            NamedAction.TAKE,
            NamedAction.TRY_TAKE,
            NamedAction.COUNT,
            NamedAction.RETURN,
        )
    ),
    CoordinationKind.PUBLISHED: frozenset(
        (NamedAction.TRY_SET, NamedAction.CLEAR, NamedAction.PEEK, NamedAction.LIST, *_STATED)
    ),
}
"""The actions of each kind, in addition to WITHDRAW."""


def on_request(state: SchedulerState, client: ClientPeer, body: NamedRequest, now: float) -> None:
    """A session reads or changes a named value, or waits no longer."""
    problem = _reason_to_end(body)
    if problem:
        cancellation.end_with_reason(state, client, problem, now)
    elif body.named_action == NamedAction.WITHDRAW:
        _withdraw(state, client, body, now)
    elif body.named_action in _STATED:
        _restate(state, client, body, now)
    elif body.number > state.named.last_numbers.get(client.session, 0):
        state.named.last_numbers[client.session] = body.number
        _enter(state, client, body, now)
    # otherwise a client that was interrupted has repeated it


def _withdraw(state: SchedulerState, client: ClientPeer, body: NamedRequest, now: float) -> None:
    """Withdraw a request, without an answer if the request has been answered. One that was never received is not
    accepted any more."""
    table = state.named
    waiting = table.waiting.get(client.session, {}).get(body.number)
    if waiting is not None:
        named_table.withdraw(table, waiting)
    elif body.number > table.last_numbers.get(client.session, 0):
        table.last_numbers[client.session] = body.number
    else:
        return
    reply(state, client, body.kind, body.number, NamedState.ENDED, now)


def _restate(state: SchedulerState, client: ClientPeer, body: NamedRequest, now: float) -> None:
    request = PendingRequest(client.session, _user_of(state, client, body), body)
    refusal = _reason_to_refuse(state, request)
    if refusal:
        reply(state, client, body.kind, body.number, NamedState.REFUSED, now, refusal)
    else:
        tell(state, named_table.restate(state.named, request, body.version), now)


def _enter(state: SchedulerState, client: ClientPeer, body: NamedRequest, now: float) -> None:
    """A new request, or one that a session made before the scheduler was restarted."""
    request = PendingRequest(client.session, _user_of(state, client, body), body)
    refusal = _reason_to_refuse(state, request)
    if refusal:
        reply(state, client, body.kind, body.number, NamedState.REFUSED, now, refusal)
    elif state.locks.is_quiet:
        named_table.hold(state.named, request)
        reply(state, client, body.kind, body.number, NamedState.WAITING, now)
    else:
        tell(state, named_table.perform(state.named, request), now)


def on_tick(state: SchedulerState, now: float) -> None:
    """Sessions had time to state what they have set: requests that were held are performed."""
    table = state.named
    if not table.held or state.locks.is_quiet:
        return
    for request in named_table.take_held(table):
        client = state.clients.get(request.session)
        if client is None:
            continue
        if request.user not in state.clients:
            request.user = request.session  # the client around it has left meanwhile
        refusal = _reason_to_refuse(state, request)
        if refusal:
            kind = CoordinationKind(request.name[0])
            reply(state, client, kind, request.number, NamedState.REFUSED, now, refusal)
        else:
            tell(state, named_table.perform(table, request), now)


def _reason_to_end(body: NamedRequest) -> str:
    """Return why the session must end; empty if it need not."""
    if body.kind not in named_table.NOUNS:
        return f"The kind {body.kind.name.lower()} has no value."
    if body.named_action != NamedAction.WITHDRAW and body.named_action not in _ACTIONS[body.kind]:
        return f"The kind {body.kind.name.lower()} has no action {body.named_action.name.lower()}."
    if len(body.task_session) not in (0, ID_SIZE_BYTES):
        return f"The session of a task has {ID_SIZE_BYTES} bytes."
    return ""


def _reason_to_refuse(state: SchedulerState, request: PendingRequest) -> str:
    """Return why the request is refused; empty if it can be met."""
    table = state.named
    kind, name = request.name
    if len(name.encode()) > LOCK_NAME_LIMIT_BYTES:
        return f"A name has at most {LOCK_NAME_LIMIT_BYTES} bytes."
    if kind == CoordinationKind.PUBLISHED and request.action in _PUBLISHING:
        if "\0" in name:
            return "A name has no zero character."
        if len(table.published) >= named_table.PUBLISHED_LIMIT:
            return f"There are {named_table.PUBLISHED_LIMIT} published values already. Unpublish some first."
        if named_table.published_by(table, request.user) >= named_table.CLIENT_PUBLISHED_LIMIT:
            return f"One client publishes at most {named_table.CLIENT_PUBLISHED_LIMIT} values. Unpublish some first."
    if len(request.value) > NAMED_VALUE_LIMIT_BYTES:
        return f"A value has at most {NAMED_VALUE_LIMIT_BYTES} bytes."
    if request.action in _CHANGES and not _may_change(state, request):
        return "This client does not have the name of this actor."
    found = table.names.get(request.name)
    if found is not None and found.limit != request.limit:
        return f"Others use it with the maximum size {found.limit}, not {request.limit}. Use one for all."
    may_wait = request.action in _WAITING or (state.locks.is_quiet and request.action not in _STATED)
    if may_wait and len(table.waiting.get(request.session, ())) >= REQUESTS_LIMIT:
        return f"This client already waits for {REQUESTS_LIMIT} values."
    if request.action == NamedAction.LIST or (found is not None and not _adds(request)):
        return ""
    shortage = named_table.shortage_for(table, request)
    return f"{shortage} Delete some first." if shortage else ""


def _may_change(state: SchedulerState, request: PendingRequest) -> bool:
    """Return whether it is the handle of no actor, or the session holds the name of the actor."""
    kind, name = request.name
    lock = (int(CoordinationKind.LOCK), name)
    if kind != CoordinationKind.VARIABLE or not lock_table.is_actor_name(lock):
        return True
    held = state.locks.locks.get(lock)
    return held is not None and any(session == request.session for session, _ in held.holders)


def _adds(request: PendingRequest) -> bool:
    """Return whether it makes a known name take more. Setting an event again and again does not."""
    return bool(request.value) or request.action in _ADDING


def _user_of(state: SchedulerState, client: ClientPeer, body: NamedRequest) -> bytes:
    """The client in whose tasks, at any depth, this one lives; or this one. A session that passes from task to task
    says which task makes the request."""
    around = state.clients.get(body.task_session, client)
    while around.parent is not None and around.parent.session in state.clients:
        around = state.clients[around.parent.session]
    return around.session
