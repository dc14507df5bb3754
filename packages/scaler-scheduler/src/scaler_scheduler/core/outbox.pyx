# cython: language_level=3
"""Messages sent to peers. See outbox.pyi for the contract."""

from scaler_scheduler.core.connections cimport PeerConnection
from scaler_scheduler.core.state cimport SchedulerState

from scaler_protocol import codec
from scaler_protocol.effects import Send
from scaler_protocol.messages import Acknowledgement, Envelope, ObjectLocations, Relay
from scaler_scheduler.core.limits import IGNORED_LIMIT


def send(SchedulerState state, peer, body, double now):
    return send_over(state, peer.connection, body, now)


cdef send_over(SchedulerState state, PeerConnection connection, body, double now):
    envelope = connection.link.wrap(body)
    transmit(state, connection, envelope, now)
    return envelope


cpdef transmit(SchedulerState state, PeerConnection connection, envelope, double now):
    connection.sent_at = now
    if connection.withheld is not None:
        envelope.acknowledged = min(envelope.acknowledged, connection.withheld)
    if not connection.is_open:
        return
    if connection.route is None:
        state.effects.append(Send(connection.session, envelope))
    else:
        relay(state, connection.session, connection.route, envelope, now)


cpdef answer(SchedulerState state, bytes session, route, body, double now):
    if route is None:
        state.effects.append(Send(session, Envelope(body)))
    else:
        relay(state, session, route, Envelope(body), now)


def acknowledge(SchedulerState state, peer, double now):
    send(state, peer, Acknowledgement(), now)


def send_all(SchedulerState state, list replies, double now):
    for session, body in replies:
        peer = state.agents.get(session) or state.clients.get(session)
        if isinstance(body, ObjectLocations) and session in state.agents:
            state.transfers.begin(session, body.key, body.size, now)
        if peer is not None:
            send(state, peer, body, now)


def refuse(SchedulerState state, bytes peer, refused, route):
    answer(state, peer, route, refused, 0.0)
    ignore(state, peer)


def ignore(SchedulerState state, bytes peer):
    while len(state.ignored) >= IGNORED_LIMIT:
        del state.ignored[next(iter(state.ignored))]
    state.ignored[peer] = True


cdef relay(SchedulerState state, bytes session, route, envelope, double now):
    agent = state.agents.get(route)
    if agent is not None:
        send(state, agent, Relay(session, tuple([bytes(frame) for frame in codec.encode(envelope)])), now)
