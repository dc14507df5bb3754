"""Graphs: tasks that need results of others of their session, as conversations."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from scaler_protocol.codec import ResultRun, TaskRun
from scaler_protocol.limits import REAL_LIMIT
from scaler_protocol.messages import (
    Cancel,
    Capability,
    Goodbye,
    ObjectChunk,
    ObjectKey,
    ObjectMissing,
    ObjectRelease,
    ObjectRequest,
    Results,
    Status,
    TaskColumn,
    TaskOptions,
    Tasks,
    Withdrawn,
)
from tests.unit.scheduler.playbook import (
    FUNCTION,
    OTHER_FUNCTION,
    Peer,
    Playbook,
    definition,
    handed,
    statuses,
    tasks,
)


def nodes(
    client: Peer,
    first: int,
    inputs: list[list[int]],
    last: int,
    target: bool = False,
    resubmitted: bool = False,
    function: bytes = FUNCTION,
    **more,
) -> Tasks:
    """Tasks first, first + 1, ... that need the results of ``inputs``."""
    slots = [[ObjectKey(client.session, each) for each in some] for some in inputs]
    options = TaskOptions(intermediate=not target, graph=last, **more)
    run = TaskRun(client.session, function, "f", b"", first, 1, (), options, slots)
    return Tasks([run], [definition(function)], resubmitted=resubmitted)


def chain(client: Peer, count: int, first: int = 1, **more) -> list[Tasks]:
    last = first + count - 1
    parts = [nodes(client, first, [[]], last, count == 1, **more)]
    if count > 2:
        middle = [[each] for each in range(first, last - 1)]
        parts.append(nodes(client, first + 1, middle, last, **more))
    if count > 1:
        parts.append(nodes(client, last, [[last - 1]], last, True, **more))
    return parts


def done(
    client: Peer,
    *tasks: int,
    attempt: int = 1,
    payload: bytes = b"",
    status: Status = Status.SUCCESS,
    duration_us: int = 1,
) -> Results:
    rows = [(task, attempt, status, payload, duration_us, duration_us, 0) for task in tasks]
    return Results([ResultRun(client.session, rows)])


def freed(said: list, agent: Peer) -> list[tuple[int, int]]:
    """[(task, attempt)] of all Cancels said to an agent."""
    return [
        pair
        for name, body in said
        if name == agent.name and isinstance(body, Cancel)
        for column in body.columns
        for pair in zip(column.tasks, column.attempts, strict=True)
    ]


def test_a_dependant_waits_for_its_input():
    book = Playbook()
    client = book.client()
    said = client.says(*chain(client, 2))
    assert book.core.explain(client.session, 2) == ("Task 2 (f) waits for 1 of the 1 results it needs (tasks 1).")
    agent = book.agent()
    assert handed(agent.joined, agent) == [(1, 1), (2, 1)]
    assert statuses(agent.says(done(client, 1)), client) == {}
    said = agent.says(done(client, 2, payload=b"r"))
    assert statuses(said, client) == {2: Status.SUCCESS}
    assert freed(said, agent) == [(1, 1), (2, 1)]
    assert book.core.state.clients[client.session].table.nodes.graphs == {}
    assert book.core.state.clients[client.session].table.columns.unfinished == 0


def test_a_failed_node_is_told_apart_from_those_that_it_cancels():
    book = Playbook()
    client, agent = book.client(), book.agent(slots=1)
    client.says(nodes(client, 1, [[], []], 4), nodes(client, 3, [[1]], 4, True), nodes(client, 4, [[2]], 4, True))
    agent.says(done(client, 1, status=Status.EXCEPTION))
    (graph,) = book.core.snapshot(book.now).graphs
    assert (graph.nodes, graph.failed, graph.canceled) == (4, 2, 1)


def ready_times(said: list, agent: Peer) -> dict[int, float]:
    """When the inputs of the nodes were there that an agent is handed."""
    runs = [run for name, body in said if name == agent.name and isinstance(body, Tasks) for run in body.runs]
    return {run.first_task: run.options.ready_at for run in runs}


def test_nodes_with_spans_state_when_their_inputs_were_there():
    book = Playbook()
    client = book.client()
    agents = [book.agent(f"agent {number}", slots=1) for number in range(2)]
    book.wait(1.0, tuple(agents))
    said = client.says(
        nodes(client, 1, [[], []], 3, submitted_at=1000.0), nodes(client, 3, [[1, 2]], 3, True, submitted_at=1000.0)
    )
    (first,), (second,) = (ready_times(said, agent) for agent in agents)
    assert {first, second} == {1, 2} and ready_times(said, agents[0])[first] == 1000.0
    book.wait(2.0, tuple(agents))
    said = agents[0].says(done(client, first, payload=b"r")) + agents[1].says(done(client, second, payload=b"r"))
    ((task, ready_at),) = [each for agent in agents for each in ready_times(said, agent).items()]
    assert task == 3 and ready_at == pytest.approx(1002.0, abs=0.01)


def test_a_node_is_not_ready_later_than_a_message_can_say():
    book = Playbook()
    client = book.client()
    agents = [book.agent(f"agent {number}", slots=1) for number in range(2)]
    times = {"submitted_at": REAL_LIMIT}
    said = client.says(nodes(client, 1, [[], []], 3, **times), nodes(client, 3, [[1, 2]], 3, True, **times))
    (first,), (second,) = (ready_times(said, agent) for agent in agents)
    book.wait(2.0, tuple(agents))
    said = agents[0].says(done(client, first, payload=b"r")) + agents[1].says(done(client, second, payload=b"r"))
    assert [time for agent in agents for time in ready_times(said, agent).values()] == [REAL_LIMIT]


def test_nodes_with_spans_that_go_ahead_of_their_inputs_state_no_time():
    book = Playbook()
    client, agent = book.client(), book.agent()
    known(book, client, agent)
    said = client.says(*chain(client, 3, submitted_at=1000.0))
    assert ready_times(said, agent) == {1: 1000.0, 2: 0.0, 3: 0.0}


def known(book: Playbook, client: Peer, agent: Peer, duration_us: int = 1) -> None:
    """Let the scheduler learn that the function is short."""
    client.says(tasks(client, 0, 1))
    agent.says(done(client, 0, payload=b"r", duration_us=duration_us))


def test_a_chain_goes_to_its_agent_in_one_message():
    book = Playbook()
    client, agent = book.client(), book.agent()
    known(book, client, agent)
    said = client.says(*chain(client, 100))
    assert handed(said, agent) == [(task, 1) for task in range(1, 101)]
    messages = [body for name, body in said if isinstance(body, Tasks)]
    assert len(messages) == 1 and len(messages[0].runs) == 3
    said = agent.says(done(client, *range(1, 100)), done(client, 100, payload=b"r"))
    assert statuses(said, client) == {100: Status.SUCCESS}
    assert sorted(freed(said, agent)) == [(task, 1) for task in range(1, 101)]


def test_nodes_that_follow_different_runs_go_together():
    book = Playbook()
    client, agent = book.client(), book.agent()
    known(book, client, agent)
    inputs = nodes(client, 1, [[]] * 50, 200), nodes(client, 51, [[]] * 50, 200)
    said = client.says(*inputs, nodes(client, 101, [[1 + task // 2 + task % 2 * 50] for task in range(100)], 200, True))
    assert handed(said, agent) == [(task, 1) for task in range(1, 201)]
    assert [run.count for name, body in said if isinstance(body, Tasks) for run in body.runs] == [50, 50, 100]


def test_a_chain_longer_than_the_agents_room_goes_on_as_room_comes():
    book = Playbook(per_worker_queue_size=10)
    client, agent = book.client(), book.agent()
    known(book, client, agent)
    said = client.says(*chain(client, 35))
    assert len(handed(said, agent)) == 10
    finished = 0
    while finished < 34:
        finished += 1
        said = agent.says(done(client, finished))
        assert handed(said, agent) == ([(finished + 10, 1)] if finished <= 25 else [])
    assert statuses(agent.says(done(client, 35, payload=b"r")), client) == {35: Status.SUCCESS}


def test_what_can_follow_goes_before_what_comes_next_however_long_it_may_take():
    """Else all first values would lie there before one of them is used."""
    book = Playbook()
    client, agent = book.client(), book.agent()
    known(book, client, agent, 1000)
    sums = nodes(client, 201, [[task, task + 1] for task in range(1, 201, 2)], 300, True, function=OTHER_FUNCTION)
    here = handed(client.says(nodes(client, 1, [[]] * 200, 300), sums), agent)
    assert len(here) < 15
    for task in range(1, 9):
        here += handed(agent.says(done(client, task, duration_us=1000)), agent)
    assert (201, 1) in here and max(task for task, _ in here if task <= 200) < 20


def test_a_failure_ends_what_depends_on_it():
    book = Playbook()
    client, agent = book.client(), book.agent()
    known(book, client, agent)
    client.says(*chain(client, 4))
    said = agent.says(done(client, 1), done(client, 2, status=Status.EXCEPTION, payload=b"e"))
    rows = [row[:3] for name, body in said if isinstance(body, Results) for run in body.runs for row in run.rows()]
    assert rows == [(2, 1, Status.EXCEPTION)]
    assert sorted(freed(said, agent)) == [(1, 1), (3, 1), (4, 1)]
    said = agent.says(Withdrawn((TaskColumn(client.session, (3, 4), (1, 1)),)))
    assert statuses(said, client)[4] == Status.CANCELLED
    assert book.core.state.clients[client.session].table.columns.unfinished == 0


def test_what_no_agent_has_is_cancelled_with_its_input_after_the_failure():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(nodes(client, 1, [[]], 4), nodes(client, 2, [[1], [2], [2]], 4, True))
    said = agent.says(done(client, 1, status=Status.EXCEPTION, payload=b"e"))
    rows = [row[0] for name, body in said if isinstance(body, Results) for run in body.runs for row in run.rows()]
    assert rows[0] == 1 and sorted(rows[1:]) == [3, 4]
    assert freed(said, agent) == [(2, 1)]
    assert statuses(agent.says(done(client, 2, status=Status.CANCELLED)), client) == {2: Status.CANCELLED}
    assert book.core.state.clients[client.session].table.columns.unfinished == 0


def test_an_input_is_made_again_when_its_holder_is_lost():
    book = Playbook()
    client, first = book.client(), book.agent("first")
    client.says(*chain(client, 3))
    first.says(done(client, 1))
    first.says(done(client, 2))  # 1 is not needed any more
    first.says(Goodbye())
    second = book.agent("second")
    assert handed(second.joined, second) == [(1, 2), (2, 2), (3, 2)]
    second.says(done(client, 1, attempt=2))
    second.says(done(client, 2, attempt=2))
    assert statuses(second.says(done(client, 3, attempt=2, payload=b"r")), client) == {3: Status.SUCCESS}


def test_a_value_travels_between_agents():
    book = Playbook()
    client, first = book.client(), book.agent("first")
    client.says(nodes(client, 1, [[]], 3), nodes(client, 2, [[1], [1]], 3, True))
    said = first.says(done(client, 1), Withdrawn((TaskColumn(client.session, (2,), (1,)),), leaving=True))
    assert handed(said, first) == []
    second = book.agent("second")
    assert handed(second.joined, second) == [(2, 2), (3, 1)]
    key = ObjectKey(client.session, 1)
    assert second.says(ObjectRequest(key)) == [("first", ObjectRequest(key))]
    chunk = ObjectChunk(key, 1, 0, b"v")
    assert first.says(chunk) == [("second", chunk)]
    second.says(done(client, 3, payload=b"r"))
    said = second.says(done(client, 2, attempt=2, payload=b"r"))
    assert (1, 1) in freed(said, first) and (1, 0) in freed(said, second)


def two_readers(*, rerun: bool = True) -> tuple[Playbook, Peer, Peer, Peer]:
    """A client, the agent that made value 1, and another one that has fetched it and made 2 from it. 3 and 4, which
    need 1, too, have not been assigned."""
    book = Playbook()
    client, first = book.client(), book.agent("first")
    client.says(
        nodes(client, 1, [[]], 5, rerun=rerun),
        nodes(client, 2, [[1]], 5),
        nodes(client, 3, [[1]], 5, True),
        nodes(client, 4, [[1]], 5, True),
    )
    first.says(done(client, 1), Withdrawn((TaskColumn(client.session, (2, 3, 4), (1, 1, 1)),), leaving=True))
    second = book.agent("second")
    key = ObjectKey(client.session, 1)
    second.says(ObjectRequest(key))
    first.says(ObjectChunk(key, 1, 0, b"v"))
    second.says(done(client, 2, attempt=2))
    return book, client, first, second


def lose_for_good(book: Playbook, lost: Peer, other: Peer) -> list:
    """The lost agent does not come back; the other one stays."""
    return book.lose(lost) + book.wait(3.0, (other,))


@pytest.mark.parametrize("rerun", [True, False])
def test_a_value_of_a_lost_agent_is_at_the_agent_that_has_a_copy(rerun: bool):
    book, client, first, second = two_readers(rerun=rerun)
    nodes_of = book.core.state.clients[client.session].table.nodes
    said = lose_for_good(book, first, second)
    assert handed(said, second) == [] and statuses(said, client) == {}
    assert nodes_of.value_holder(1) == book.core.state.agents[second.session].index and nodes_of.copies_of(1) == ()
    third = book.agent("third")
    key = ObjectKey(client.session, 1)
    assert third.says(ObjectRequest(key)) == [("second", ObjectRequest(key))]
    assert statuses(second.says(done(client, 3, 4, payload=b"r")), client) == {
        3: Status.SUCCESS,
        4: Status.SUCCESS,
    }


def test_a_copy_that_is_not_there_is_made_again():
    book, client, first, second = two_readers()
    lose_for_good(book, first, second)
    key = ObjectKey(client.session, 1)
    third = book.agent("third")
    third.says(ObjectRequest(key))
    missing = ObjectMissing(key, "gone")
    said = second.says(missing)
    assert ("third", replace(missing, is_made_again=True)) in said
    assert [task for peer in (second, third) for task in handed(said, peer)] == [(1, 2)]


def test_a_value_on_its_way_from_a_lost_agent_is_no_copy():
    book = Playbook()
    client, first = book.client(), book.agent("first")
    client.says(nodes(client, 1, [[]], 3), nodes(client, 2, [[1]], 3, True))
    first.says(done(client, 1), Withdrawn((TaskColumn(client.session, (2,), (1,)),), leaving=True))
    second = book.agent("second")
    second.says(ObjectRequest(ObjectKey(client.session, 1)))
    lose_for_good(book, first, second)
    nodes_of = book.core.state.clients[client.session].table.nodes
    assert nodes_of.value_holder(1) is None and nodes_of.copies_of(1) == ()


@pytest.mark.parametrize("direct", [True, False])
def test_a_client_gets_a_large_result_from_the_agent_that_has_a_copy(direct: bool):
    """``direct``: its host's store can fetch it. So it is told where the copy is, as it was to be told of the value."""
    book = Playbook()
    client, agent, other = book.client(), book.agent("holder"), book.agent("reader")
    said = client.says(tasks(client, 1, 1))
    holder, reader = (agent, other) if handed(said, agent) else (other, agent)
    key = ObjectKey(client.session, 1)
    holder.says(done(client, 1, status=Status.SUCCESS_LARGE, payload=LARGE_PAYLOAD))
    reader.says(ObjectRequest(key))
    holder.says(ObjectChunk(key, 1, 0, b"v"))
    request = ObjectRequest(key, relayed=not direct)
    assert (holder.name, request) in client.says(ObjectRequest(key, direct=direct))
    assert (reader.name, request) in lose_for_good(book, holder, reader)
    assert reader.says(ObjectChunk(key, 1, 0, b"v")) == [(client.name, ObjectChunk(key, 1, 0, b"v"))]
    said = client.says(ObjectRelease((key,)))
    assert {name for name, body in said if isinstance(body, ObjectRelease) and key in body.keys} == {reader.name}


