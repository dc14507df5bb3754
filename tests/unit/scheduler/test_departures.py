"""Agents that leave in good order: what only they have moves to others first."""

from __future__ import annotations

from scaler_protocol.messages import (
    Body,
    Goodbye,
    KeepValues,
    Leaving,
    MayLeave,
    ObjectChunk,
    ObjectKey,
    ObjectMissing,
    ObjectRelease,
    ObjectRequest,
    ObjectStored,
    Status,
    StoreAttached,
    Withdrawn,
)
from scaler_scheduler.core.departures import MOVES_LIMIT, PATIENCE_SECONDS
from tests.unit.scheduler.playbook import Peer, Playbook, handed, results, statuses, tasks
from tests.unit.scheduler.test_graphs import done, freed, nodes

LARGE = (1 << 20).to_bytes(8, "little")
NO_STORE = bytes(16)


def key(client: Peer, task: int = 1) -> ObjectKey:
    return ObjectKey(client.session, task)


def kept(client: Peer, *numbers: int) -> list[ObjectStored]:
    return [ObjectStored(key(client, number), 0, NO_STORE) for number in numbers]


def leave(agent: Peer) -> list[tuple[str, Body]]:
    return agent.says(Withdrawn((), leaving=True), Leaving())


def with_results(count: int = 1) -> tuple[Playbook, Peer, Peer]:
    """An agent, and a client whose large results it has."""
    book = Playbook()
    client, agent = book.client(), book.agent("agent", slots=count)
    client.says(tasks(client, 1, count))
    agent.says(results(client, *[(task, 1, Status.SUCCESS_LARGE, LARGE) for task in range(1, count + 1)]))
    return book, client, agent


def test_a_result_that_was_not_fetched_outlives_its_agent():
    book, client, agent = with_results()
    keeper = book.agent("keeper")
    assert leave(agent) == [("keeper", KeepValues((key(client),)))]
    assert keeper.says(ObjectRequest(key(client))) == [("agent", ObjectRequest(key(client)))]
    chunk = ObjectChunk(key(client), 1, 0, b"v")
    assert agent.says(chunk) == [("keeper", chunk)]
    assert keeper.says(*kept(client, 1)) == [("agent", MayLeave())]
    assert book.logs[-1].endswith("leaves: other agents keep 1 values of tasks")
    assert agent.says(Goodbye()) == []
    assert client.says(ObjectRequest(key(client))) == [("keeper", ObjectRequest(key(client), relayed=True))]
    assert client.says(ObjectRelease((key(client),))) == [("keeper", ObjectRelease((key(client),)))]


def test_a_value_that_waits_for_its_dependants_outlives_its_agent():
    book = Playbook()
    client, agent = book.client(), book.agent("agent")
    client.says(nodes(client, 1, [[]], 2))
    agent.says(done(client, 1))
    keeper = book.agent("keeper")
    assert leave(agent) == [("keeper", KeepValues((key(client),)))]
    assert keeper.says(*kept(client, 1)) == [("agent", MayLeave())]
    agent.says(Goodbye())
    said = client.says(nodes(client, 2, [[1]], 2, True))
    assert handed(said, keeper) == [(2, 1)], "and 1 does not run again"
    assert (1, 1) in freed(keeper.says(done(client, 2, payload=b"r")), keeper)


def test_where_no_agent_stays_nothing_moves():
    book, client, agent = with_results()
    assert leave(agent) == [("agent", MayLeave())]
    agent.says(Goodbye())
    other = book.agent("other")
    assert handed(other.joined, other) == [(1, 2)]


def test_agents_that_leave_or_are_older_are_not_asked():
    book, client, agent = with_results()
    gone = book.agent("gone")
    leave(gone)
    older = book._peer("older", agent.role)
    older.connect(minor=3)
    assert leave(agent) == [("agent", MayLeave())]


def test_another_host_is_preferred():
    book, client, agent = with_results()
    neighbour, keeper = book.agent("neighbour"), book.agent("keeper")
    for peer, store in ((agent, b"first"), (neighbour, b"first"), (keeper, b"other")):
        peer.says(StoreAttached(store.ljust(16), ""))
    assert leave(agent) == [("keeper", KeepValues((key(client),)))]


