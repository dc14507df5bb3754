"""Multipart messages in and out of a ZeroMQ socket, without a step of Python between their frames.

The sending and receiving half of DealerConnection and RouterSocket. Nothing here blocks or makes an exception of what
is ordinary. Frames are bytes or anything else with a contiguous buffer, and are copied. After pyzmq's socket was closed
every call raises zmq.ZMQError (ENOTSOCK).
"""

from collections.abc import Sequence
from typing import Literal

import zmq

from scaler_protocol.transport.zmtp import ZmtpConnection
from scaler_protocol.transport.zmtp_listener import ZmtpListener

def require_threads(count: int) -> None:
    """Raises RuntimeError if the system does not let this process start so many more threads (ulimit -u, ulimit -v)."""

class Socket:
    def attach(self, socket: zmq.Socket[bytes]) -> None:
        """Speak through ``socket``. Before this, every call raises as if it were closed."""

class DealerFrames(Socket):
    @property
    def stream(self) -> ZmtpConnection | None:
        """The connection that it uses instead of the socket."""

    def use(self, stream: ZmtpConnection | None) -> None:
        """Speak through ``stream`` from now on; None: through the socket."""

    def detach(self) -> None:
        """There is no socket until ``attach``: nothing is sent and nothing comes."""

    def end(self) -> None:
        """Let every call raise from now on, as after pyzmq's socket was closed."""

    def look_after_peer(self) -> None:
        """Called by ``send`` once a second, at most, while there is a stream: it has no heartbeats."""

    def send(self, frames: Sequence[bytes]) -> bool:
        """Never blocks. False: not connected or full, and nothing was sent."""

    def receive(self) -> list[bytes] | None:
        """One message; None: nothing waiting. Liveness probes are swallowed."""

class RouterFrames(Socket):
    @property
    def listener(self) -> ZmtpListener | None:
        """The listener that it uses instead of a socket."""

    def serve(self, listener: ZmtpListener | None) -> None: ...
    def send(self, peer: bytes, frames: Sequence[bytes]) -> Literal["sent", "full", "gone"]:
        """Never blocks. "full": the peer takes nothing now; "gone": no such connection; then nothing was sent."""

    def receive(self) -> tuple[bytes, list[bytes]] | None:
        """One message and its sender; None: nothing waiting. Liveness probes are swallowed."""

    def receive_many(self, limit: int) -> list[tuple[bytes, list[bytes], bytes]]:
        """Waiting messages, in order. Each is a sender, frames, and the user of the key that its connection showed
        (empty: there are no keys). Reads until it has ``limit`` messages; one read may
        exceed the limit. No message waits once it returns an empty list."""

    def name_users(self) -> None:
        """Connections show keys: from now on each message comes with its user."""
