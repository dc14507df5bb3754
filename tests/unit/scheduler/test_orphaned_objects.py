"""What remains in stores whose agents were away when its owner left."""

from __future__ import annotations

from scaler_protocol.limits import OWNERS_LIMIT
from scaler_protocol.messages import Goodbye, ObjectRelease, StoreStatus
from scaler_scheduler.core.orphaned_objects import UNKNOWN_SECONDS
from tests.unit.scheduler.playbook import Peer, Playbook

STRANGER, ANOTHER = b"s" * 16, b"t" * 16


def names(agent: Peer, *owners: bytes) -> list[tuple[str, object]]:
    """The store of an agent's host has objects of ``owners``."""
    return agent.says(
        StoreStatus(b"store" * 3 + b".", 1, "", len(owners), 0, 0, 1 << 30, 0, 0, 0, 0, owners=b"".join(owners))
    )


def test_the_objects_of_an_owner_that_is_not_a_client_are_dropped() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent()
    assert names(agent, client.session, STRANGER) == []
    assert book.wait(UNKNOWN_SECONDS - 1, (agent, client)) == []
    assert book.wait(2, (agent, client)) == [("agent", ObjectRelease((), STRANGER))]
    assert book.wait(2 * UNKNOWN_SECONDS, (agent, client)) == []


def test_an_owner_may_become_a_client_again() -> None:
    """As after a restart of the scheduler: clients may come back later than agents."""
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(Goodbye())
    names(agent, client.session)
    client.connect()
    assert book.wait(2 * UNKNOWN_SECONDS, (agent, client)) == []


def test_an_owner_that_is_named_no_longer_is_forgotten() -> None:
    book = Playbook()
    agent = book.agent()
    names(agent, STRANGER)
    names(agent)
    assert book.wait(2 * UNKNOWN_SECONDS, (agent,)) == []


def test_what_is_named_again_keeps_its_time() -> None:
    book = Playbook()
    agent = book.agent()
    names(agent, STRANGER)
    book.wait(UNKNOWN_SECONDS - 1, (agent,))
    names(agent, STRANGER, ANOTHER)
    assert book.wait(2, (agent,)) == [("agent", ObjectRelease((), STRANGER))]
    assert book.wait(UNKNOWN_SECONDS, (agent,)) == [("agent", ObjectRelease((), ANOTHER))]


def test_an_agent_names_only_so_many_owners_at_once() -> None:
    book = Playbook()
    agent = book.agent()
    names(agent, *(index.to_bytes(16, "big") for index in range(1, OWNERS_LIMIT + 10)))
    assert len(book.wait(2 * UNKNOWN_SECONDS, (agent,))) == OWNERS_LIMIT


def test_an_agent_that_is_gone_is_told_nothing() -> None:
    book = Playbook()
    agent = book.agent()
    names(agent, STRANGER)
    agent.says(Goodbye())
    assert book.wait(2 * UNKNOWN_SECONDS) == []
