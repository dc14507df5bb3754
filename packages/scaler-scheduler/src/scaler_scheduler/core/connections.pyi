"""The connection of a session (contract of connections.pyx)."""

from scaler_protocol.link import Link

class PeerConnection:
    """The way to one session. ``route`` is the session of the agent that relays for it, or None when it has a
    connection of its own."""

    session: bytes
    route: bytes | None
    link: Link
    """Numbers messages, and repeats those that are not acknowledged."""

    is_open: bool
    sent_at: float
    """The time at which the last message was sent."""

    withheld: int | None
    """The number to acknowledge instead of the true one, while tasks wait outside a bounded queue."""

    def __init__(self, session: bytes, route: bytes | None, link: Link, now: float) -> None: ...
