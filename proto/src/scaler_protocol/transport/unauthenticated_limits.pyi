"""TCP connections that have not authenticated yet.

libzmq keeps the frames of a message until the last one is there, however many there are, so who never sends that one
could have it fill the memory of its process. The kernel knows how much a connection has received.
"""

BYTES_LIMIT: int
"""Limit of one peer's bytes before a Welcome: a Hello, and messages in transit to a scheduler that has just ended."""

TOTAL_BYTES_LIMIT: int
"""Limit for the bytes of all connections; beyond it, the connection that has sent most is closed."""

SECONDS_LIMIT: float
"""Seconds that one connection may take to authenticate."""

COUNT_LIMIT: int
"""Maximum number of unauthenticated connections, at most half of the descriptors that this process may have. Beyond it
the oldest goes, or the newest while the oldest has not had ``GRACE_SECONDS``: many peers may come back at once."""

GRACE_SECONDS: float

class UnauthenticatedLimits:
    """The limits by the descriptor of the socket, which is libzmq's: it is shut down, never closed."""

    def __len__(self) -> int: ...
    def add(self, fd: int, now: float) -> None: ...
    def remove(self, fd: int) -> None:
        """The connection has ended or authenticated."""

    def end(self, fd: int) -> None:
        """End this connection."""

    def close(self) -> None:
        """May be called twice."""

    def cut(self, now: float) -> int:
        """End those that have passed a limit. How many they were."""
