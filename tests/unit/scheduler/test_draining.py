"""Agents that leave cleanly: values that only they have move to others first."""

from __future__ import annotations

from scaler_protocol.messages import (
    CREDIT_WITHOUT_END,
    Body,
    Capability,
    Goodbye,
    KeepValues,
    Leaving,
    MayLeave,
    ObjectChunk,
    ObjectCredit,
    ObjectKey,
    ObjectMissing,
    ObjectRelease,
    ObjectRequest,
    ObjectsLost,
    ObjectStored,
    Status,
    StoreAttached,
    StoreStatus,
    Tasks,
    Withdrawn,
)
from scaler_scheduler.core import draining
from scaler_scheduler.core.departure_table import Departure
from scaler_scheduler.core.draining import MOVES_LIMIT, PATIENCE_SECONDS
from scaler_scheduler.core.settings import HOLD_SECONDS
from tests.unit.scheduler.playbook import Peer, Playbook, attach, handed, results, statuses, tasks
from tests.unit.scheduler.test_graphs import done, freed, nodes

LARGE = (1 << 20).to_bytes(8, "little")
NO_STORE = bytes(16)


def key(client: Peer, task: int = 1) -> ObjectKey:
    return ObjectKey(client.session, task)


def kept(client: Peer, *numbers: int) -> list[ObjectStored]:
    return [ObjectStored(key(client, number), 0, NO_STORE) for number in numbers]


def attach_store(
    peer: Peer, name: bytes, used_bytes: int = 0, capacity_bytes: int = 1 << 30, disk: tuple[int, int] = (0, 0)
) -> None:
    """``disk``: bytes that are free, and in all."""
    store = name.ljust(16)
    peer.says(StoreAttached(store, ""))
    peer.says(StoreStatus(store, 1, "", 0, used_bytes, 0, capacity_bytes, 0, 0, 0, 0, *disk, largest_bytes=1 << 20))


def drain(book: Playbook, agent: Peer) -> None:
    draining.drain(book.core.state, book.core.state.agents[agent.session], book.now)
    book.run()


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


def test_the_tables_of_tasks_are_searched_once_however_many_values_move(monkeypatch):
    """A count, as the time depends on the machine."""
    searches = []
    note_values = Departure.note_values
    monkeypatch.setattr(Departure, "note_values", lambda *given: (searches.append(1), note_values(*given)))
    book, client, agent = with_results(3 * MOVES_LIMIT)
    keeper = book.agent("keeper")
    said, turns = leave(agent), 0
    while ("agent", MayLeave()) not in said:
        [order] = [body for name, body in said if isinstance(body, KeepValues)]
        said, turns = keeper.says(*[ObjectStored(each, 0, NO_STORE) for each in order.keys]), turns + 1
    assert (turns, len(searches)) == (3, 1)


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


def test_a_value_that_has_arrived_outlives_its_agent_although_it_is_read_there():
    book, client, agent = with_results()
    keeper = book.agent("keeper")
    leave(agent)
    keeper.says(ObjectRequest(key(client)))
    client.says(ObjectRequest(key(client)))
    agent.says(ObjectChunk(key(client), 1, 0, b"v"))
    assert keeper.says(*kept(client, 1)) == [], "the client is next"
    assert agent.says(Goodbye()) == [("keeper", ObjectRequest(key(client), relayed=True))]
    chunk = ObjectChunk(key(client), 1, 0, b"v")
    assert keeper.says(chunk) == [("client", chunk)]
    assert client.says(ObjectRelease((key(client),))) == [("keeper", ObjectRelease((key(client),)))]


def test_an_agent_that_keeps_nothing_is_not_waited_for_without_end():
    book, client, agent = with_results()
    keeper = book.agent("keeper")
    leave(agent)
    assert book.wait(PATIENCE_SECONDS - 1.0, (agent, keeper)) == []
    said = book.wait(1.5, (agent, keeper))
    assert said == [("keeper", ObjectRelease((key(client),))), ("agent", MayLeave())]


def test_an_agent_that_keeps_nothing_is_not_asked_again():
    book, client, agent = with_results(MOVES_LIMIT + 2)
    mute, keeper = book.agent("mute"), book.agent("keeper")
    said = leave(agent)
    for _ in range(2):
        [order] = [body for name, body in said if name == "keeper"]
        kept_now = keeper.says(*[ObjectStored(each, 0, NO_STORE) for each in order.keys])
        said = [*kept_now, *book.wait(PATIENCE_SECONDS + 1.0, (agent, mute, keeper))]
        assert not [body for name, body in said if name == "mute" and isinstance(body, KeepValues)]
    assert ("agent", MayLeave()) in said


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


