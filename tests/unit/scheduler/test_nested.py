"""Clients inside tasks, relayed by their agents."""

from __future__ import annotations

import pytest

from scaler_protocol.messages import (
    Blocked,
    Cancel,
    Goodbye,
    RelayClosed,
    Role,
    Status,
    TaskColumn,
    TaskName,
    Tasks,
    Welcome,
    Withdrawn,
)
from scaler_scheduler.core.states import TaskState
from tests.unit.scheduler.playbook import Playbook, handed, results, run, statuses, tasks


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


@pytest.mark.parametrize("is_relayed", [True, False])
def test_children_of_a_parent_that_is_stopped_at_its_limit_are_cancelled(is_relayed):
    """A client on one of Symphony's hosts is not relayed by its agent."""
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 1))
    child = nested(book, agent if is_relayed else None, client, 1)
    child.says(tasks(child, 1, 1))
    said = agent.says(results(client, (1, 1, Status.TIMED_OUT, b"")))
    assert ("agent", Cancel((TaskColumn(child.session, (1,), (1,)),))) in said or statuses(said, child) == {
        1: Status.CANCELLED
    }


def test_clients_nested_deeper_than_the_stack_are_cancelled_with_their_root(monkeypatch):
    """Any client may say that it lives in a task of another."""
    book = Playbook()
    monkeypatch.setattr(book.core, "check", lambda: None)  # it looks at everybody at each step
    chain = [book.client()]
    for number in range(1200):
        parent = {"parent_session": chain[-1].session, "parent_task": 1, "parent_attempt": 1}
        chain.append(book.client(f"nested {number}", **parent))
        chain[-1].says(tasks(chain[-1], 1, 1))
    chain[0].says(Goodbye())
    assert all(client.table.columns.unfinished == 0 for client in book.core.state.clients.values())
    assert len(book.core.state.clients) == 1200


def test_children_of_a_parent_whose_processor_died_are_cancelled_and_the_parent_runs_again():
    book, client, agent, child = with_child()
    child.says(tasks(child, 1, 1))
    said = agent.says(RelayClosed(child.session), results(client, (1, 1, Status.PROCESSOR_DIED, b"{}")))
    assert ("agent", Cancel((TaskColumn(child.session, (1,), (1,)),))) in said
    assert handed(said, agent) == [(1, 2)]
    agent.says(results(child, (1, 1, Status.CANCELLED, b"")))
    book.wait(1.0, (agent,))
    assert child.session not in book.core.state.clients


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
    assert book.core.state.clients[child.session].table.columns.unfinished == 1
    agent.says(results(child, 2))
    book.wait(1.0, (agent,))
    assert child.session not in book.core.state.clients


def tasks_in(child, parent, task, first, count=1, attempt=1):
    """What a session says that now lives in another task."""
    return Tasks([run(child, first, count)], parent=TaskName(parent.session, task, attempt))


def test_a_session_goes_from_task_to_task():
    book, client, agent, child = with_child()
    agent.says(Blocked(1, 0))
    child.says(tasks(child, 1, 1))
    agent.says(results(child, 1), results(client, 1), Blocked(0, 0))
    client.says(tasks(client, 2, 1))
    agent.says(Blocked(1, 0))
    assert handed(child.says(tasks_in(child, client, 2, 2)), agent) == [(2, 1)]
    said = client.says(Cancel((TaskColumn(client.session, (2,)),)))
    stopped = {column.session: column.tasks for column in said[0][1].columns}
    assert stopped == {client.session: (2,), child.session: (2,)}


def test_a_session_in_a_deeper_task_submits_deeper_tasks():
    book, client, agent, child = with_child()
    other = nested(book, agent, client, 1, name="other")
    agent.says(Blocked(1, 0))
    child.says(tasks(child, 1, 1))
    agent.says(Blocked(2, 1))
    said = other.says(tasks_in(other, child, 1, 1))
    assert said[0][1].runs[0].options.depth == 2


def test_what_a_session_left_behind_ends_with_the_client_it_was_left_for():
    """A finished child did not wait for a grandchild; its session lives in a task of another client by now."""
    book, client, agent, child = with_child()
    child.says(tasks(child, 1, 1))
    grandchild = nested(book, agent, child, 1, name="grandchild")
    grandchild.says(tasks(grandchild, 1, 1))
    agent.says(results(child, 1), results(client, 1))
    stranger = book.client("stranger")
    stranger.says(tasks(stranger, 1, 1))
    child.says(tasks_in(child, stranger, 1, 2))
    said = stranger.says(Goodbye())
    assert grandchild.session not in {column.session for column in said[0][1].columns}
    said = client.says(Goodbye())
    assert said[0][1].columns == (TaskColumn(grandchild.session, (1,), (1,)),)


