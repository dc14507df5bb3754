"""One bulk connection: how it is opened at both ends, and the pieces that it receives and sends. It never blocks.

connecting     the dialer waits for TCP, then shows the name of its offer
named          the listener waits for the name, and closes a connection whose name it does not know
handshake      if there are keys: the salts of a sealed connection, or TLS, whose dialer accepts only the certificate
               with the fingerprint of its offer
token          the listener waits for the token, the dialer for the listener's answer
open           pieces in both directions
"""

from __future__ import annotations

import hashlib
import hmac
import os
import select
import socket
import ssl
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol

from scaler_protocol.objects.bulk_frames import (
    ACCEPTED,
    HEADER_BYTES,
    Bytes,
    Piece,
    pack_header,
    parse_header,
)
from scaler_protocol.objects.bulk_offers import NAME_BYTES, TOKEN_BYTES, Offer

if TYPE_CHECKING:
    from scaler_protocol.objects.sealed_connection import SealedConnection

TURN_BYTES = 1024 * 1024
"""Received or sent at most in one turn: what other messages wait for."""

WAKE_BYTES = 512 * 1024
"""A receiver is woken when so many bytes of a piece have come, or its rest: each wake-up is a turn of the store."""

State = Literal["connecting", "named", "handshake", "token", "open"]
_WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Traffic(Protocol):
    """The source and the target of the bytes of pieces. ``label`` names the connection."""

    def target(self, label: str, piece: Piece, done: int) -> memoryview | None:
        """Return where to write the rest of a piece of which ``done`` bytes have come; None: it is not wanted."""

    def received(self, label: str, piece: Piece, count: int) -> None:
        """Note that this many further bytes are at the target."""

    def sent(self, label: str, piece: Piece) -> None:
        """All of a piece was passed to the system."""


