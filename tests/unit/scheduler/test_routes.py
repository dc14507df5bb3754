"""From where the stores of hosts fetch an object that many of them need."""

from __future__ import annotations

from scaler_protocol.messages import ObjectKey
from scaler_scheduler.core.routes import CHAIN_BYTES, CHAIN_LIMIT, source_for
from scaler_scheduler.core.stored_objects import StoredObject

KEY = ObjectKey(b"owner", 2**63)


def an_object(size: int = CHAIN_BYTES) -> StoredObject:
    """In the store of its owner's host."""
    stored = StoredObject(KEY)
    stored.size, stored.home, stored.stores, stored.owners = size, b"home", {b"home": True}, {b"owner": None}
    return stored


def endpoints_of(*agents: bytes) -> dict[bytes, str]:
    return {agent: f"tcp://{agent.decode()}" for agent in (b"home", *agents)}


def join(
    stored: StoredObject, agent: bytes, endpoints: dict[bytes, str], slow: set[bytes] | None = None
) -> bytes | None:
    source = source_for(stored, agent, endpoints, slow or set())
    if source is not None:
        stored.fetching[agent] = source
    return source


def test_hosts_form_a_chain() -> None:
    stored, endpoints = an_object(), endpoints_of(b"a", b"b", b"c")
    assert [join(stored, agent, endpoints) for agent in (b"a", b"b", b"c")] == [b"home", b"a", b"b"]


def test_a_host_that_has_the_object_is_asked_before_a_chain_grows() -> None:
    stored, endpoints = an_object(), endpoints_of(b"a", b"b", b"store-a")
    join(stored, b"a", endpoints)
    stored.stores[b"store-a"] = True
    assert join(stored, b"b", endpoints) == b"store-a"


def test_the_shortest_chain_grows() -> None:
    stored, endpoints = an_object(), endpoints_of(b"a", b"b", b"c", b"d")
    stored.fetching = {b"a": b"home", b"b": b"a", b"c": b"elsewhere"}
    assert join(stored, b"d", endpoints) == b"c"


def test_small_objects_are_fetched_from_stores_that_have_them() -> None:
    stored, endpoints = an_object(CHAIN_BYTES - 1), endpoints_of(b"a", b"b", b"c")
    assert [join(stored, agent, endpoints) for agent in (b"a", b"b", b"c")] == [b"home", b"home", None]


def test_a_chain_has_an_end() -> None:
    agents = [bytes([65 + number]) for number in range(CHAIN_LIMIT + 2)]
    stored, endpoints = an_object(), endpoints_of(*agents)
    sources = [join(stored, agent, endpoints) for agent in agents]
    assert sources == [b"home", *agents[: CHAIN_LIMIT - 1], b"home", agents[CHAIN_LIMIT]]


def test_nothing_comes_through_a_slow_host() -> None:
    stored, endpoints = an_object(), endpoints_of(b"a", b"b", b"c")
    assert [join(stored, agent, endpoints, {b"a"}) for agent in (b"a", b"b", b"c")] == [b"home", b"home", b"b"]


def test_no_host_waits_for_itself() -> None:
    stored, endpoints = an_object(), endpoints_of(b"a", b"b", b"c")
    stored.stores.clear()
    stored.fetching = {b"b": b"a", b"c": b"b"}
    assert join(stored, b"a", endpoints) is None


def test_agents_of_one_host_share_its_store() -> None:
    stored = an_object()
    endpoints = {**endpoints_of(b"a"), b"twin": "tcp://a"}
    assert [join(stored, agent, endpoints) for agent in (b"a", b"twin")] == [b"home", b"home"]


def test_a_host_that_others_cannot_reach_ends_a_chain() -> None:
    stored, endpoints = an_object(), endpoints_of(b"a", b"b")
    endpoints[b"a"] = ""
    assert [join(stored, agent, endpoints) for agent in (b"a", b"b")] == [b"home", b"home"]


def test_who_has_received_everything_is_a_source_under_the_name_of_its_store() -> None:
    stored = an_object()
    stored.fetching = {b"b": b"a", b"c": b"home"}
    stored.replace_source(b"a", b"store-a")
    assert stored.fetching == {b"b": b"store-a", b"c": b"home"}
