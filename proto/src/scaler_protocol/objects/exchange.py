"""Other stores: the socket where they fetch from this one, and the connections to those it fetches from.

The same sockets and keys as everywhere. An endpoint is ``tcp://host:port#ticket``: a peer that knows the ticket, which
the scheduler sends to the agents of its cluster, may read objects. It is not sent: both ends prove that they know it.
"""

from __future__ import annotations

import itertools
import logging
import os
import time
from dataclasses import replace
from typing import Any

from scaler_protocol.address import Address, parse_address
from scaler_protocol.codec import MalformedMessage, decode, decode_hello, encode
from scaler_protocol.handshake import NONCE_SIZE_BYTES, ServerHandshake, place_of, refusal_for
from scaler_protocol.ids import new_session
from scaler_protocol.keys import store_keys
from scaler_protocol.messages import Envelope, Hello, ObjectCredit, ObjectRequest, ObjectStored, Welcome
from scaler_protocol.objects.arrival import BULK_LOST, CUT, GONE, OPENING, Arrival
from scaler_protocol.objects.bulk import Bulk
from scaler_protocol.objects.bulk_channel import Traffic
from scaler_protocol.objects.bulk_frames import Bytes, Piece, label_of, peer_of
from scaler_protocol.objects.bulk_offers import offer_in
from scaler_protocol.objects.source import RemoteStore
from scaler_protocol.transport.context import new_context
from scaler_protocol.transport.router_socket import RouterSocket

_PROBE_SECONDS = (0.0, 0.2, 2.0)
_KEYS_SECONDS = 1.0

_CHUNKS_SECONDS = 60.0
"""After a bulk connection could not be opened or broke, the next one to the same store is tried after this time."""


