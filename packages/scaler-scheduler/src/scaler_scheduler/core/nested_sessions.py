"""Messages of nested clients, which agents relay."""

from __future__ import annotations

from scaler_protocol import codec
from scaler_protocol.messages import Envelope, Hello, RefusalReason, Refused, Relay, RelayClosed, Tasks, WhoAreYou
from scaler_scheduler.core import cancellation, hello, outbox, session_endings
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.limits import TASKS_LIMIT_BYTES, TOO_LARGE_TEXT
from scaler_scheduler.core.state import SchedulerState


def unwrap(
    state: SchedulerState, agent: Agent, body: Relay, now: float
) -> tuple[ClientPeer, Envelope] | tuple[None, None]:
    """The nested client and its message, when the hot path must handle the message; (None, None) when it has been
    handled here."""
    session = body.session
    try:
        inner = codec.decode(list(body.frames))
        if type(inner.body) is Tasks and sum(map(len, body.frames)) > TASKS_LIMIT_BYTES:
            raise codec.MalformedMessage(TOO_LARGE_TEXT)
    except codec.MalformedMessage as error:
        session_endings.refuse_nested(state, agent, session, f"The message is malformed: {error}", now)
        return None, None
    client = state.clients.get(session)
    if isinstance(inner.body, Hello):
        if session in state.agents or (client is not None and client.route != agent.session):
            refused = Refused(RefusalReason.SESSION, "This session is connected elsewhere.")
            outbox.answer(state, session, agent.session, refused, now)
        else:
            hello.on_hello(state, session, inner.body, agent.session, now)
    elif client is not None and client.route == agent.session:
        return client, inner
    elif session not in state.ignored:
        outbox.answer(state, session, agent.session, WhoAreYou(), now)
    return None, None


def on_closed(state: SchedulerState, agent: Agent, body: RelayClosed, now: float) -> None:
    """The connection between a nested client and its agent ended."""
    client = state.clients.get(body.session)
    if client is not None and client.route == agent.session:
        state.ignored.pop(body.session, None)
        cancellation.orphan(state, client, now)