def test_an_agent_that_has_not_the_value_it_should_have():
    book = Playbook()
    client, first = book.client(), book.agent("first")
    client.says(nodes(client, 1, [[]], 3), nodes(client, 2, [[1], [1]], 3, True))
    first.says(done(client, 1), Withdrawn((TaskColumn(client.session, (2,), (1,)),), leaving=True))
    second = book.agent("second")
    key = ObjectKey(client.session, 1)
    second.says(ObjectRequest(key))
    said = first.says(ObjectMissing(key, "gone"))
    assert ("second", ObjectMissing(key, "gone", is_made_again=True)) in said
    assert handed(said, second) == [(1, 2)]
    second.says(Withdrawn((TaskColumn(client.session, (2, 3), (2, 1)),)))
    assert book.core.explain(client.session, 3).startswith("Task 3 (f) waits for 1 of the 1")


def test_a_large_target_that_others_need_stays_until_both_are_done():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(nodes(client, 1, [[]], 2, True), nodes(client, 2, [[1]], 2, True))
    large = (1 << 20).to_bytes(8, "little")
    said = agent.says(done(client, 1, status=Status.SUCCESS_LARGE, payload=large))
    assert statuses(said, client) == {1: Status.SUCCESS_LARGE}
    assert freed(client.says(ObjectRelease((ObjectKey(client.session, 1),))), agent) == []
    said = agent.says(done(client, 2, payload=b"r"))
    assert sorted(freed(said, agent)) == [(1, 1), (2, 1)]


