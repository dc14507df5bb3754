"""Messages with file descriptors over a stream socket of one machine.

The bytes of a message are described in ``framing``. Descriptors (SCM_RIGHTS) travel with its first byte.
"""

import socket
from collections import deque
from collections.abc import Sequence

SIZE_LIMIT_BYTES: int
"""A larger message is invalid: the connection ends."""

class StreamConnection:
    """Both ends of a connected stream socket, which it owns from now on. Never blocks, except in ``wait``. Bytes that
    cannot be written at once wait here: while ``wants_write``, watch the descriptor for writing and call ``flush``."""

    def __init__(self, connected: socket.socket) -> None: ...
    @classmethod
    def pair(cls) -> tuple[StreamConnection, StreamConnection]:
        """Two connections that are each other's ends."""

    @property
    def fd(self) -> int:
        """Readable when something may be there (level-triggered)."""

    @property
    def plain_socket(self) -> socket.socket:
        """The socket, for questions about the other end; not for reading and writing."""

    @property
    def received_fds(self) -> deque[int]:
        """Descriptors received, in order; those of a message are here when ``receive`` returns it. The taker of one
        closes it; those not taken are closed by ``close``."""

    @property
    def eof(self) -> bool:
        """The other end has closed, or has sent an invalid message. Earlier messages can still be received."""

    @property
    def lacks_descriptors(self) -> bool:
        """A message came with descriptors for which this process has no room, which has ended the connection."""

    limit_bytes: int
    """A larger message ends the connection before it is read: SIZE_LIMIT_BYTES, unless set to less."""

    @property
    def broken(self) -> bool:
        """The other end sent what is not a message, which has ended the connection."""

    @property
    def wants_write(self) -> bool: ...
    @property
    def outgoing_bytes(self) -> int:
        """The number of bytes that wait to be written."""

    def send(self, frames: Sequence[bytes], fds: Sequence[int] = ()) -> bool:
        """Queue one message and write what the kernel takes. False: the other end is gone. Descriptors that cannot be
        sent at once are duplicated, so the caller may close its own on return."""

    def hold(self, frames: Sequence[bytes]) -> None:
        """Queue one message that leaves with the next ``flush`` or ``send``: many small ones cost one system call."""

    def flush(self) -> bool:
        """Write what waits, as far as the kernel takes it. True: nothing waits any more."""

    def receive(self) -> list[bytes] | None:
        """One message; None: nothing complete is waiting. Liveness probes (one empty frame) are swallowed."""

    def wait(self, seconds: float) -> None:
        """Wait until something may have arrived, the time is over or a signal came; pending bytes are written
        meanwhile."""

    def shut_down(self) -> None:
        """End the connection for both ends and all processes that have it; ``close`` is still to be called. A thread
        that waits for it wakes up."""

    def close(self) -> None:
        """May be called twice."""
