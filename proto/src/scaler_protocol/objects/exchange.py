"""Other stores: the socket where they fetch from this one, and the connections to those it fetches from.

The same sockets and keys as everywhere. An endpoint is ``tcp://host:port#ticket``: whoever knows the ticket, which the
scheduler tells the agents of its cluster, may read objects.
"""

from __future__ import annotations

import hmac
import itertools
import logging
import time
from typing import Any

from scaler_protocol.address import Address, parse_address
from scaler_protocol.codec import MalformedMessage, decode, encode
from scaler_protocol.handshake import make_hello
from scaler_protocol.ids import new_session
from scaler_protocol.keys import store_keys, store_peer_keys
from scaler_protocol.messages import (
    PROTOCOL_MAJOR,
    Envelope,
    Hello,
    ObjectCredit,
    ObjectRequest,
    RefusalReason,
    Refused,
    Role,
    Welcome,
)
from scaler_protocol.objects.arrival import CUT, GONE, Arrival
from scaler_protocol.transport.context import new_context
from scaler_protocol.transport.dealer_connection import DealerConnection
from scaler_protocol.transport.router_socket import RouterSocket

_PROBE_SECONDS = (0.0, 0.2, 2.0)


class Exchange:
    def __init__(self, store: bytes) -> None:
        self.version = 0
        """Counts the changes of ``fds``."""
        self._store = store
        self._context = new_context()
        self._router: RouterSocket | None = None
        self._ticket = new_session().hex()
        self._numbers = itertools.count(-1, -1)
        self._peers: dict[bytes, int] = {}  # by routing id
        self._routing_ids: dict[int, bytes] = {}
        self._sources: dict[str, DealerConnection] = {}
        self._probes: list[float] = []

    def listen(self, host: str) -> str:
        """The endpoint. Raises OSError or ValueError with a sentence."""
        router = RouterSocket(self._context, store_keys)
        try:
            address = router.bind(Address("tcp", host, 0))
        except BaseException:
            router.close()
            raise
        self._router = router
        self.version += 1
        return f"{address}#{self._ticket}"

    def fds(self) -> list[int]:
        """Something may have come when one of them is readable, and after every sending."""
        found = [fd for each in self._sources.values() for fd in (each.fd, each.monitor_fd)]
        return found + ([self._router.fd, self._router.monitor_fd] if self._router is not None else [])

    def open(self, endpoint: str) -> None:
        """Raises OSError and ValueError."""
        address, _, _ = endpoint.partition("#")
        if parse_address(address).scheme != "tcp":
            raise ValueError(f"{address} is not an endpoint of an object store.")
        self._sources[endpoint] = DealerConnection(self._context, address, new_session(), store_peer_keys)
        self.version += 1

    def close_source(self, endpoint: str) -> None:
        source = self._sources.pop(endpoint, None)
        if source is not None:
            source.close()
            self.version += 1

    def ask(self, endpoint: str, body: Any) -> None:
        """A message that is lost with its connection is asked for again after the next Welcome."""
        if endpoint in self._sources:
            self._sources[endpoint].send(encode(Envelope(body)))

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

    def close(self) -> None:
        for endpoint in list(self._sources):
            self.close_source(endpoint)
        if self._router is not None:
            self._router.close()
        self._context.term()

    def next_deadline(self) -> float | None:
        """When to call ``receive`` though nothing is readable."""
        return self._probes[0] if self._probes else None

    # ---- what comes ----------------------------------------------------------------------------------------------

    def receive(self) -> list[Arrival]:
        """All that waits."""
        arrivals: list[Arrival] = []
        if self._router is not None:
            arrivals += self._lost_peers(self._router) + self._from_peers(self._router)
        for endpoint, source in list(self._sources.items()):
            arrivals += self._from_source(endpoint, source)
        return arrivals

    def _from_peers(self, router: RouterSocket) -> list[Arrival]:
        arrivals = []
        for routing_id, frames, _ in router.receive_many(1000):
            try:
                body = decode(frames).body
            except MalformedMessage:
                body = None
            if isinstance(body, Hello):
                arrivals += self._on_hello(router, routing_id, body)
            elif routing_id in self._peers and isinstance(body, (ObjectRequest, ObjectCredit)):
                arrivals.append(Arrival(self._peers[routing_id], "", body))
        return arrivals

    def _on_hello(self, router: RouterSocket, routing_id: bytes, hello: Hello) -> list[Arrival]:
        """One that says Hello again has lost what was on its way."""
        gone = [Arrival(self._peers[routing_id], "", GONE)] if routing_id in self._peers else []
        for each in gone:
            self.forget(each.peer)
        if hello.major != PROTOCOL_MAJOR or not hmac.compare_digest(hello.token, self._ticket.encode()):
            refused = Refused(RefusalReason.TOKEN, "This object store is not the one that was meant.")
            router.send(routing_id, encode(Envelope(refused)))
            return gone
        number = next(self._numbers)
        self._peers[routing_id], self._routing_ids[number] = number, routing_id
        router.welcome(routing_id)
        router.send(routing_id, encode(Envelope(Welcome(self._store, 0))))
        return [*gone, Arrival(number, "", hello)]

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

    def _from_source(self, endpoint: str, source: DealerConnection) -> list[Arrival]:
        arrivals: list[Arrival] = []
        for event in source.connection_events():
            if event == "connected":
                ticket = endpoint.partition("#")[2].encode()
                source.send(encode(Envelope(make_hello(Role.WORK, new_session(), token=ticket))))
            elif event == "handshake_failed":
                return [Arrival(0, endpoint, GONE)]
            else:
                arrivals.append(Arrival(0, endpoint, CUT))
        while (frames := source.receive()) is not None:
            try:
                arrivals.append(Arrival(0, endpoint, decode(frames).body))
            except MalformedMessage as error:
                logging.warning(f"The object store at {endpoint.partition('#')[0]} is not understood: {error}")
                return [*arrivals, Arrival(0, endpoint, GONE)]
        return arrivals
