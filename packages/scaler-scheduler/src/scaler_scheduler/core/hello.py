"""Peers that connect, and whether their link continues where it was."""

from __future__ import annotations

from scaler_protocol.messages import (
    Challenge,
    Envelope,
    Hello,
    RefusalReason,
    Refused,
    Role,
    TaskName,
    Welcome,
    WhoAreYou,
)
from scaler_scheduler.core import (
    absent_clients,
    heartbeat,
    locks,
    named_values,
    notices,
    outbox,
    recording,
    session_endings,
    share_membership,
    software,
    task_entry,
    timers,
)
from scaler_scheduler.core.admission import answer_to_hello
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.effects import Send
from scaler_scheduler.core.settings import HOLD_SECONDS
from scaler_scheduler.core.state import SchedulerState


def on_hello(
    state: SchedulerState, peer: bytes, hello: Hello, route: bytes | None, now: float, user: bytes = b""
) -> None:
    """A peer connects, or reconnects. ``user``: the holder of the key that the connection showed, when it is not the
    one that the session began with."""
    known = state.agents.get(peer) or state.clients.get(peer)
    if known is not None and not user:
        user = known.user
    answer = answer_to_hello(state.settings, peer, hello, route, user, now)
    answer = answer or share_membership.refusal_for(state, hello)
    if isinstance(answer, Challenge):
        outbox.answer(state, peer, None, answer, now)
        return
    if answer is not None:
        outbox.refuse(state, peer, answer, route)
        notices.warn(state, state.refusal_warnings, f"Refused {peer.hex()[:8]}: {answer.text}", now)
        return
    state.ignored.pop(peer, None)
    timers.arm_tick(state, now)
    if known is not None and _may_resume(state, known, hello, route):
        _resume(state, known, hello, now)
        return
    if isinstance(known, ClientPeer) and _is_blank(known, hello, route):
        _greet_again(state, known, hello, now)
        return
    if known is not None:
        session_endings.end_session(state, peer, now)
    if hello.epoch:
        locks.on_return(state, now)
    if hello.epoch not in (0, state.settings.epoch):
        absent_clients.note_earlier_scheduler(state)
    if hello.role == Role.WORK:
        _new_agent(state, hello, user, now)
    else:
        _new_client(state, hello, route, user, now)


def _may_resume(state: SchedulerState, known: ClientPeer | Agent, hello: Hello, route: bytes | None) -> bool:
    """Return whether the link continues. It does not when the peer speaks of a link that has ended here: when it has
    received more than was sent, or begins after what was received."""
    is_agent = isinstance(known, Agent)
    if is_agent != (hello.role == Role.WORK) or known.route != route or known.is_broken:
        return False
    return hello.epoch == state.settings.epoch and hello.received <= known.link.sent


def _welcome(state: SchedulerState, hello: Hello, received: int, resumed: bool) -> Welcome:
    """Return the Welcome for a peer."""
    settings = state.settings
    welcome = Welcome(
        session=settings.session,
        epoch=settings.epoch,
        received=received,
        resumed=resumed,
        protected=settings.protected,
        distribution_version=settings.version,
        python_version=settings.python_version,
        number=hello.number,
        cluster=settings.cluster,
    )
    return welcome if settings.handshake is None else settings.handshake.prove(hello, welcome)


def _resume(state: SchedulerState, peer: ClientPeer | Agent, hello: Hello, now: float) -> None:
    """The link of a known session continues where it was."""
    peer.connection.is_open = True
    if isinstance(peer, Agent):
        peer.lost_at = None
        heartbeat.on_heard(state, peer, now)
        state.placement.offer(peer)
    else:
        peer.gone_at = None
    outbox.answer(state, peer.session, peer.route, _welcome(state, hello, peer.link.received, True), now)
    for envelope in peer.link.resume(hello.received):
        outbox.transmit(state, peer.connection, envelope, now)
    if isinstance(peer, ClientPeer):
        locks.on_connection_resumed(state, peer.session, now)
        named_values.on_connection_resumed(state, peer.session, now)


def _greet_again(state: SchedulerState, client: ClientPeer, hello: Hello, now: float) -> None:
    """A client did not receive the Welcome, and says Hello again. Its session continues: after a restart of the
    scheduler, clients inside its tasks may have come back before it."""
    client.hello = hello
    client.connection.is_open = True
    client.gone_at = None
    client.states_until = now + HOLD_SECONDS
    _adopt_named(state, client, hello)
    outbox.answer(state, client.session, client.route, _welcome(state, hello, 0, False), now)
    locks.on_connection_resumed(state, client.session, now)
    named_values.on_connection_resumed(state, client.session, now)


def _adopt_named(state: SchedulerState, client: ClientPeer, hello: Hello) -> None:
    """Note the task that a nested client names as the one that it lives in."""
    if hello.parent_session:
        name = hello.parent_session, hello.parent_task, hello.parent_attempt, hello.parent_depth
        task_entry.adopt(state, client, TaskName(*name))


def _new_agent(state: SchedulerState, hello: Hello, user: bytes, now: float) -> None:
    """The session of an agent begins. It counts as soon as the agent attaches."""
    agent = Agent(hello, state.next_agent_index, now, state.agents_with_cancels)
    agent.user = user
    state.next_agent_index += 1
    state.agents[agent.session] = agent
    state.agent_by_index[agent.index] = agent
    outbox.answer(state, agent.session, None, _welcome(state, hello, 0, False), now)


def _new_client(state: SchedulerState, hello: Hello, route: bytes | None, user: bytes, now: float) -> None:
    """The session of a client begins."""
    client = ClientPeer(hello, route, state.totals, now)
    client.user = user
    state.clients[client.session] = client
    state.absent.note_here(client.session)
    share_membership.join(state, client, now)
    recording.note_client_joined(state, client)
    _adopt_named(state, client, hello)
    outbox.answer(state, client.session, route, _welcome(state, hello, 0, False), now)
    software.tell_client(state, client, now)


def on_first_message(state: SchedulerState, peer: bytes, hello: Hello | None, user: bytes, now: float) -> None:
    """A message of a connection that has no session. ``hello`` None: anything but a Hello, which was not decoded.
    ``user``: the holder of the key that the connection showed."""
    state.events.now = now
    if hello is not None:
        on_hello(state, peer, hello, None, now, user)
    elif peer not in state.ignored:
        state.effects.append(Send(peer, Envelope(WhoAreYou())))


def on_malformed_first_message(state: SchedulerState, peer: bytes, text: str, now: float) -> None:
    """The connection has proved nothing, so the session that it names is left alone."""
    notices.warn(state, state.malformed_warnings, f"A message from {peer.hex()[:8]} is malformed: {text}", now)
    outbox.refuse(state, peer, Refused(RefusalReason.MALFORMED, f"The message is malformed: {text}"), None)


def _is_blank(client: ClientPeer, hello: Hello, route: bytes | None) -> bool:
    """Nothing was said on the client's link yet, in either direction: it is as good as a new one."""
    if client.is_broken or hello.role == Role.WORK or client.route != route:
        return False
    return client.link.received == client.link.sent == 0