class Exchange:
    """``traffic`` takes and gives the bytes of bulk connections; without it there are none."""

    def __init__(self, store: bytes, traffic: Traffic | None = None) -> None:
        self.version = 0
        """Counts the changes of ``fds``."""
        self._store = store
        self._context = new_context()
        self._router: RouterSocket | None = None
        self._ticket = new_session().hex()
        self._handshake: ServerHandshake | None = None
        self._numbers = itertools.count(-1, -1)
        self._peers: dict[bytes, int] = {}  # by routing id
        self._routing_ids: dict[int, bytes] = {}
        self._users: dict[bytes, bytes] = {}  # by routing id: whose key its connection showed
        self._valid_users: frozenset[bytes] | None = None
        self._look_at = 0.0
        self._sources: dict[str, RemoteStore] = {}
        self._probes: list[float] = []
        self._bulk = Bulk(traffic) if traffic is not None else None
        self._welcomes: dict[str, Welcome] = {}  # by endpoint: of sources that are connected
        self._chunks_until: dict[str, float] = {}  # by endpoint: sources whose bulk connection could not be opened

    def listen(self, host: str) -> str:
        """The endpoint. Raises OSError or ValueError with a sentence."""
        router = RouterSocket(self._context, store_keys)
        try:
            address = router.bind(Address("tcp", host, 0))
        except BaseException:
            router.close()
            raise
        self._router = router
        if self._bulk is not None:
            self._listen_for_bulk(self._bulk, parse_address(address))
        seed = os.urandom(NONCE_SIZE_BYTES)
        self._handshake = ServerHandshake(self._ticket.encode(), seed, (place_of(address),))
        self.version += 1
        return f"{address}#{self._ticket}"

    def fds(self) -> list[int]:
        """Something may have come when one of them is readable, and after every sending."""
        found = [fd for each in self._sources.values() for fd in each.fds()]
        found += [self._bulk.fd] if self._bulk is not None else []
        return found + ([self._router.fd, self._router.monitor_fd] if self._router is not None else [])

    def open(self, endpoint: str) -> None:
        """Raises OSError and ValueError."""
        self._sources[endpoint] = RemoteStore(self._context, endpoint)
        self.version += 1

    def close_source(self, endpoint: str) -> None:
        source = self._sources.pop(endpoint, None)
        if source is not None:
            self._end_bulk(endpoint)
            source.close()
            self.version += 1

    def ask(self, endpoint: str, body: Any) -> None:
        """A message that is lost with its connection is asked for again after the next Welcome."""
        if self._bulk is not None and isinstance(body, ObjectRequest):
            body = replace(body, direct=self._bulk.is_open(endpoint))
        if peer_of(endpoint):
            self.answer(peer_of(endpoint), body)
        elif endpoint in self._sources:
            self._sources[endpoint].send(body)

    def answer(self, peer: int, body: Any) -> bool:
        """False: it is gone."""
        routing_id = self._routing_ids.get(peer)
        if routing_id is None or self._router is None:
            return False
        return self._router.send(routing_id, encode(Envelope(body))) != "gone"

    def forget(self, peer: int) -> None:
        routing_id = self._routing_ids.pop(peer, None)
        if routing_id is not None:
            del self._peers[routing_id]
            self._users.pop(routing_id, None)
            if self._bulk is not None:
                self._bulk.withdraw(label_of(peer))

    def send_piece(self, peer: int, piece: Piece, content: Bytes) -> bool:
        """On its bulk connection. False: it has none."""
        return self._bulk is not None and self._bulk.send(label_of(peer), piece, content)

    def close(self) -> None:
        for endpoint in list(self._sources):
            self.close_source(endpoint)
        if self._bulk is not None:
            self._bulk.close()
        if self._router is not None:
            self._router.close()
        self._context.term()

    def next_deadline(self) -> float | None:
        """Return when to call ``receive`` although nothing is readable."""
        times = [*self._probes[:1], *([self._look_at] if self._users else [])]
        due = self._bulk.next_deadline() if self._bulk is not None else None
        return min([*times, due] if due is not None else times, default=None)

    # ---- what comes ----------------------------------------------------------------------------------------------

    def move_bulk(self) -> list[Arrival]:
        """Every bulk connection gets a turn."""
        arrivals = []
        for change in self._bulk.move() if self._bulk is not None else ():
            if change.label in self._welcomes:
                if not change.is_open:
                    self._chunks_until[change.label] = time.monotonic() + _CHUNKS_SECONDS
                arrivals.append(Arrival(0, change.label, self._welcomes[change.label]))
            elif not change.is_open and peer_of(change.label) in self._routing_ids:
                arrivals.append(Arrival(peer_of(change.label), "", BULK_LOST))
        return arrivals

    def receive(self) -> list[Arrival]:
        """All that waits, but for the bytes on bulk connections."""
        arrivals: list[Arrival] = []
        if self._router is not None:
            self._end_revoked(self._router, time.monotonic())
            arrivals += self._lost_peers(self._router) + self._from_peers(self._router)
        for endpoint, source in list(self._sources.items()):
            for body in source.bodies():
                arrivals.append(Arrival(0, endpoint, self._on_source_body(endpoint, source, body)))
                if body == GONE:
                    break
        return arrivals

    # ---- bulk connections ------------------------------------------------------------------------------------------

    def _listen_for_bulk(self, bulk: Bulk, address: Address) -> None:
        try:
            bulk.listen(address.host, store_keys(address) is not None)
        except (OSError, ValueError) as error:
            logging.warning(f"Cannot listen for bulk connections: {error}. Large objects travel more slowly.")

    def _on_source_body(self, endpoint: str, source: RemoteStore, body: Any) -> Any:
        """A Welcome that offers a bulk connection counts when that was opened, or cannot be."""
        if body in (CUT, GONE):
            self._end_bulk(endpoint)
        if not isinstance(body, Welcome):
            return body
        self._welcomes[endpoint] = body
        offer = offer_in(body.features)
        if self._bulk is None or offer is None or self._chunks_until.get(endpoint, 0.0) > time.monotonic():
            return body
        try:
            self._bulk.withdraw(endpoint)
            self._bulk.dial(endpoint, source.host, offer)
        except (OSError, ValueError) as error:
            logging.warning(
                f"Cannot open a bulk connection to {source.host}: {error}. Large objects travel more slowly."
            )
            return body
        return OPENING

    def _end_bulk(self, endpoint: str) -> None:
        self._welcomes.pop(endpoint, None)
        if self._bulk is not None:
            self._bulk.withdraw(endpoint)

    # ---- peers -----------------------------------------------------------------------------------------------------

    def _from_peers(self, router: RouterSocket) -> list[Arrival]:
        arrivals = []
        for routing_id, frames, user in router.receive_many(1000):
            if routing_id not in self._peers:
                arrivals += self._on_first_message(router, routing_id, frames, user)
                continue
            try:
                body = decode(frames).body
            except MalformedMessage:
                continue
            if isinstance(body, Hello):
                arrivals += self._on_hello(router, routing_id, body, user)
            elif isinstance(body, (ObjectRequest, ObjectCredit, ObjectStored)):
                arrivals.append(Arrival(self._peers[routing_id], "", body))
        for routing_id, frames, user in router.unauthenticated_messages():
            arrivals += self._on_first_message(router, routing_id, frames, user)
        return arrivals

    def _on_first_message(
        self, router: RouterSocket, routing_id: bytes, frames: list[bytes], user: bytes
    ) -> list[Arrival]:
        """Handle the first message of a connection that has proved nothing: only a Hello is read."""
        try:
            hello = decode_hello(frames)
        except MalformedMessage:
            hello = None
        return self._on_hello(router, routing_id, hello, user) if hello is not None else []

    def _on_hello(self, router: RouterSocket, routing_id: bytes, hello: Hello, user: bytes) -> list[Arrival]:
        """One that says Hello again has lost what was on its way."""
        assert self._handshake is not None
        answer = refusal_for(hello) or self._handshake.answer(hello, time.monotonic())
        if answer is not None:
            router.answer(routing_id, encode(Envelope(answer)))
            return []
        gone = [Arrival(self._peers[routing_id], "", GONE)] if routing_id in self._peers else []
        for each in gone:
            self.forget(each.peer)
        number = next(self._numbers)
        self._peers[routing_id], self._routing_ids[number] = number, routing_id
        if user:
            self._users[routing_id] = user
        router.admit(routing_id)
        features = self._bulk.offer(label_of(number)) if self._bulk is not None else ()
        welcome = self._handshake.prove(hello, Welcome(self._store, 0, number=hello.number, features=features))
        router.answer(routing_id, encode(Envelope(welcome)))
        return [*gone, Arrival(number, "", hello)]

    def _end_revoked(self, router: RouterSocket, now: float) -> None:
        """Connections of keys that were taken away, or have expired. One that is missing twice in a row is gone: its
        file may be replaced just now."""
        if not self._users or now < self._look_at:
            return
        self._look_at, before = now + _KEYS_SECONDS, self._valid_users
        try:
            self._valid_users = router.users()
        except OSError:  # they cannot be read now
            return
        valid = (self._valid_users or frozenset()) | (before or frozenset())
        for routing_id, user in list(self._users.items()):
            if before is not None and user not in valid:
                router.disconnect(routing_id)

    def _lost_peers(self, router: RouterSocket) -> list[Arrival]:
        """The news that a connection has ended may come before a probe can tell which, so they are probed again."""
        now = time.monotonic()
        if router.disconnected_events():
            self._probes = [now + seconds for seconds in _PROBE_SECONDS]
        if not self._probes or now < self._probes[0]:
            return []
        self._probes = [each for each in self._probes if each > now]
        gone = [Arrival(number, "", GONE) for routing_id, number in self._peers.items() if not router.probe(routing_id)]
        for each in gone:
            self.forget(each.peer)
        return gone
