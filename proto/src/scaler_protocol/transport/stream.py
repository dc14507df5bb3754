"""Messages over a stream socket of one machine, with file descriptors beside them.

The bytes of a message are described in ``framing``. Descriptors (SCM_RIGHTS) travel with its first byte.
"""

from __future__ import annotations

import array
import os
import socket
from collections import deque
from collections.abc import Sequence

from scaler_protocol.transport.framing import SIZE_LIMIT_BYTES, Incoming, pack

__all__ = ["SIZE_LIMIT_BYTES", "StreamConnection"]

_DESCRIPTOR_COUNT_LIMIT = 64
_ANCILLARY_SIZE_BYTES = socket.CMSG_SPACE(_DESCRIPTOR_COUNT_LIMIT * 4)
_CLOSE_ON_EXEC = int(getattr(socket, "MSG_CMSG_CLOEXEC", 0))
_NO_SIGNAL = int(getattr(socket, "MSG_NOSIGNAL", 0))


class StreamConnection:
    """Both ends of a connected stream socket, which it owns from now on. Never blocks. What cannot be written at once
    waits here: while ``wants_write``, watch the descriptor for writing and call ``flush``."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._outgoing: deque[tuple[memoryview, tuple[int, ...]]] = deque()
        self._outgoing_bytes = 0
        self._incoming = Incoming()
        self._rooms = [self._incoming.room]
        self._closed = False
        self.received_fds: deque[int] = deque()
        """Descriptors received, in order; those of a message are here when ``receive`` returns it. Whoever takes one
        closes it; those nobody took are closed by ``close``."""
        self.eof = False
        """The other end is gone, or sent what is no message. What came before can still be received."""

    @classmethod
    def connect(cls, address: str) -> StreamConnection:
        """To a listening AF_UNIX socket: a path, or ``@name`` for an abstract one. Raises OSError."""
        target = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            target.connect("\0" + address[1:] if address.startswith("@") else address)
        except BaseException:
            target.close()
            raise
        return cls(target)

    @classmethod
    def pair(cls) -> tuple[StreamConnection, StreamConnection]:
        """Two connections that are each other's ends."""
        one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        return cls(one), cls(other)

    @property
    def fd(self) -> int:
        """Readable when something may be there (level-triggered)."""
        return self._socket.fileno()

    @property
    def plain_socket(self) -> socket.socket:
        """For questions about the other end; not for reading and writing."""
        return self._socket

    @property
    def wants_write(self) -> bool:
        return bool(self._outgoing)

    @property
    def outgoing_bytes(self) -> int:
        """How much waits to be written."""
        return self._outgoing_bytes

    def send(self, frames: Sequence[bytes], fds: Sequence[int] = ()) -> bool:
        """Queue one message and write what the kernel takes. False: the other end is gone. Descriptors that cannot be
        sent at once are duplicated, so the caller may close its own on return."""
        if self.eof or self._closed:
            return False
        data = pack(frames)
        written = 0 if self._outgoing else self._write(data, fds)
        if written < len(data) and not self.eof:
            waiting = () if written else tuple(os.dup(fd) for fd in fds)
            self._outgoing.append((memoryview(data)[written:], waiting))
            self._outgoing_bytes += len(data) - written
        return not self.eof

    def flush(self) -> bool:
        """Write what waits, as far as the kernel takes it. True: nothing waits any more."""
        while self._outgoing and not self.eof:
            data, fds = self._outgoing[0]
            written = self._write(data, fds)
            if not written:
                break
            self._outgoing_bytes -= written
            _close_all(fds)
            if written < len(data):
                self._outgoing[0] = (data[written:], ())
                break
            self._outgoing.popleft()
        return not self._outgoing

    def take(self) -> list[bytes] | None:
        """One message that has been read already, with others; None: there is none."""
        return self._incoming.take()

    def receive(self) -> list[bytes] | None:
        """One message; None: nothing complete is waiting. Liveness probes (one empty frame) are swallowed."""
        incoming = self._incoming
        while (frames := incoming.take()) is None:
            if self.eof or not self._read():
                return None
        return frames

    def shut_down(self) -> None:
        """End the connection for both ends and all processes that have it; ``close`` is still to be called. Whoever
        waits for it in another thread wakes up."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it has ended

    def close(self) -> None:
        """May be called twice."""
        if self._closed:
            return
        self._closed = True
        self.eof = True
        self._socket.close()
        for _, fds in self._outgoing:
            _close_all(fds)
        self._outgoing.clear()
        self._outgoing_bytes = 0
        _close_all(self.received_fds)
        self.received_fds.clear()

    def _write(self, data: bytes | memoryview, fds: Sequence[int]) -> int:
        try:
            if not fds:
                return self._socket.send(data, _NO_SIGNAL)
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
            return self._socket.sendmsg([data], rights, _NO_SIGNAL)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            self.eof = True
            return 0

    def _read(self) -> bool:
        """Whether anything was read that can be a message."""
        if self._incoming.broken:
            self.eof = True
            return False
        try:
            count, ancillary, _, _ = self._socket.recvmsg_into(self._rooms, _ANCILLARY_SIZE_BYTES, _CLOSE_ON_EXEC)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            self.eof = True
            return False
        if ancillary:
            self._take_descriptors(ancillary)
        self._incoming.add(count)
        self.eof = count == 0
        return count > 0

    def _take_descriptors(self, ancillary: list[tuple[int, int, bytes]]) -> None:
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors = array.array("i")
                descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
                self.received_fds.extend(descriptors)


def _close_all(descriptors: Sequence[int] | deque[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
