"""Multipart messages in and out of a ZeroMQ socket, without a step of Python between their frames.

The sending and receiving half of ``sockets``. Nothing here blocks or makes an exception of what is ordinary. Frames are
bytes or anything else with a contiguous buffer, and are copied. After pyzmq's socket was closed every call raises
zmq.ZMQError (ENOTSOCK).
"""

from collections.abc import Sequence
from typing import Literal

import zmq

class Socket:
    def attach(self, socket: zmq.Socket[bytes]) -> None:
        """Speak through ``socket``. Before this, every call raises as if it were closed."""

class DealerFrames(Socket):
    def send(self, frames: Sequence[bytes]) -> bool:
        """Never blocks. False: not connected or full, and nothing was sent."""

    def receive(self) -> list[bytes] | None:
        """One message; None: nothing waiting. Liveness probes are swallowed."""

class RouterFrames(Socket):
    def send(self, peer: bytes, frames: Sequence[bytes]) -> Literal["sent", "full", "gone"]:
        """Never blocks. "full": the peer takes nothing now; "gone": no such connection; then nothing was sent."""

    def receive(self) -> tuple[bytes, list[bytes]] | None:
        """One message and its sender; None: nothing waiting. Liveness probes are swallowed."""

    def receive_many(self, limit: int) -> list[tuple[bytes, list[bytes], bytes]]:
        """All that waits, at most ``limit`` messages, in order: sender, frames, and the user whose key its connection
        showed, as a Doorkeeper named it (empty: there are no keys)."""

    def name_users(self) -> None:
        """Connections show keys: from now on each message comes with its user."""