class Channel:
    """``label`` is empty until it is known who is at the other end. ``find`` (a listener's) tells the label and the
    offer for a name. Raises OSError (ssl.SSLError is one) and ValueError when the connection cannot be used any more.
    """

    def __init__(
        self,
        connected: socket.socket,
        context: ssl.SSLContext | None,
        label: str = "",
        offer: Offer | None = None,
        find: Callable[[bytes], tuple[str, Offer] | None] | None = None,
    ) -> None:
        self.label = label
        self.fd = connected.fileno()
        self.state: State = "connecting" if offer is not None else "named"
        self.has_more = False
        """It stopped because its turn was over: bytes may wait inside TLS, where no descriptor tells of them."""
        self._connected = connected
        self._secured: ssl.SSLSocket | SealedConnection | None = None  # with keys: what encrypts
        self._context = context
        self._offer = offer
        self._find = find
        self._wants_write = offer is not None
        self._claimed = ""  # the label of who has shown a name, and no token yet
        self._buffer = bytearray()
        self._piece: Piece | None = None
        self._done = 0
        self._scratch = memoryview(b"")
        self._wakes_at = 1  # what the socket's SO_RCVLOWAT is
        self._outgoing: deque[tuple[Piece, Bytes]] = deque()
        self._header: memoryview | None = None  # what is left of that of the first outgoing piece
        self._sent = 0  # bytes of the first outgoing piece

    @property
    def is_open(self) -> bool:
        return self.state == "open"

    @property
    def events(self) -> int:
        """The events to wait for."""
        wants_write = self._wants_write or (self.is_open and bool(self._outgoing))
        return select.EPOLLIN | (select.EPOLLOUT if wants_write else 0)

    def close(self) -> None:
        self._socket.close()
        self._outgoing.clear()

    def send(self, piece: Piece, content: Bytes) -> None:
        self._outgoing.append((piece, content))

    def on_ready(self, events: int, traffic: Traffic) -> None:
        """Do as much as can be done now."""
        try:
            while not self.is_open:
                self._wants_write = False
                if not self._step():
                    return
        except ssl.SSLWantWriteError:
            self._wants_write = True
            return
        except _WOULD_BLOCK:
            return
        self.has_more = False
        if self._outgoing:
            self._write(traffic)
        if events & ~select.EPOLLOUT or self._secured is not None:
            self._read(traffic)

    @property
    def _socket(self) -> socket.socket | SealedConnection:
        return self._connected if self._secured is None else self._secured

    # ---- opening ---------------------------------------------------------------------------------------------------

    def _step(self) -> bool:
        """One state further; False: it must wait."""
        if self.state == "connecting":
            return self._on_connected()
        if self.state == "named":
            return self._take_name()
        if self.state == "handshake":
            return self._shake_hands()
        return self._take_token() if self._find is not None else self._take_acceptance()

    def _on_connected(self) -> bool:
        assert self._offer is not None
        error = self._connected.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise OSError(error, os.strerror(error))
        try:
            self._connected.getpeername()
        except OSError:  # not yet
            self._wants_write = True
            return False
        self._say(self._offer.name)
        self._begin_handshake()
        return True

    def _take_name(self) -> bool:
        assert self._find is not None
        name = self._take_exactly(NAME_BYTES)
        if name is None:
            return False
        found = self._find(name)
        if found is None:
            raise ConnectionError("The peer has shown no valid name.")
        self._claimed, self._offer = found
        self._begin_handshake()
        return True

    def _begin_handshake(self) -> None:
        assert self._offer is not None
        if self._offer.key:
            self._secured = self._sealed(self._offer.key)
        elif self._context is not None:
            self._secured = self._context.wrap_socket(
                self._connected,
                server_side=self._find is not None,
                do_handshake_on_connect=False,
                suppress_ragged_eofs=True,
            )
        self.state = "handshake"

    def _sealed(self, key: bytes) -> SealedConnection:
        from scaler_protocol.objects.sealed_connection import SealedConnection  # only with keys

        return SealedConnection(self._connected, key, is_dialer=self._find is None)

    def _shake_hands(self) -> bool:
        assert self._offer is not None
        if self._secured is not None:
            self._secured.do_handshake()
        if isinstance(self._secured, ssl.SSLSocket) and self._find is None:
            certificate = self._secured.getpeercert(True) or b""
            if not hmac.compare_digest(hashlib.sha256(certificate).digest(), self._offer.fingerprint):
                raise ConnectionError("The certificate is not the one that was announced.")
        self.state = "token"
        self._show_token()
        return True

    def _show_token(self) -> None:
        assert self._offer is not None
        if self._find is None:
            self._say(self._offer.token)

    def _take_token(self) -> bool:
        assert self._offer is not None
        token = self._take_exactly(TOKEN_BYTES)
        if token is None:
            return False
        if not hmac.compare_digest(token, self._offer.token):
            raise ConnectionError("The peer has shown a wrong token.")
        if self._find is None or self._find(self._offer.name) is None:
            raise ConnectionError("The offer was withdrawn, or another connection has used it.")
        self._say(ACCEPTED)
        self.label, self.state = self._claimed, "open"
        return True

    def _take_acceptance(self) -> bool:
        answer = self._take_exactly(len(ACCEPTED))
        if answer is None:
            return False
        if answer != ACCEPTED:
            raise ConnectionError("The peer gave an unexpected answer.")
        self.state = "open"
        return True

    def _say(self, data: bytes) -> None:
        """A few bytes, for which a new connection always has room."""
        if self._socket.send(data) != len(data):
            raise ConnectionError("The connection accepts no bytes.")

    def _take_exactly(self, count: int) -> bytes | None:
        """None: they have not all come."""
        data = self._socket.recv(count - len(self._buffer))
        if not data:
            raise ConnectionError("The connection was closed.")
        self._buffer += data
        if len(self._buffer) < count:
            return None
        taken = bytes(self._buffer)
        self._buffer.clear()
        return taken

    # ---- receiving -------------------------------------------------------------------------------------------------

    def _read(self, traffic: Traffic) -> None:
        budget = TURN_BYTES
        try:
            while budget > 0:
                if self._piece is None and not self._read_header():
                    continue
                budget -= self._read_piece(traffic)
        except _WOULD_BLOCK:
            self._wake_when_more()
            return
        self.has_more = True

    def _wake_when_more(self) -> None:
        """Have the system report bytes only when enough have come for a turn, or when the connection has ended."""
        count = 1
        if self._secured is None:
            count = 1 if self._piece is None else min(self._piece.length - self._done, WAKE_BYTES)
        elif not isinstance(self._secured, ssl.SSLSocket):
            count = self._secured.missing_bytes
        if count != self._wakes_at:
            self._connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)
            self._wakes_at = count

    def _read_header(self) -> bool:
        header = self._take_exactly(HEADER_BYTES)
        if header is None:
            return False
        self._piece, self._done = parse_header(header), 0
        return True

    def _read_piece(self, traffic: Traffic) -> int:
        piece = self._piece
        assert piece is not None
        target = traffic.target(self.label, piece, self._done)
        if target is None:
            return self._discard(piece)
        count = 0
        try:
            while True:
                if count == len(target):
                    break
                received = self._socket.recv_into(target[count:])
                if not received:
                    raise ConnectionError("The connection was closed.")
                count += received
        finally:
            self._note_read(piece, count)
            if count:
                traffic.received(self.label, piece, count)
        return count

    def _discard(self, piece: Piece) -> int:
        if not self._scratch:
            self._scratch = memoryview(bytearray(64 * 1024))
        count = self._socket.recv_into(self._scratch[: piece.length - self._done])
        if not count:
            raise ConnectionError("The connection was closed.")
        self._note_read(piece, count)
        return count

    def _note_read(self, piece: Piece, count: int) -> None:
        self._done += count
        if self._done == piece.length:
            self._piece = None

    # ---- sending ---------------------------------------------------------------------------------------------------

    def _write(self, traffic: Traffic) -> None:
        budget = TURN_BYTES
        try:
            while self._outgoing and budget > 0:
                budget -= self._write_first(traffic)
        except _WOULD_BLOCK:
            pass

    def _write_first(self, traffic: Traffic) -> int:
        piece, content = self._outgoing[0]
        if self._header is None:
            self._header = memoryview(pack_header(piece))
        while self._header:
            self._header = self._header[self._socket.send(self._header) :]
        if self._secured is not None:
            count = self._secured.send(content.view[self._sent : piece.length])
        else:
            count = os.sendfile(self.fd, content.fd, content.place + self._sent, piece.length - self._sent)
            if not count:
                raise ConnectionError("The object has fewer bytes than announced.")
        self._sent += count
        if self._sent == piece.length:
            self._outgoing.popleft()
            self._sent, self._header = 0, None
            traffic.sent(self.label, piece)
        return count


def client_context() -> ssl.SSLContext:
    """It accepts every certificate: the fingerprint is compared afterwards."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def server_context() -> ssl.SSLContext:
    """Create a TLS context that has no certificate yet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0
    return context