# ---- values that are released, or that cannot be taken ---------------------------------------------------------------


def test_an_agent_that_found_a_value_in_its_store_is_told_that_it_was_released():
    book, client, agent = with_results()
    keeper = book.agent("keeper")
    for peer in (agent, keeper):
        attach_store(peer, b"shared")
    assert leave(agent) == [("keeper", KeepValues((key(client),)))]
    assert ("keeper", ObjectRelease((key(client),))) in client.says(ObjectRelease((key(client),)))
    assert keeper.says(*kept(client, 1)) == []
    assert book.wait(0.3, (agent, keeper)) == [("agent", MayLeave())]


def test_an_agent_that_found_a_node_s_value_in_its_store_is_told_that_it_is_freed():
    book = Playbook()
    client, agent = book.client(), book.agent("agent")
    client.says(nodes(client, 1, [[]], 2))
    agent.says(done(client, 1))
    keeper = book.agent("keeper")
    leave(agent)
    client.says(nodes(client, 2, [[1]], 2, True))
    assert (1, 0) in freed(keeper.says(done(client, 2, payload=b"r")), keeper)


def test_an_agent_without_room_refuses_a_value_and_is_not_waited_for():
    book, client, agent = with_results(2)
    keeper = book.agent("keeper")
    leave(agent)
    keeper.says(ObjectRequest(key(client, 1)))
    keeper.says(ObjectCredit(key(client, 1), CREDIT_WITHOUT_END))
    assert ("agent", MayLeave()) in keeper.says(*kept(client, 2))


def test_values_go_to_an_agent_with_room():
    book, client, agent = with_results()
    full, roomy = book.agent("full"), book.agent("roomy")
    attach_store(agent, b"first", used_bytes=1 << 20)
    attach_store(full, b"second", used_bytes=1 << 20, capacity_bytes=(1 << 20) + 1)
    attach_store(roomy, b"third")
    assert leave(agent) == [("roomy", KeepValues((key(client),)))]


def test_values_go_to_an_agent_whose_disk_has_room():
    book, client, agent = with_results()
    attach_store(agent, b"first", used_bytes=3 << 20)
    attach_store(book.agent("full"), b"second", capacity_bytes=2 << 20)
    attach_store(book.agent("roomy"), b"third", capacity_bytes=2 << 20, disk=(2 << 20, 10 << 20))
    assert leave(agent) == [("roomy", KeepValues((key(client),)))]


def test_an_agent_that_joins_later_keeps_what_no_other_could():
    book = Playbook()
    client, agent = book.client(), book.agent("agent", slots=2)
    client.says(tasks(client, 1, 2))
    agent.says(results(client, (1, 1, Status.SUCCESS_LARGE, LARGE)))
    assert leave(agent) == [], "task 2 runs"
    keeper = book.agent("keeper")
    assert book.wait(0.3, (agent, keeper)) == [("keeper", KeepValues((key(client),)))]


def test_what_a_last_task_leaves_moves_although_earlier_values_were_released():
    book = Playbook()
    client, agent = book.client(), book.agent("agent", slots=2)
    client.says(tasks(client, 1, 2))
    agent.says(results(client, (1, 1, Status.SUCCESS_LARGE, LARGE)))
    leave(agent)
    client.says(ObjectRelease((key(client),)))
    keeper = book.agent("keeper")
    assert keeper.joined == []
    said = agent.says(results(client, (2, 1, Status.SUCCESS_LARGE, LARGE)))
    said += book.wait(0.3, (agent, keeper))
    assert [each for each in said if each[0] != "client"] == [("keeper", KeepValues((key(client, 2),)))]


def test_a_store_that_dies_while_it_receives_a_value_gets_it_again():
    book, client, agent = with_results()
    keeper = book.agent("keeper")
    leave(agent)
    client.says(ObjectRequest(key(client)))
    keeper.says(ObjectRequest(key(client)))
    assert keeper.says(*kept(client, 1)) == [], "the client still reads it from the first one"
    lost = keeper.says(ObjectsLost((key(client),)))
    assert not [body for name, body in lost if name == "client"]
    assert ("keeper", KeepValues((key(client),))) in [*lost, *book.wait(0.3, (agent, keeper))]
    chunk = ObjectChunk(key(client), 1, 0, b"v")
    assert ("client", chunk) in agent.says(chunk)
    agent.says(chunk)
    assert ("agent", MayLeave()) in [*keeper.says(*kept(client, 1)), *book.wait(0.3, (agent, keeper))]