LARGE_PAYLOAD = (1 << 20).to_bytes(8, "little")


def test_a_graph_that_grows_frees_what_its_client_has_released():
    for grows in (True, False):
        book = Playbook()
        client, agent = book.client(), book.agent()
        client.says(nodes(client, 1, [[]], 9, True, grows=grows))
        agent.says(done(client, 1, status=Status.SUCCESS_LARGE, payload=LARGE_PAYLOAD))
        said = client.says(ObjectRelease((ObjectKey(client.session, 1),)))
        assert freed(said, agent) == ([(1, 1)] if grows else [])


def test_a_released_value_of_a_graph_that_grows_stays_while_nodes_need_it():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(nodes(client, 1, [[]], 9, True, grows=True))
    agent.says(done(client, 1, status=Status.SUCCESS_LARGE, payload=LARGE_PAYLOAD))
    said = client.says(nodes(client, 4, [[1]], 9, True, grows=True), ObjectRelease((ObjectKey(client.session, 1),)))
    assert freed(said, agent) == [] and handed(said, agent) == [(4, 1)]
    assert freed(agent.says(done(client, 4, payload=b"r")), agent) == [(1, 1)]


def test_a_cancel_of_its_number_closes_a_graph_that_grows():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(nodes(client, 1, [[]], 9, True, grows=True), nodes(client, 3, [[1]], 9, True, grows=True))
    said = agent.says(done(client, 1, 3, payload=b"r"))
    assert statuses(said, client) == {1: Status.SUCCESS, 3: Status.SUCCESS} and freed(said, agent) == []
    said = client.says(Cancel((TaskColumn(client.session, (9,)),)))
    assert sorted(freed(said, agent)) == [(1, 1), (3, 1)]
    assert book.core.state.clients[client.session].table.nodes.graphs == {}


