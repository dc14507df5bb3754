"""Peers that lie: each is refused what it asks for, and nobody else notices."""

from __future__ import annotations

import pytest

from scaler_protocol.codec import TaskRun
from scaler_protocol.messages import (
    Cancel,
    Capability,
    Clear,
    ObjectKey,
    RefusalReason,
    Refused,
    Status,
    TaskColumn,
    TaskOptions,
    Tasks,
)
from tests.unit.scheduler.playbook import FUNCTION, Peer, Playbook, handed, results, statuses, tasks
from tests.unit.scheduler.test_graphs import done, nodes


def refusals(said: list) -> list[tuple[str, RefusalReason]]:
    return [(name, body.reason) for name, body in said if isinstance(body, Refused)]


# ---- numbers of tasks ----------------------------------------------------------------------------------------------


def test_the_number_of_a_node_is_not_used_again():
    """Its graph still names it: what the graph does to its node would be done to another task, which has no graph."""
    book = Playbook()
    client, agent = book.client(), book.agent(slots=4)
    client.says(nodes(client, 1, [[]], 3), nodes(client, 2, [[1]], 3, True))
    client.says(Cancel((TaskColumn(client.session, (2,)),)))
    agent.says(done(client, 2, status=Status.CANCELLED))
    assert handed(client.says(tasks(client, 2, 1)), agent) == []
    client.says(Cancel((TaskColumn(client.session, (1,)),)))
    agent.says(done(client, 1, status=Status.CANCELLED))
    assert book.core.state.clients[client.session].table.columns.next_task == 3


def test_a_task_is_not_queued_twice_for_different_workers():
    """The queue of workers without the capability would take tasks that need it, and count those of others wrongly."""
    book = Playbook()
    liar, honest = book.client("liar"), book.client("honest")
    liar.says(tasks(liar, 1, 50))
    liar.says(Clear())
    liar.says(tasks(liar, 1, 50, capabilities=(Capability("gpu"),)))
    honest.says(tasks(honest, 1, 200))
    plain = book.agent("plain", slots=300)
    assert handed(plain.joined, plain) == [(task, 1) for task in range(1, 201)]
    assert statuses(plain.says(results(honest, *range(1, 201))), honest) == dict.fromkeys(range(1, 201), 0)
    assert book.core.state.placement.queued == 0


def test_a_message_that_was_sent_twice_is_taken_once():
    """A client that was interrupted while it sent may send its tasks again, with numbers that it has used."""
    book = Playbook()
    client, agent = book.client(), book.agent(slots=9)
    first = client.says(tasks(client, 1, 3))
    again = client.says(tasks(client, 1, 3))
    assert handed(first, agent) == [(1, 1), (2, 1), (3, 1)] and handed(again, agent) == []
    assert statuses(agent.says(results(client, 1, 2, 3)), client) == {1: 0, 2: 0, 3: 0}
    assert client.says(tasks(client, 1, 3)) == []


@pytest.mark.parametrize("resubmitted", [True, False])
def test_numbers_that_begin_among_used_ones_cost_the_session(resubmitted: bool):
    book = Playbook()
    liar, honest, agent = book.client("liar"), book.client("honest"), book.agent(slots=9)
    liar.says(tasks(liar, 1, 3))
    said = liar.says(Tasks(tasks(liar, 3, 3).runs, resubmitted=resubmitted))
    assert refusals(said) == [("liar", RefusalReason.MALFORMED)]
    assert handed(honest.says(tasks(honest, 1, 1)), agent) == [(1, 1)]


def test_a_session_that_begins_anew_may_state_its_tasks_again():
    book = Playbook()
    client, agent = book.client(), book.agent(slots=9)
    client.says(tasks(client, 1, 2))
    client.epoch = 0
    client.connect()
    client.says(Tasks(tasks(client, 1, 2).runs, resubmitted=True))
    assert handed(book.wait(1.3, (agent,)), agent) == [(1, 1), (2, 1)]


# ---- graphs --------------------------------------------------------------------------------------------------------


def lonely_node(client: Peer, task: int, last: int) -> Tasks:
    options = TaskOptions(intermediate=True, graph=last & 0xFFFFFFFF)
    return Tasks([TaskRun(client.session, FUNCTION, "f", b"", task, 1, (), options, [[b""]])])


def test_gaps_in_a_graph_cost_next_to_no_memory():
    """Eight messages of 300 bytes took 900 MB."""
    book = Playbook()
    client = book.client()
    first, step = 1, 1 << 19
    for index in range(8):
        client.says(lonely_node(client, first + index * step, 1 << 30))
    table = book.core.state.clients[client.session].table
    assert len(table.nodes.graphs) == 1 and table.columns.unfinished == 8
    assert table.columns.held_bytes < 1_000_000


def test_the_gaps_of_a_graph_have_a_limit_together():
    book = Playbook()
    client = book.client()
    said = []
    for index in range(20):
        said += client.says(lonely_node(client, 1 + index * (1 << 20), 1 << 30))
    table = book.core.state.clients[client.session].table
    [graph] = table.nodes.graphs.values()
    assert graph.absent <= 1 << 22
    assert table.columns.unfinished == 5


def test_a_node_cannot_name_a_task_that_is_no_node_of_its_graph():
    book = Playbook()
    client, agent = book.client(), book.agent(slots=4)
    client.says(tasks(client, 1, 1))
    said = client.says(nodes(client, 2, [[1]], 3))
    assert statuses(said, client) == {2: Status.OBJECT_MISSING}
    assert statuses(agent.says(results(client, 1)), client) == {1: Status.SUCCESS}


def test_a_node_cannot_name_itself_or_a_later_one():
    book = Playbook()
    client = book.client()
    book.agent(slots=4)
    slots = [[ObjectKey(client.session, 2)], [ObjectKey(client.session, 2)], [ObjectKey(client.session, 9)]]
    options = TaskOptions(graph=9)
    run = TaskRun(client.session, FUNCTION, "f", b"", 1, 1, (), options, slots)
    assert statuses(client.says(Tasks([run])), client) == dict.fromkeys((1, 2, 3), Status.OBJECT_MISSING)
