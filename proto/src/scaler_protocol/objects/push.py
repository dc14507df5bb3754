"""Objects on their way from a client to a store on another host, over connections that the client opens."""

from __future__ import annotations

import hashlib
import hmac
import queue
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any

from scaler_protocol.command.threads import lack_of_thread
from scaler_protocol.messages import CREDIT_WITHOUT_END, ObjectCredit, ObjectKey, ObjectRequest, ObjectStored, Welcome
from scaler_protocol.objects.arrival import CUT, GONE
from scaler_protocol.objects.bulk_channel import client_context
from scaler_protocol.objects.bulk_frames import ACCEPTED, PIECE_BYTES, Piece, pack_header
from scaler_protocol.objects.bulk_offers import Offer, offer_in
from scaler_protocol.objects.pacing import Pacing
from scaler_protocol.objects.source import RemoteStore
from scaler_protocol.transport.context import shared_context
from scaler_protocol.transport.prompt_delivery import deliver_promptly

if TYPE_CHECKING:
    from scaler_protocol.objects.sealed_connection import SealedConnection

CONNECT_SECONDS = 2.0
"""A store that cannot be reached for so long is given up."""

REQUEST_SECONDS = 5.0
"""A store that does not ask for an object for so long has it from elsewhere, or needs it no longer."""

STALL_SECONDS = 10.0
IDLE_SECONDS = 10.0
_ATTEMPTS = 3
_POLL_MILLISECONDS = 20


class PushConnection:
    """A connection to one store: the control connection, which authenticates both ends and states where an object
    begins, and the bulk connection. Raises OSError when it cannot be made, or used."""

    def __init__(self, endpoint: str) -> None:
        try:
            self._source = RemoteStore(shared_context(), endpoint)
        except ValueError as error:
            raise ConnectionError(str(error)) from None
        try:
            self._connected, self._bulk = self._open()
            self._pacing = Pacing(self._connected)
        except BaseException:
            self._source.close()
            raise

    def close(self) -> None:
        self._source.close()
        self._bulk.close()

    def push(self, key: ObjectKey, data: memoryview, is_dropped: Callable[[], bool]) -> None:
        """Returns when the store has the object, or does not need it."""
        self._source.send(ObjectStored(key, len(data), b""))
        request = self._await(lambda body: getattr(body, "key", None) == key, REQUEST_SECONDS)
        if isinstance(request, ObjectRequest):
            self._send(key, data, request.offset, is_dropped)

    def _open(self) -> tuple[socket.socket, socket.socket | SealedConnection]:
        """Return the connection, and what encrypts on it, or itself."""
        welcome = self._await(lambda body: isinstance(body, Welcome), CONNECT_SECONDS)
        offer = offer_in(welcome.features) if welcome is not None else None
        if offer is None:
            raise ConnectionError("no answer" if welcome is None else "the store offers no bulk connection")
        connected = socket.create_connection((self._source.host.strip("[]"), offer.port), CONNECT_SECONDS)
        try:
            greeted = _greet(connected, offer)
            return greeted if isinstance(greeted, socket.socket) else connected, greeted
        except BaseException:
            connected.close()
            raise

    def _send(self, key: ObjectKey, data: memoryview, offset: int, is_dropped: Callable[[], bool]) -> None:
        while offset < len(data):
            if is_dropped() or self._is_refused(key):
                return
            length = min(PIECE_BYTES, len(data) - offset)
            self._bulk.sendall(pack_header(Piece(key, len(data), offset, length)))
            end = offset + length
            while offset < end:
                stop = min(end, offset + self._pacing.next_bytes())
                self._bulk.sendall(data[offset:stop])
                offset = stop
        if self._await(lambda body: _is_end(body, key), STALL_SECONDS) is None:
            raise TimeoutError("the store did not confirm the object")

    def _is_refused(self, key: ObjectKey) -> bool:
        return any(_is_end(body, key) for body in self._bodies())

    def _await(self, matches: Callable[[Any], bool], seconds: float) -> Any:
        """The first body that matches; None: it has not come."""
        deadline = time.monotonic() + seconds
        poll = select.poll()
        for fd in self._source.fds():
            poll.register(fd, select.POLLIN)
        while True:
            for body in self._bodies():
                if matches(body):
                    return body
            if time.monotonic() >= deadline:
                return None
            poll.poll(_POLL_MILLISECONDS)

    def _bodies(self) -> Iterator[Any]:
        for body in self._source.bodies():
            if body in (CUT, GONE):
                raise ConnectionError("the store has closed the connection, or refuses it")
            yield body