def test_the_copies_of_a_large_result_are_released_with_it():
    book = Playbook()
    client, agent, other = book.client(), book.agent("holder"), book.agent("reader")
    said = client.says(tasks(client, 1, 1))
    holder, reader = (agent, other) if handed(said, agent) else (other, agent)
    key = ObjectKey(client.session, 1)
    holder.says(done(client, 1, status=Status.SUCCESS_LARGE, payload=LARGE_PAYLOAD))
    reader.says(ObjectRequest(key))
    said = client.says(ObjectRelease((key,)))
    told = {name for name, body in said if isinstance(body, ObjectRelease) and key in body.keys}
    assert told == {holder.name, reader.name}


def test_a_graph_in_several_messages_keeps_its_values_until_it_is_complete():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(nodes(client, 1, [[]], 3), nodes(client, 2, [[1]], 3))
    agent.says(done(client, 1))
    said = agent.says(done(client, 2))
    assert freed(said, agent) == []
    said = client.says(nodes(client, 3, [[1]], 3, True))
    assert handed(said, agent) == [(3, 1)] and freed(said, agent) == [(2, 1)]


def test_inputs_that_cannot_be_had():
    book = Playbook()
    client = book.client()
    said = client.says(nodes(client, 1, [[1], [7], [99]], 3, True))
    assert statuses(said, client) == dict.fromkeys((1, 2, 3), Status.OBJECT_MISSING)
    assert book.core.state.clients[client.session].table.columns.unfinished == 0


