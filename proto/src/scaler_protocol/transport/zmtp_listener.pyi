"""Connections of peers that speak ZMTP: what a ROUTER does, in the caller's thread.

Peers that have not authenticated are kept apart (``unauthenticated``): ``unauthenticated_messages`` returns their
messages, and only ``answer`` sends to them.
"""

from collections.abc import Callable, Iterator, Sequence

from scaler_protocol.keys import ServerKeys
from scaler_protocol.transport.unauthenticated import Listening, Unauthenticated

BEAT_SECONDS: float
"""Period in which a silent peer is asked for a sign of life if its process cannot be watched."""

SILENT_BEATS_LIMIT: int
"""Number of unanswered requests after which the peer counts as gone."""

class ZmtpListener:
    """Served by ``RouterFrames``. A MemoryError that ends a connection is raised after the messages of all others have
    been returned. ``tell_lost`` is called when connections have ended; ``take_lost`` says how many."""

    def __init__(self, tell_lost: Callable[[], object], keys: ServerKeys | None = None) -> None:
        """``keys``: of connections that are encrypted, and whose peers show a key."""

    @property
    def fd(self) -> int:
        """Readable when something may be there (level-triggered)."""

    @property
    def unauthenticated(self) -> Unauthenticated: ...
    def listen(self, listening: Listening) -> None:
        """On a socket that is bound, and belongs to this listener from now on. Raises OSError."""

    def unauthenticated_messages(self, has_work: bool = True) -> Iterator[tuple[bytes, list[bytes], bytes]]:
        """Peer, frames and the user of the key shown (empty: there are no keys), for a short time only. It is shorter
        while authenticated peers send messages and there was work (``has_work``) within the last second. The frames are
        empty for a message that was not a Hello and was dropped."""

    def has(self, peer: bytes) -> bool:
        """Return whether there is a connection to it."""

    def answer(self, peer: bytes, frames: Sequence[bytes]) -> str:
        """Like ``send``, to the connection of this name that has not authenticated, if there is one."""

    def admit(self, peer: bytes) -> None:
        """The connection of this name has authenticated: it takes the place of an earlier one."""

    def pause(self, peer: bytes) -> None:
        """Read nothing more from its connection, and do not notice its end, until ``resume``."""

    def resume(self, peer: bytes) -> None: ...
    def disconnect(self, peer: bytes) -> None:
        """End its connections."""

    def take_lost(self) -> int:
        """Return how many connections have ended since the last call."""

    def close(self, linger_milliseconds: int = 0) -> None: ...
