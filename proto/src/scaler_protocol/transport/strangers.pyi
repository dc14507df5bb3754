"""Connections over the network through which nobody has said who he is in a way that was taken.

libzmq keeps the frames of a message until the last one is there, however many there are, so who never sends that one
could have it fill the memory of its process. The kernel knows how much a connection has received.
"""

BYTES_LIMIT: int
"""What one may send. Said before a Welcome: a Hello, and what was on its way to a scheduler that has just gone."""

TOTAL_BYTES_LIMIT: int
"""What all together may send: beyond it, whoever has sent most goes."""

SECONDS_LIMIT: float
"""How long one may take."""

COUNT_LIMIT: int
"""How many there may be; no more than half of the descriptors that this process may have. Beyond it the oldest goes, or
the newest while the oldest has not had ``GRACE_SECONDS``: many peers may come back at once."""

GRACE_SECONDS: float

class Strangers:
    """By the descriptor of their socket, which is libzmq's: it is shut down, never closed."""

    def __len__(self) -> int: ...
    def add(self, fd: int, now: float) -> None: ...
    def remove(self, fd: int) -> None:
        """It has ended, or is no stranger any more."""

    def end(self, fd: int) -> None:
        """End this connection, whoever it belongs to."""

    def close(self) -> None:
        """May be called twice."""

    def cut(self, now: float) -> int:
        """End those that have passed a limit. How many they were."""