def test_a_session_outlives_the_cancelled_task_it_lived_in():
    book, client, agent, child = with_child()
    child.says(tasks(child, 1, 2))
    client.says(Cancel((TaskColumn(client.session, (1,)),)))
    rows = [(task, 1, Status.CANCELLED, b"") for task in (1, 2)]
    said = agent.says(results(child, *rows), results(client, (1, 1, Status.CANCELLED, b"")))
    assert statuses(said, child) == {1: Status.CANCELLED, 2: Status.CANCELLED}
    client.says(tasks(client, 2, 1))
    assert handed(child.says(tasks_in(child, client, 2, 3)), agent) == [(3, 1)]


def test_what_a_cancelled_task_still_submits_is_cancelled():
    book, client, agent, child = with_child()
    client.says(Cancel((TaskColumn(client.session, (1,)),)))
    assert statuses(child.says(tasks(child, 1, 3)), child) == dict.fromkeys((1, 2, 3), Status.CANCELLED)


def test_what_an_earlier_attempt_still_submits_is_cancelled():
    book, client, agent, child = with_child()
    agent.says(results(client, (1, 1, Status.PROCESSOR_DIED, b"{}")))
    assert statuses(child.says(tasks(child, 1, 1)), child) == {1: Status.CANCELLED}


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


def test_what_a_running_task_may_wait_for_passes_the_bound_of_the_queue():
    """Otherwise the task occupies its worker for ever: its own tasks are behind those that wait for a worker."""
    book = Playbook(max_number_of_tasks_waiting=2)
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 20))
    assert book.core.state.placement.queued <= 2
    child = nested(book, agent, client, 1)
    agent.says(Blocked(1, 0))
    assert (1, 1) in handed(child.says(tasks(child, 1, 3)), agent)
    grandchild = nested(book, agent, child, 1, name="grandchild")
    agent.says(Blocked(2, 1))
    assert (1, 1) in handed(grandchild.says(tasks(grandchild, 1, 5)), agent)
    assert book.core.state.placement.queued > 2


def test_what_no_running_task_waits_for_does_not_pass_the_bound():
    book = Playbook(max_number_of_tasks_waiting=2)
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 20))
    child = nested(book, agent, client, 1)
    agent.says(results(client, 1, duration_us=10_000_000))
    assert handed(child.says(tasks(child, 1, 3)), agent) == []
    assert book.core.state.clients[child.session].table.columns.count(TaskState.WAITING) == 3


def test_clients_outside_a_full_queue_enter_it_in_turn():
    book = Playbook(max_number_of_tasks_waiting=1)
    flood, other = book.client("flood"), book.client("other")
    for task in range(1, 40):
        flood.says(tasks(flood, task, 1))
    other.says(tasks(other, 1, 1))
    agent = book.agent()
    given = handed(agent.joined, agent)
    for _ in range(3):
        given += handed(agent.says(results(flood, given[-1][0], duration_us=10_000_000)), agent)
        given += handed(agent.says(results(other, 1, duration_us=10_000_000)), agent)
    assert book.core.state.clients[other.session].table.columns.unfinished == 0
    assert book.core.state.clients[flood.session].table.columns.unfinished > 30


def test_a_parent_that_says_hello_twice_keeps_its_children():
    """After a restart of the scheduler: it was cut off before it heard the first Welcome, and a client inside one of
    its tasks came back meanwhile."""
    book = Playbook(epoch=2)
    parent, agent = book._peer("client", Role.SUBMIT), book.agent()
    parent.epoch = 1
    book.deaf.add("client")
    parent.connect()
    child = nested(book, agent, parent, 1)
    said = child.says(tasks(child, 1, 1))
    assert handed(said, agent) == [(1, 1)]
    book.deaf.clear()
    assert parent.connect() == []
    assert statuses(agent.says(results(child, 1)), child) == {1: Status.SUCCESS}
    parent.says(tasks(parent, 1, 1))
    assert book.core.state.clients[parent.session].table.columns.unfinished == 1
