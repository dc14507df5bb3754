"""What remains in stores of a client that has left."""

from __future__ import annotations

from scaler_protocol.messages import Goodbye, ObjectKey, ObjectRelease, ObjectStored, Status, StoreAttached
from tests.unit.scheduler.playbook import Peer, Playbook, results, tasks
from tests.unit.scheduler.test_graphs import done, nodes

STORE, OTHER_STORE = b"s" * 16, b"t" * 16
LARGE = (10**6).to_bytes(8, "little") + STORE


def forgotten(said: list[tuple[str, object]], client: Peer) -> list[str]:
    """The names of those that are told to have all objects of the client dropped."""
    return sorted(name for name, body in said if body == ObjectRelease((), client.session))


def test_every_agent_drops_what_is_left_of_a_client_that_had_objects() -> None:
    book = Playbook()
    for name, store in (("one", STORE), ("two", STORE), ("three", OTHER_STORE)):
        book.agent(name).says(StoreAttached(store, ""))
    book.agent("without a store")
    client = book.client()
    client.says(ObjectStored(ObjectKey(client.session, 2**64 - 1), 50_000, STORE))
    assert forgotten(client.says(Goodbye()), client) == ["one", "three", "two", "without a store"]


def test_the_same_of_a_client_with_a_large_result() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent()
    agent.says(StoreAttached(STORE, ""))
    client.says(tasks(client, 5, 1))
    agent.says(results(client, (5, 1, Status.SUCCESS_LARGE, LARGE)))
    client.says(ObjectRelease((ObjectKey(client.session, 5),)))
    assert forgotten(client.says(Goodbye()), client) == ["agent"]


def test_the_same_of_a_client_with_a_large_value_in_a_graph() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent(slots=4)
    agent.says(StoreAttached(STORE, ""))
    client.says(nodes(client, 1, [[]], 2))
    client.says(nodes(client, 2, [[1]], 2, True))
    agent.says(results(client, (1, 1, Status.SUCCESS_LARGE, LARGE)))
    agent.says(done(client, 2))
    assert forgotten(client.says(Goodbye()), client) == ["agent"]


def test_nobody_hears_of_a_client_that_had_nothing_in_stores() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent()
    agent.says(StoreAttached(STORE, ""))
    client.says(tasks(client, 5, 1))
    agent.says(results(client, 5))
    assert client.says(Goodbye()) == []