class Pusher:
    """Pushes objects to one store, in a thread that ends when there has been nothing to push for a while. ``failed`` is
    called there, or in ``add`` if the thread cannot be started, with an object that cannot be pushed, and why."""

    def __init__(self, endpoint: str, failed: Callable[[ObjectKey, str], None]) -> None:
        self._endpoint = endpoint
        self._failed = failed
        self._lock = threading.Lock()
        self._waiting: queue.SimpleQueue[tuple[ObjectKey, memoryview] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._dropped: dict[ObjectKey, bool] = {}  # False: it waits or is being pushed

    def add(self, key: ObjectKey, data: memoryview) -> None:
        with self._lock:
            if self._dropped.get(key) is False:
                return
            obstacle = self._start_thread()
            if not obstacle:
                self._dropped[key] = False
                self._waiting.put((key, data))
        if obstacle:
            self._failed(key, obstacle)

    def _start_thread(self) -> str:
        """Start the thread unless it runs. Returns why it cannot be started; empty: it runs."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="scaler-push", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                return lack_of_thread(error).rstrip(".")
            self._thread = thread
        return ""

    def drop(self, keys: Collection[ObjectKey]) -> None:
        """These need not be pushed any more."""
        for key in keys:
            if key in self._dropped:
                self._dropped[key] = True

    def close(self) -> None:
        self.drop(list(self._dropped))
        self._waiting.put(None)

    def _run(self) -> None:
        connection: PushConnection | None = None
        try:
            while True:
                item = self._next()
                if item is None:
                    return
                connection = self._push(connection, *item)
        finally:
            if connection is not None:
                connection.close()

    def _next(self) -> tuple[ObjectKey, memoryview] | None:
        try:
            item = self._waiting.get(timeout=IDLE_SECONDS)
        except queue.Empty:
            item = None
        if item is None:
            with self._lock:
                if not self._waiting.empty():
                    return self._waiting.get()
                self._thread = None
        return item

    def _push(self, connection: PushConnection | None, key: ObjectKey, data: memoryview) -> PushConnection | None:
        """A connection that breaks is opened again, and the object continues where the store has it."""
        why = ""
        for _ in range(_ATTEMPTS):
            try:
                connection = connection or PushConnection(self._endpoint)
            except OSError as error:
                why = str(error)
                break
            try:
                connection.push(key, data, lambda: self._dropped[key])
                break
            except OSError as error:
                why = str(error)
                connection.close()
                connection = None
        else:
            why = why or "the connection was interrupted"
        is_dropped = self._dropped.pop(key)
        if connection is None and not is_dropped:
            self._failed(key, why)
        return connection


def _is_end(body: Any, key: ObjectKey) -> bool:
    return isinstance(body, ObjectCredit) and body.key == key and body.offset == CREDIT_WITHOUT_END


def _greet(connected: socket.socket, offer: Offer) -> socket.socket | SealedConnection:
    """Open the connection for pieces. Raises OSError, or ssl.SSLError, when the listener is not that of the offer."""
    deliver_promptly(connected)
    connected.sendall(offer.name)
    greeted = _secured(connected, offer)
    greeted.sendall(offer.token)
    if greeted.recv(len(ACCEPTED)) != ACCEPTED:
        raise ConnectionError("the store did not accept the bulk connection")
    greeted.settimeout(STALL_SECONDS)
    return greeted


def _secured(connected: socket.socket, offer: Offer) -> socket.socket | SealedConnection:
    """Return what encrypts; without keys the connection itself."""
    if offer.key:
        from scaler_protocol.objects.sealed_connection import SealedConnection  # only with keys

        sealed = SealedConnection(connected, offer.key, is_dialer=True)
        sealed.do_handshake()
        return sealed
    if not offer.fingerprint:
        return connected
    encrypted = client_context().wrap_socket(connected)
    certificate = encrypted.getpeercert(True) or b""
    if not hmac.compare_digest(hashlib.sha256(certificate).digest(), offer.fingerprint):
        raise ssl.SSLError("the certificate is not the one that was announced")
    return encrypted
