"""Cuts off watchers whose keys were taken away or have expired since they connected."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable

import zmq

LOOK_SECONDS = 1.0


class KeyWatch:
    """``users`` tells all whose keys are valid now, as ``KnownKeys.users``."""

    def __init__(self, users: Callable[[], frozenset[bytes]]) -> None:
        self._users = users
        self._valid: frozenset[bytes] | None = None
        self._watchers: dict[int, tuple[int, bytes]] = {}  # by descriptor: inode, user
        self._looked_at = 0.0

    def watch(self, request: zmq.Frame) -> None:
        """Whoever sent this is looked at from now on."""
        try:
            descriptor = int(request.get(zmq.SRCFD))
            user = request.get("User-Id")
            self._watchers[descriptor] = os.fstat(descriptor).st_ino, str(user).encode("utf-8", "surrogateescape")
        except (zmq.ZMQError, OSError):  # the connection is gone
            return

    def cut(self, now: float) -> None:
        """Look at everybody, but not more often than each second. A key that is missing twice in a row is gone: its
        file may be replaced just now."""
        if now - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = now
        before = self._valid
        try:
            self._valid = self._users()
        except OSError:  # they cannot be read now
            return
        for descriptor, (inode, user) in list(self._watchers.items()):
            if user not in self._valid and (before is None or user not in before):
                del self._watchers[descriptor]
                _shut(descriptor, inode)


def _shut(descriptor: int, inode: int) -> None:
    """Its number may belong to another one by now: that one is left alone."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
        if os.fstat(connection.fileno()).st_ino == inode:
            connection.shutdown(socket.SHUT_RDWR)