def test_a_cancelled_graph_leaves_nothing():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(nodes(client, 1, [[]] * 3, 5), nodes(client, 4, [[1, 2]], 5))
    said = client.says(Cancel((TaskColumn(client.session, (1, 2, 3, 4, 5)),)))  # before its last node was sent
    assert freed(said, agent) == [(1, 1), (2, 1)]
    agent.says(done(client, 1, 2, status=Status.CANCELLED))
    table = book.core.state.clients[client.session].table
    assert table.columns.unfinished == 0 and table.nodes.graphs == {}


def test_after_a_restart_held_values_are_not_made_again():
    book = Playbook(epoch=2)
    client = book.client()
    client.says(*chain(client, 4, resubmitted=True))
    agent = book.agent()
    agent.says(done(client, 2))
    said = book.wait(1.5, speaking=(agent,))
    assert handed(said, agent) == [(3, 1), (4, 1)]
    agent.says(done(client, 3))
    said = agent.says(done(client, 4, payload=b"r"))
    assert statuses(said, client) == {4: Status.SUCCESS}


def test_an_agent_that_comes_back_too_late_is_given_another_attempt_of_a_node_that_waits():
    """The answer to the Cancel of its old execution does not end the new one."""
    book = Playbook(epoch=2)
    client = book.client()
    client.says(*chain(client, 2, resubmitted=True))
    book.wait(1.5)
    agent = book.agent(holds=(TaskColumn(client.session, (2,), (1,)),))
    assert freed(agent.joined, agent) == [(2, 1)]
    assert handed(agent.joined, agent) == [(1, 1), (2, 2)]
    assert statuses(agent.says(done(client, 2, status=Status.CANCELLED)), client) == {}


