"""Accepting connections to a unix socket that every process of the machine can find.

Only this user's processes are let in, which the kernel is asked about before a byte is read. A flood of connections
takes a bounded part of each turn. When no descriptor is left, a connection is accepted with one that was kept for this
moment, told so, and closed: left in the queue it would wake its listener indefinitely, and its other end would wait.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator

from scaler_protocol.codec import encode
from scaler_protocol.messages import Envelope, RefusalReason, Refused
from scaler_protocol.objects.names import is_same_user
from scaler_protocol.transport.framing import pack

ACCEPTED_AT_ONCE = 16


class Acceptor:
    """``what``: who listens, for the sentence that tells of a lack of descriptors, such as "This worker's agent"."""

    def __init__(self, listening: socket.socket, what: str) -> None:
        listening.setblocking(False)
        self._listening = listening
        self._what = what
        self._kept = _spare_descriptor()

    @property
    def fd(self) -> int:
        return self._listening.fileno()

    def accept(self) -> Iterator[socket.socket]:
        """Connections of this user's processes; after ``ACCEPTED_AT_ONCE`` of all users the rest waits."""
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                connected, _ = self._listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    self._refuse(error)
                elif error.errno != errno.ECONNABORTED:
                    return
                continue
            if is_same_user(connected):
                yield connected
            else:
                connected.close()

    def close(self) -> None:
        self._listening.close()
        if self._kept >= 0:
            os.close(self._kept)
            self._kept = -1

    def _refuse(self, error: OSError) -> None:
        if self._kept < 0:
            return
        os.close(self._kept)
        try:
            connected, _ = self._listening.accept()
        except OSError:
            pass
        else:
            with connected:
                if is_same_user(connected):
                    _say(connected, f"{self._what} cannot accept connections: {error.strerror}. Raise its `ulimit -n`.")
        self._kept = _spare_descriptor()


def _say(connected: socket.socket, text: str) -> None:
    try:
        connected.send(pack(encode(Envelope(Refused(RefusalReason.OTHER, text)))), socket.MSG_DONTWAIT)
    except OSError:
        pass  # it has gone


def _spare_descriptor() -> int:
    """-1: not even one is left."""
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1
