"""Messages over a stream socket of one machine, with file descriptors beside them.

One message on the wire, little-endian: u32 size of what follows, u16 number of frames, u32 length of each frame, then
the frames' bytes. Descriptors (SCM_RIGHTS) travel with the first byte of their message.
"""

from __future__ import annotations

import array
import os
import socket
import struct
from collections import deque
from collections.abc import Sequence

from scaler_protocol.messages import MESSAGE_LIMIT_BYTES

SIZE_LIMIT_BYTES = 4 * MESSAGE_LIMIT_BYTES
"""A larger message is no message of ours: the connection ends."""

_FRAME_COUNT_LIMIT = 64
_DESCRIPTOR_COUNT_LIMIT = 64
_READ_SIZE_BYTES = 256 * 1024
_ANCILLARY_SIZE_BYTES = socket.CMSG_SPACE(_DESCRIPTOR_COUNT_LIMIT * 4)
_PREFIX = struct.Struct("<IH")


class StreamConnection:
    """Both ends of a connected stream socket, which it owns from now on. Never blocks. What cannot be written at once
    waits here: while ``wants_write``, watch the descriptor for writing and call ``flush``."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._outgoing: deque[tuple[memoryview, tuple[int, ...]]] = deque()
        self._outgoing_bytes = 0
        self._incoming = bytearray()
        self._position = 0
        self._scratch = memoryview(bytearray(_READ_SIZE_BYTES))
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
        data = memoryview(_pack(frames))
        written = 0 if self._outgoing else self._write(data, fds)
        if written < len(data) and not self.eof:
            waiting = () if written else tuple(os.dup(fd) for fd in fds)
            self._outgoing.append((data[written:], waiting))
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

    def receive(self) -> list[bytes] | None:
        """One message; None: nothing complete is waiting. Liveness probes (one empty frame) are swallowed."""
        while True:
            frames = self._take_message()
            if frames is None:
                if self.eof or not self._read():
                    return None
            elif frames != [b""]:
                return frames

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

    def _write(self, data: memoryview, fds: Sequence[int]) -> int:
        try:
            if not fds:
                return self._socket.send(data, socket.MSG_NOSIGNAL)
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
            return self._socket.sendmsg([data], rights, socket.MSG_NOSIGNAL)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            self.eof = True
            return 0

    def _read(self) -> bool:
        """Whether anything was read."""
        try:
            count, ancillary, _, _ = self._socket.recvmsg_into(
                [self._scratch], _ANCILLARY_SIZE_BYTES, socket.MSG_CMSG_CLOEXEC
            )
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            self.eof = True
            return False
        self._take_descriptors(ancillary)
        self.eof = count == 0
        self._incoming += self._scratch[:count]
        return count > 0

    def _take_descriptors(self, ancillary: list[tuple[int, int, bytes]]) -> None:
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors = array.array("i")
                descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
                self.received_fds.extend(descriptors)

    def _take_message(self) -> list[bytes] | None:
        available = len(self._incoming) - self._position
        if available < _PREFIX.size:
            self._compact()
            return None
        size, count = _PREFIX.unpack_from(self._incoming, self._position)
        if size > SIZE_LIMIT_BYTES or not 0 < count <= _FRAME_COUNT_LIMIT or size < 2 + 4 * count:
            self._break()
            return None
        if available < 4 + size:
            self._compact()
            return None
        frames = self._take_frames(count, size)
        if frames is None:
            self._break()
        return frames

    def _take_frames(self, count: int, size: int) -> list[bytes] | None:
        start = self._position + _PREFIX.size
        lengths = struct.unpack_from(f"<{count}I", self._incoming, start)
        if 2 + 4 * count + sum(lengths) != size:
            return None
        start += 4 * count
        frames = []
        with memoryview(self._incoming) as view:
            for length in lengths:
                frames.append(bytes(view[start : start + length]))
                start += length
        self._position = start
        return frames

    def _compact(self) -> None:
        """Forget what was taken, once per burst: small messages are not moved again and again."""
        if self._position:
            del self._incoming[: self._position]
            self._position = 0

    def _break(self) -> None:
        """What came is no message of ours: the stream cannot be trusted any further."""
        self.eof = True
        self._incoming.clear()
        self._position = 0


def _pack(frames: Sequence[bytes]) -> bytes:
    if not 0 < len(frames) <= _FRAME_COUNT_LIMIT:
        raise ValueError(f"A message has 1 to {_FRAME_COUNT_LIMIT} frames, not {len(frames)}.")
    lengths = [len(frame) for frame in frames]
    size = 2 + 4 * len(frames) + sum(lengths)
    if size > SIZE_LIMIT_BYTES:
        raise ValueError(f"A message of {size} bytes is over the limit of {SIZE_LIMIT_BYTES}.")
    return b"".join((struct.pack(f"<IH{len(frames)}I", size, len(frames), *lengths), *frames))


def _close_all(descriptors: Sequence[int] | deque[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
