"""The admission of peers: what they must prove before their messages count, and what follows when their keys end."""

from __future__ import annotations

from scaler_protocol.address import parse_address
from scaler_protocol.handshake import refusal_for
from scaler_protocol.keys import holder_of_user, is_same_holder, key_of_user, may_act_as, role_of_user
from scaler_protocol.messages import Challenge, Envelope, Hello, RefusalReason, Refused, Role
from scaler_scheduler.core import notices, outbox, session_endings
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.effects import Disconnect, Send
from scaler_scheduler.core.settings import Settings
from scaler_scheduler.core.state import SchedulerState

OTHERS_SESSION_TEXT = "This session began with another key, or that key no longer permits it."
REVOKED_TEXT = "The scheduler does not know this peer's key any more, or it has expired. Ask its operator for another."
_UNPROTECTED = Refused(
    RefusalReason.TOKEN, "Cannot admit peers of the scheduler's machine: the scheduler was started without a token."
)


def knows(state: SchedulerState, peer: bytes) -> bool:
    """Return whether ``peer`` has a session with a connection of its own. From any other connection only a Hello is
    considered."""
    if peer in state.agents:
        return True
    client = state.clients.get(peer)
    return client is not None and client.route is None


def answer_to_hello(
    settings: Settings, peer: bytes, hello: Hello, route: bytes | None, user: bytes, now: float
) -> Refused | Challenge | None:
    """The refusal or challenge that answers ``hello``; None: the peer is welcome."""
    if hello.session != peer:
        return Refused(RefusalReason.SESSION, "The session in Hello is not the routing id of its connection.")
    if route is not None:  # its agent has proved who it is
        return (
            Refused(RefusalReason.ROLE, "Only clients can have nested sessions.") if hello.role == Role.WORK else None
        )
    refused = refusal_for(hello, user)
    if refused is not None:
        return refused
    if hello.role == Role.OBSERVE:
        return Refused(RefusalReason.ROLE, "Cannot serve monitors here. Connect to the monitor address.")
    if user:  # the key is the proof
        return None
    if settings.handshake is not None:
        return settings.handshake.answer(hello, now)
    return _UNPROTECTED if _needs_proof(settings.address) else None


def _needs_proof(address: str) -> bool:
    parsed = parse_address(address)
    return parsed.is_local and parsed.scheme != "inproc"


def is_operator(state: SchedulerState, client: ClientPeer) -> bool:
    """Return whether a client may act on the whole cluster. With keys, only administrators may. A client inside a task
    has the rights of its agent."""
    agent = state.agents.get(client.route) if client.route is not None else None
    user = client.user if agent is None else agent.user
    return not user or role_of_user(user) == Role.ADMIN


# ---- keys ------------------------------------------------------------------------------------------------------------


def admits(state: SchedulerState, peer: bytes, user: bytes) -> bool:
    """Return whether messages of the connection of ``peer`` are accepted. A session belongs to the holder of the key
    that it began with: another user who learns its id cannot continue it."""
    known = state.agents.get(peer) or state.clients.get(peer)
    if known is None or known.user == user:
        return True
    if not is_same_holder(known.user, user) or not may_act_as(role_of_user(user), known.hello.role):
        state.effects.append(Send(peer, Envelope(Refused(RefusalReason.SESSION, OTHERS_SESSION_TEXT))))
        return False
    known.user = user
    return True


def on_keys_changed(state: SchedulerState, users: frozenset[bytes], now: float) -> None:
    """``users`` are all holders whose keys are known and have not expired. Connections with other keys end. A holder of
    a newer key may come back with it; the tasks of all others end as if they had left."""
    state.events.now = now
    valid = sorted(users)
    peers: list[ClientPeer | Agent] = [*state.agents.values(), *state.clients.values()]
    for known in peers:
        if known.user and known.route is None and known.user not in users:
            _revoke(state, known, valid, now)


def _revoke(state: SchedulerState, known: ClientPeer | Agent, valid: list[bytes], now: float) -> None:
    peer, user, role = known.session, known.user, known.hello.role
    same_key = [
        each for each in valid if key_of_user(each) == key_of_user(user) and may_act_as(role_of_user(each), role)
    ]
    if same_key:  # its file has another name by now
        known.user = same_key[0]
        return
    holder, shown = holder_of_user(user), peer.hex()[:8]
    if any(is_same_holder(each, user) and may_act_as(role_of_user(each), role) for each in valid):
        notices.log(
            state, f"A newer key has replaced that of {holder}: {shown} is disconnected, and can return with it"
        )
    else:
        notices.log(state, f"The key of {holder} has expired or was removed: {shown} is disconnected", "WARNING")
        outbox.refuse(state, peer, Refused(RefusalReason.ROLE, REVOKED_TEXT), None)
        session_endings.end_session(state, peer, now)
    state.effects.append(Disconnect(peer))
