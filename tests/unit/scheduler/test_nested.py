"""Clients inside tasks, relayed by their agents."""

from __future__ import annotations

from scaler_protocol.messages import Blocked, Cancel, Goodbye, RelayClosed, Status, TaskColumn, Welcome, Withdrawn
from tests.unit.scheduler.playbook import Playbook, handed, results, statuses, tasks


def nested(book, agent, parent, task, attempt=1, name="child"):
    child = book.client(name, via=agent, parent_session=parent.session, parent_task=task, parent_attempt=attempt)
    assert isinstance(child.welcome, Welcome)
    return child


def with_child():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 1))
    return book, client, agent, nested(book, agent, client, 1)


def test_one_slot_is_enough_for_a_task_that_waits_for_another():
    book, client, agent, child = with_child()
    agent.says(Blocked(1, 0))
    said = child.says(tasks(child, 1, 1))
    assert handed(said, agent) == [(1, 1)]
    assert said[0][1].runs[0].options.depth == 1
    assert statuses(agent.says(results(child, 1)), child) == {1: Status.SUCCESS}
    assert statuses(agent.says(results(client, 1)), client) == {1: Status.SUCCESS}


def test_deeper_tasks_pass_shallower_ones_that_were_handed_out_before():
    book, client, agent, child = with_child()
    client.says(tasks(client, 2, 100))
    agent.says(Blocked(1, 0))
    assert handed(child.says(tasks(child, 1, 1)), agent) == [(1, 1)]


def test_children_of_a_cancelled_parent_are_cancelled():
    book, client, agent, child = with_child()
    child.says(tasks(child, 1, 1))
    said = client.says(Cancel((TaskColumn(client.session, (1,)),)))
    columns = said[0][1].columns
    assert {column.session: column.tasks for column in columns} == {client.session: (1,), child.session: (1,)}


def test_children_of_a_parent_whose_processor_died_are_cancelled_and_the_parent_runs_again():
    book, client, agent, child = with_child()
    child.says(tasks(child, 1, 1))
    said = agent.says(RelayClosed(child.session), results(client, (1, 1, Status.PROCESSOR_DIED, b"{}")))
    assert ("agent", Cancel((TaskColumn(child.session, (1,), (1,)),))) in said
    assert handed(said, agent) == [(1, 2)]
    agent.says(results(child, (1, 1, Status.CANCELLED, b"")))
    book.wait(1.0, (agent,))
    assert child.session not in book.core.clients


def test_children_of_a_lost_parent_are_cancelled():
    book, client, agent, child = with_child()
    other = book.agent("other")
    child.says(tasks(child, 1, 1))
    book.lose(agent)
    said = book.wait(1.0, (other,))
    assert ("other", Cancel((TaskColumn(child.session, (1,), (1,)),))) in said


def test_children_that_a_finished_parent_did_not_wait_for_go_on():
    book, client, agent, child = with_child()
    child.says(tasks(child, 1, 2))
    agent.says(results(client, 1))
    agent.says(RelayClosed(child.session))
    agent.says(results(child, 1))
    assert book.core.clients[child.session].table.unfinished == 1
    agent.says(results(child, 2))
    book.wait(1.0, (agent,))
    assert child.session not in book.core.clients


def test_children_end_with_their_root_client():
    book, client, agent, child = with_child()
    child.says(tasks(child, 1, 1))
    said = client.says(Goodbye())
    assert len(said[0][1].columns) == 2


def test_a_withdrawn_parent_has_no_children():
    book, client, agent, child = with_child()
    said = agent.says(Withdrawn((TaskColumn(client.session, (1,), (1,)),)))
    assert handed(said, agent) == [(1, 2)]


def test_grandchildren_are_deeper_still():
    book, client, agent, child = with_child()
    agent.says(Blocked(1, 0))
    child.says(tasks(child, 1, 1))
    grandchild = nested(book, agent, child, 1, name="grandchild")
    agent.says(Blocked(2, 1))
    said = grandchild.says(tasks(grandchild, 1, 1))
    assert said[0][1].runs[0].options.depth == 2
