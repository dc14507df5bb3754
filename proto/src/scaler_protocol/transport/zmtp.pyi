"""ZeroMQ's protocol over one stream socket, spoken without libzmq and its threads.

ZMTP 3.1 (https://rfc.zeromq.org/spec/37) with the NULL mechanism, or with CURVE where there are keys: the greeting,
READY or the handshake of ``curve``, messages of frames, and PONG for PING. The other end may be libzmq or this. Between
two threads of one machine a message then costs one system call each way and one wake-up, in place of three.
"""

import socket
from collections.abc import Sequence

from scaler_protocol.transport.curve import CurveClient, CurveServer

WAITING_LIMIT_BYTES: int
"""Limit for waiting bytes: a peer that reads too little is disconnected and receives them again after it reconnects."""

SKIPPED_LIMIT_BYTES: int
"""Number of bytes before a Hello that a limited connection may send: they were on their way to a scheduler that has
just gone."""

class ZmtpConnection:
    """One end, a DEALER's, ROUTER's, PUB's or SUB's, of a connected stream socket, which it owns from now on. Never
    blocks. Bytes that the kernel does not accept at once wait here: after ``watch_in``, its epoll descriptor is ready
    when there is something to do, and each ``receive`` writes as much as it can."""

    def __init__(
        self,
        connected: socket.socket,
        kind: str,
        identity: bytes = b"",
        message_limit_bytes: int = 0,
        waiting_limit_bytes: int = 0,
        is_limited: bool = False,
        is_far: bool = False,
        curve: CurveClient | CurveServer | None = None,
    ) -> None:
        """``kind``: "DEALER", "ROUTER", "PUB" or "SUB". ``identity``: what the other end is to call this one. The other
        end is cut off when it sends a longer message, or leaves more untaken; 0: the usual limits. ``is_limited``: the
        other end has not authenticated. ``curve``: this end of the handshake of an encrypted connection.

        Subscriptions are left to the caller: a PUB receives each one as a message that begins with 1 (its end: with 0),
        and sends to the other end whatever it is told to send."""

    @property
    def is_limited(self) -> bool:
        """Only messages of one frame, of at most ``HELLO_LIMIT_BYTES``, are taken in, one at a time: what follows stays
        with the kernel until that one was received. All others are dropped as they come: ``receive`` gives an empty
        list for each, and after ``SKIPPED_LIMIT_BYTES`` the connection ends. An encrypted one ends at a longer frame,
        too."""

    def lift_limits(self) -> None:
        """The other end has authenticated."""

    @property
    def fd(self) -> int: ...
    @property
    def is_ready(self) -> bool:
        """Both have said who they are: messages can be sent."""

    @property
    def has_ended(self) -> bool:
        """The other end has closed, or has violated ZMTP. Earlier messages can still be received."""

    @property
    def is_cut(self) -> bool:
        """The other end is gone: nothing can be sent. Earlier messages can perhaps still be received."""

    @property
    def identity(self) -> bytes:
        """The identity that the other end has stated."""

    @property
    def user(self) -> bytes:
        """The user of the key that the other end has shown; empty without keys, and before the end of the handshake."""

    @property
    def was_refused(self) -> bool:
        """The handshake has ended because the server does not know the client's key."""

    @property
    def waiting_bytes(self) -> int:
        """The number of bytes that wait to be written."""

    def watch_in(self, epoll: int) -> None:
        """Have this epoll descriptor, and no other any more, watch the connection: for reading, and for writing while
        something waits. Raises OSError."""

    def stop_watching(self) -> None:
        """Have no epoll descriptor watch the connection until ``watch_in``."""

    def look(self) -> None:
        """Continue the handshake, and notice the end of a connection from which nothing is left to read. This takes no
        message, so a thread that waits for the connection and one that waits for messages do not disturb each other."""

    def hang_up(self) -> None:
        """End it, as if the other end had."""

    def name_unless_named(self) -> None:
        """Give the other end a name if it has none."""

    def ping(self) -> bool:
        """Ask for a sign of life. False: the other end knows no such question (it is older than ZMTP 3.1)."""

    @property
    def has_far_process(self) -> bool:
        """The other end has said ``is_far``."""

    @property
    def was_answered(self) -> bool:
        """The other end has sent something."""

    def take_sign_of_life(self) -> bool:
        """Return whether the other end has said anything since the last call; what has not been read yet counts,
        too."""

    def send(self, frames: Sequence[bytes]) -> bool:
        """False: not ready, or ended; then nothing was sent. When ``WAITING_LIMIT_BYTES`` wait already, the connection
        ends: after it no message may be missing. Frames are bytes or other contiguous buffers, 1 to 64 of them."""

    def send_together(self, messages: Sequence[bytes]) -> bool:
        """Like ``send``, for several messages of one frame each: the other end gets them at once."""

    def receive(self) -> list[bytes] | None:
        """One message; None: ``fd`` tells when there is another one (level-triggered), so nothing is lost when this
        does not look after all: once after it has read less than there was room for, and once after a send. Liveness
        probes (one empty frame) are swallowed."""

    def read(self) -> list[list[bytes]] | None:
        """Read once: the messages that are complete then, None when nothing was there. It goes on with the handshake,
        too, and returns however fast the other end sends."""

    def close(self, linger_milliseconds: int = 0) -> None:
        """May be called twice. ``linger_milliseconds``: how long what waits may still take to leave."""
