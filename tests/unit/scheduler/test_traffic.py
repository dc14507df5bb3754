"""The traffic between the object stores of hosts, for monitors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler_protocol import limits
from scaler_protocol.codec import decode, encode
from scaler_protocol.fields import MalformedMessage
from scaler_protocol.messages import Envelope, ObjectKey, ReceivedBytes, Role, StoreAttached, StoreStatus
from scaler_protocol.objects.core import fetches
from scaler_protocol.objects.core.fetches import Fetches
from tests.unit.scheduler.playbook import Peer, Playbook, attach


def status(store: bytes, *received: tuple[str, int]) -> StoreStatus:
    pairs = tuple(ReceivedBytes(endpoint, size) for endpoint, size in received)
    return StoreStatus(store, 1, "", 0, 0, 0, 0, 0, 0, 0, sum(size for _, size in received), received_from=pairs)


def with_store(book: Playbook, name: str) -> tuple[Peer, bytes]:
    agent, store = Peer(book, name, Role.WORK), name.encode().ljust(16)
    book.peers[agent.session] = agent
    agent.connect()
    agent.says(replace(attach(name), host=name), StoreAttached(store, f"tcp://{name}:1#certificate"))
    return agent, store


def test_hosts_are_named_by_the_endpoints_of_their_stores() -> None:
    book = Playbook()
    (one, first), (other, second) = with_store(book, "one"), with_store(book, "other")
    one.says(status(first, ("tcp://other:1#certificate", 5), ("tcp://gone:1#certificate", 7)))
    other.says(status(second, ("tcp://one:1#certificate", 9)))
    rows = [(each.source, each.target, each.received_bytes) for each in book.core.snapshot(book.now).traffic]
    assert rows == [("one", "other", 9), ("tcp://gone:1", "one", 7), ("other", "one", 5)]


def test_a_message_names_few_stores() -> None:
    received = [(f"tcp://h:{number}", number) for number in range(limits.SOURCES_LIMIT + 1)]
    most, too_many = status(b"s" * 16, *received[1:]), status(b"s" * 16, *received)
    assert decode(encode(Envelope(most, 1, 0))).body == most
    with pytest.raises(MalformedMessage):
        decode(encode(Envelope(too_many, 1, 0)))


def test_stores_that_are_counted_are_counted_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetches, "ENDPOINTS_LIMIT", 1)
    found = Fetches([])
    for number, endpoint in enumerate(("tcp://one:1", "tcp://other:1", "tcp://one:1")):
        key = ObjectKey(b"owner of objects", number)
        found.add(key, 10, (endpoint,), 0)
        found.start(key, 0.0)
        found.on_bytes(endpoint, key, 10, 0.0)
    assert (found.received_from, found.received_bytes) == ({"tcp://one:1": 20}, 30)
