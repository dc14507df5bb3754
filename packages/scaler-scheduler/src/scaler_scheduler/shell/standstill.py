"""Disconnects a peer that reads none of the data waiting for it: its queued messages are freed, and it connects again
when it resumes. Heartbeats would show the same, but not all peers send them, and none in the first half second."""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import socket
import termios

LOOK_SECONDS = 0.5
LOOKS = 10
"""Number of consecutive checks that must find the same bytes unread: for five seconds of this process's running time,
too, the peer read nothing."""


class Standstill:
    """The standstill of one of libzmq's connections. ``inode`` tells its socket from a later one with the same
    number."""

    def __init__(self, descriptor: int, inode: int) -> None:
        self._descriptor = descriptor
        self._inode = inode
        self._untaken = 0
        self._looks = 0

    def goes_on(self) -> bool:
        """Return whether the standstill continues; to be called each ``LOOK_SECONDS``. OSError: it is gone, or another
        one has its number now."""
        with contextlib.closing(socket.socket(fileno=os.dup(self._descriptor))) as connection:
            if os.fstat(connection.fileno()).st_ino != self._inode:
                raise OSError("The connection is gone.")
            untaken = _untaken_bytes(connection)
        self._looks = self._looks + 1 if untaken and untaken == self._untaken else 0
        self._untaken = untaken
        return self._looks < LOOKS


def _untaken_bytes(connection: socket.socket) -> int:
    count = array.array("i", [0])
    fcntl.ioctl(connection, termios.TIOCOUTQ, count)
    return count[0]