def test_so_many_move_at_a_time():
    book, client, agent = with_results(MOVES_LIMIT + 2)
    keeper = book.agent("keeper")
    first = tuple(key(client, number) for number in range(1, MOVES_LIMIT + 1))
    rest = tuple(key(client, number) for number in range(MOVES_LIMIT + 1, MOVES_LIMIT + 3))
    assert leave(agent) == [("keeper", KeepValues(first))]
    assert keeper.says(*kept(client, *range(2, MOVES_LIMIT + 1))) == []
    assert keeper.says(*kept(client, 1)) == [("keeper", KeepValues(rest))]
    assert keeper.says(*kept(client, MOVES_LIMIT + 1, MOVES_LIMIT + 2)) == [("agent", MayLeave())]


def test_several_agents_share_what_is_to_be_kept():
    book, client, agent = with_results(4)
    book.agent("one"), book.agent("two")
    assert leave(agent) == [
        ("one", KeepValues((key(client, 1), key(client, 3)))),
        ("two", KeepValues((key(client, 2), key(client, 4)))),
    ]


def test_what_runs_there_is_waited_for_and_moves_too():
    book = Playbook()
    client, agent = book.client(), book.agent("agent")
    client.says(tasks(client, 1, 1))
    keeper = book.agent("keeper")
    assert leave(agent) == []
    agent.says(results(client, (1, 1, Status.SUCCESS_LARGE, LARGE)))
    assert book.wait(0.3, (agent, keeper)) == [("keeper", KeepValues((key(client),)))]
    assert keeper.says(*kept(client, 1)) == [("agent", MayLeave())]


def test_when_the_one_that_should_keep_it_goes_another_one_is_asked():
    book, client, agent = with_results()
    keeper = book.agent("keeper")
    assert leave(agent) == [("keeper", KeepValues((key(client),)))]
    other = book.agent("other")
    keeper.says(Goodbye())
    assert book.wait(0.3, (agent, other)) == [("other", KeepValues((key(client),)))]


def test_what_is_released_meanwhile_does_not_move():
    book, client, agent = with_results()
    keeper = book.agent("keeper")
    leave(agent)
    client.says(ObjectRelease((key(client),)))
    assert [name for name, body in keeper.says(ObjectRequest(key(client))) if isinstance(body, ObjectMissing)]
    assert book.wait(0.3, (agent, keeper)) == [("agent", MayLeave())]


def test_a_value_that_is_read_moves_when_its_reader_has_it():
    book, client, agent = with_results()
    keeper = book.agent("keeper")
    leave(agent)
    keeper.says(ObjectRequest(key(client)))
    client.says(ObjectRequest(key(client)))
    agent.says(ObjectChunk(key(client), 1, 0, b"v"))
    assert keeper.says(*kept(client, 1)) == [], "the client is next"
    assert agent.says(ObjectChunk(key(client), 1, 0, b"v")) == [("client", ObjectChunk(key(client), 1, 0, b"v"))]
    assert book.wait(0.3, (agent, keeper)) == [("agent", MayLeave())]


def test_an_agent_that_keeps_nothing_is_not_waited_for_without_end():
    book, client, agent = with_results()
    keeper = book.agent("keeper")
    leave(agent)
    assert book.wait(PATIENCE_SECONDS - 1.0, (agent, keeper)) == []
    said = book.wait(1.5, (agent, keeper))
    assert said == [("keeper", ObjectRelease((key(client),))), ("agent", MayLeave())]


def test_an_agent_lost_while_it_leaves_is_lost_like_others():
    book, client, agent = with_results()
    keeper = book.agent("keeper")
    leave(agent)
    keeper.says(ObjectRequest(key(client)))
    said = agent.says(Goodbye())
    assert ("keeper", ObjectRelease((key(client),))) in said
    assert handed(said, keeper) == [(1, 2)]
    assert keeper.says(*kept(client, 1)) == []
    assert statuses(keeper.says(results(client, (1, 2))), client) == {1: Status.SUCCESS}
