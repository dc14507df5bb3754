"""Messages sent to peers (contract of outbox.pyx).

Messages become effects of the current turn, which the shell carries out. Those of a nested client travel inside
messages to the agent that relays for it.
"""

from scaler_protocol.messages import Body, Envelope, Refused
from scaler_scheduler.core.agents import Agent
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.connections import PeerConnection
from scaler_scheduler.core.objects import Replies
from scaler_scheduler.core.state import SchedulerState

def send(state: SchedulerState, peer: ClientPeer | Agent, body: Body, now: float) -> Envelope:
    """Send a message over the link of a session. It is repeated until it is acknowledged."""

def transmit(state: SchedulerState, connection: PeerConnection, envelope: Envelope, now: float) -> None:
    """Send a message that the link has numbered already."""

def answer(state: SchedulerState, session: bytes, route: bytes | None, body: Body, now: float) -> None:
    """Send an unnumbered message to a session that may have no link. ``route``: the agent that relays for it."""

def acknowledge(state: SchedulerState, peer: ClientPeer | Agent, now: float) -> None:
    """Send an acknowledgement that no other message carries."""

def send_all(state: SchedulerState, replies: Replies, now: float) -> None:
    """Send what the object store answered. Sessions that have ended are skipped."""

def refuse(state: SchedulerState, peer: bytes, refused: Refused, route: bytes | None) -> None:
    """Tell a peer that it is refused, and ignore it."""

def ignore(state: SchedulerState, peer: bytes) -> None:
    """Drop what a peer sends before its next Hello, without an answer."""