def test_a_copy_that_is_lost_does_not_keep_its_value_from_readers():
    book, client, agent = with_results()
    other = book.agent("other")
    client.says(ObjectRequest(key(client)))
    assert other.says(ObjectsLost((key(client),)), ObjectMissing(key(client), "a lie")) == []
    chunk = ObjectChunk(key(client), 1, 0, b"v")
    assert agent.says(chunk) == [("client", chunk)]


# ---- agents that were told to leave ----------------------------------------------------------------------------------


def test_the_host_of_an_agent_that_was_told_to_leave_stays():
    book, client, agent = with_results()
    neighbour, other = book.agent("neighbour"), book.agent("other")
    for peer, store in ((agent, b"first"), (neighbour, b"first"), (other, b"second")):
        attach_store(peer, store)
    drain(book, agent)
    assert leave(agent) == [("neighbour", KeepValues((key(client),)))]


def test_values_for_which_no_agent_has_room_are_shared():
    book, client, agent = with_results(2)
    attach_store(agent, b"first", used_bytes=3 << 20)
    for name in ("one", "two"):
        attach_store(book.agent(name), name.encode(), capacity_bytes=2 << 20)
    drain(book, agent)
    assert leave(agent) == [("one", KeepValues((key(client, 1),))), ("two", KeepValues((key(client, 2),)))]


def test_the_agent_with_most_values_takes_those_of_an_agent_that_was_told_to_leave():
    book, client, _ = with_results(2)
    book.agent("one")
    leaving = book.agent("leaving", capabilities={"gpu": 1})
    book.agent("two")
    gpu = (Capability("gpu", 1),)
    assert handed(client.says(tasks(client, 3, 1, capabilities=gpu)), leaving) == [(3, 1)]
    leaving.says(results(client, (3, 1, Status.SUCCESS_LARGE, LARGE)))
    drain(book, leaving)
    assert leave(leaving) == [("agent", KeepValues((key(client, 3),)))]


# ---- lies ------------------------------------------------------------------------------------------------------------


def test_an_agent_that_leaves_twice_leaves_once():
    book, client, agent = with_results()
    keeper = book.agent("keeper")
    assert leave(agent) == [("keeper", KeepValues((key(client),)))]
    assert leave(agent) == []
    assert keeper.says(*kept(client, 1)) == [("agent", MayLeave())]
    assert leave(agent) == []


def test_an_agent_that_leaves_without_saying_that_it_takes_no_tasks_gets_none():
    book, client, agent = with_results()
    keeper = book.agent("keeper")
    agent.says(Leaving())
    assert handed(client.says(tasks(client, 2, 2)), agent) == []
    assert handed(keeper.says(results(client, 2)), agent) == []


def test_what_an_agent_was_not_asked_to_keep_does_not_move():
    book, client, agent = with_results()
    _, liar = book.agent("keeper"), book.agent("liar")
    assert leave(agent) == [("keeper", KeepValues((key(client),)))]
    assert liar.says(*kept(client, 1, 2, 99)) == []
    assert client.says(ObjectRequest(key(client))) == [("agent", ObjectRequest(key(client), relayed=True))]


def test_an_agent_that_never_had_a_value_that_it_keeps_loses_it():
    book, client, agent = with_results()
    liar = book.agent("liar")
    leave(agent)
    assert liar.says(*kept(client, 1)) == [("agent", MayLeave())]
    agent.says(Goodbye())
    client.says(ObjectRequest(key(client)))
    assert handed(liar.says(ObjectMissing(key(client), "It never was here.")), liar) == [(1, 2)]


def test_an_agent_whose_store_dies_again_and_again_keeps_no_other_from_leaving():
    book, client, agent = with_results()
    liar = book.agent("liar")
    said = leave(agent)
    for _ in range(2):
        assert ("liar", KeepValues((key(client),))) in said
        said = [*liar.says(ObjectsLost((key(client),))), *book.wait(0.3, (agent, liar))]
    assert ("agent", MayLeave()) in said


def test_after_a_restart_an_agent_leaves_when_it_has_said_what_it_has():
    book = Playbook(epoch=2)
    client = book.client()
    agent = book._peer("agent", book.agent("keeper").role)
    agent.connect(epoch=1)
    agent.says(attach("agent"))
    assert leave(agent) == []
    client.says(Tasks(tasks(client, 1, 1).runs, resubmitted=True))
    agent.says(results(client, (1, 1, Status.SUCCESS_LARGE, LARGE)))
    assert [each for each in book.wait(2 * HOLD_SECONDS + 0.3, (agent,)) if isinstance(each[1], KeepValues)] == [
        ("keeper", KeepValues((key(client),)))
    ]