def test_a_value_nobody_comes_back_for_is_freed():
    book = Playbook(epoch=2)
    agent = book.agent()
    ghost = Peer(book, "ghost", agent.role)
    agent.says(done(ghost, 5))
    assert freed(book.wait(1.5, speaking=(agent,)), agent) == [(5, 1)]


def test_random_graphs_with_failures_and_lost_agents_end():
    for seed in range(60):
        _play(random.Random(seed))


def _play(chance: random.Random) -> None:
    book = Playbook(per_worker_queue_size=chance.choice([2, 20, 1000]))
    client = book.client()
    count = chance.randint(2, 40)
    inputs = [
        chance.sample(range(1, task), min(task - 1, chance.randint(0, 3))) if task > 1 else []
        for task in range(1, count + 1)
    ]
    needed = {each for some in inputs for each in some}
    held: dict[str, list] = {}
    names = iter(range(10**6))
    agents = {}

    def join() -> None:
        agent = book.agent(f"agent{next(names)}", slots=chance.choice([1, 2]))
        agents[agent.name] = agent
        held[agent.name] = []
        take(agent.joined)

    ended: dict[int, Status] = {}

    def take(said: list) -> None:
        ended.update(statuses(said, client))
        for name, body in said:
            if name in held and isinstance(body, Tasks):
                held[name] += handed([(name, body)], agents[name])
            if name in held and isinstance(body, Cancel):
                answer_cancel(
                    name, [pair for column in body.columns for pair in zip(column.tasks, column.attempts, strict=True)]
                )

    def answer_cancel(name: str, pairs: list) -> None:
        mine = [pair for pair in pairs if pair in held[name]]
        held[name] = [pair for pair in held[name] if pair not in mine]
        if mine:
            rows = [(task, attempt, Status.CANCELLED, b"", 1, 1, 0) for task, attempt in mine]
            take(agents[name].says(Results([ResultRun(client.session, rows)])))

    join()
    for task in range(1, count + 1):
        some = inputs[task - 1]
        take(client.says(nodes(client, task, [some], count, task not in needed or task % 7 == 0)))
    fails = chance.random() < 0.3
    for _ in range(2000):
        table = book.core.state.clients[client.session].table
        if not table.columns.unfinished:
            break
        choice = chance.random()
        name = chance.choice(sorted(agents))
        if choice < 0.05 and len(agents) < 4:
            join()
        elif choice < 0.08 and len(agents) > 1:
            agent = agents.pop(name)
            del held[name]
            take(agent.says(Goodbye()))
        elif choice < 0.15 and held[name]:
            task, attempt = held[name].pop()
            take(agents[name].says(Withdrawn((TaskColumn(client.session, (task,), (attempt,)),))))
        elif held[name]:
            task, attempt = held[name].pop(0)
            status = Status.EXCEPTION if fails and chance.random() < 0.05 else Status.SUCCESS
            take(agents[name].says(done(client, task, attempt=attempt, payload=b"r", status=status)))
    assert not table.columns.unfinished and not table.nodes.graphs
    for task in range(1, count + 1):
        if task not in needed or task % 7 == 0:
            assert task in ended
            assert fails or ended[task] == Status.SUCCESS


def test_a_node_that_is_lost_with_the_value_it_needed_is_reported_behind_that_node():
    """Its client takes the first failure for the cause, so that must not be a cancel."""
    book = Playbook()
    client, maker = book.client(), book.agent("maker")
    reader = book.agent("reader", capabilities={"b": 1})
    client.says(
        nodes(client, 1, [[]], 2, rerun=False), nodes(client, 2, [[1]], 2, True, capabilities=(Capability("b", 1),))
    )
    assert handed(maker.says(done(client, 1)), reader) == [(2, 1)]
    book.core.on_peer_lost(maker.session, book.now)
    book.core.on_peer_lost(reader.session, book.now)
    assert list(statuses(book.wait(1.0), client).items()) == [(1, Status.WORKER_DIED), (2, Status.CANCELLED)]
