"""Cuts off whoever takes in nothing of what lies there for it: what is queued for it is freed, and it connects again
when it goes on. Heartbeats would tell the same, but not everybody sends them, and nobody in the first half second."""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import socket
import termios

import zmq

LOOK_SECONDS = 0.5
LOOKS = 10
"""So many in a row find the same bytes untaken: for five seconds, of this process's life too, it took in nothing."""


class Standstill:
    def __init__(self) -> None:
        self._watchers: dict[int, _Watcher] = {}
        self._looked_at = 0.0

    def watch(self, request: zmq.Frame) -> None:
        """Whoever sent this is looked at from now on."""
        try:
            descriptor = int(request.get(zmq.SRCFD))
            inode = os.fstat(descriptor).st_ino
        except (zmq.ZMQError, OSError):  # the connection is gone
            return
        known = self._watchers.get(descriptor)
        if known is None or known.inode != inode:
            self._watchers[descriptor] = _Watcher(descriptor, inode)

    def cut(self, now: float) -> None:
        """Look at everybody, but not more often than each half second."""
        if now - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = now
        for descriptor, watcher in list(self._watchers.items()):
            if not watcher.look():
                del self._watchers[descriptor]


class _Watcher:
    def __init__(self, descriptor: int, inode: int) -> None:
        self.inode = inode
        self._descriptor = descriptor
        self._untaken = 0
        self._looks = 0

    def look(self) -> bool:
        """False: it is gone, or was cut off now."""
        try:
            with contextlib.closing(socket.socket(fileno=os.dup(self._descriptor))) as connection:
                return os.fstat(connection.fileno()).st_ino == self.inode and self._goes_on(connection)
        except OSError:  # closed, or another file has its number now
            return False

    def _goes_on(self, connection: socket.socket) -> bool:
        untaken = _untaken_bytes(connection)
        self._looks = self._looks + 1 if untaken and untaken == self._untaken else 0
        self._untaken = untaken
        if self._looks < LOOKS:
            return True
        connection.shutdown(socket.SHUT_RDWR)
        return False


def _untaken_bytes(connection: socket.socket) -> int:
    count = array.array("i", [0])
    fcntl.ioctl(connection, termios.TIOCOUTQ, count)
    return count[0]
