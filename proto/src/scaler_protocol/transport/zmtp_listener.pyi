"""Connections of peers on this machine, without libzmq: what a ROUTER does, in the caller's thread."""

import socket
from collections.abc import Callable

HANDSHAKE_SECONDS_LIMIT: float
"""Who has not shaken hands after it is cut off."""

HALF_OPEN_LIMIT: int
"""How many may be about to shake hands: beyond it the oldest is cut off."""

def peer_of(connected: socket.socket) -> tuple[int, int]:
    """The process at the other end of a unix socket, or 0 when it cannot be seen from here, and its user. At the end
    that connected: who listens there."""

class ZmtpListener:
    """Served by ``RouterFrames``, which asks it before it asks libzmq. ``other_fd``: one more descriptor to watch,
    libzmq's. ``tell_lost`` is called when connections have ended; ``take_lost`` says how many."""

    def __init__(self, other_fd: int, tell_lost: Callable[[], object]) -> None: ...
    @property
    def fd(self) -> int:
        """Readable when something may be there, on ``other_fd`` as well (level-triggered)."""

    def listen(self, name: str) -> None:
        """On the abstract unix socket of this name (without its leading ``@``). Raises OSError."""

    def take_lost(self) -> int:
        """How many connections have ended since the last call."""

    def close(self, linger_milliseconds: int = 0) -> None: ...
