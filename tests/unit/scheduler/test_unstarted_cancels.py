"""Cancels that spare what has started: the scheduler ends what no agent has, and asks the agents of the rest."""

from __future__ import annotations

from scaler_protocol.messages import PROTOCOL_MINOR, Cancel, CancelRefused, Status, TaskColumn, Withdrawn
from scaler_scheduler.core import unstarted_cancels
from tests.unit.scheduler.playbook import Playbook, handed, results, statuses, tasks


def cancel(client, *numbers, attempts=()):
    return Cancel((TaskColumn(client.session, numbers, attempts),), unstarted_only=True)


def refused(client, *numbers, attempts=(), moved=False):
    return CancelRefused((TaskColumn(client.session, numbers, attempts),), moved)


def to_client(said):
    return [body for name, body in said if name == "client"]


def test_tasks_without_an_agent_are_cancelled_at_once():
    book = Playbook()
    client = book.client()
    client.says(tasks(client, 1, 3))
    assert statuses(client.says(cancel(client, 2)), client) == {2: Status.CANCELLED}
    agent = book.agent(slots=9)
    assert handed(agent.joined, agent) == [(1, 1), (3, 1)]


def test_the_agent_of_a_task_is_asked_and_its_result_ends_the_task():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 1))
    assert client.says(cancel(client, 1)) == [("agent", cancel(client, 1, attempts=(1,)))]
    said = agent.says(results(client, (1, 1, Status.CANCELLED, b"")))
    assert statuses(said, client) == {1: Status.CANCELLED}


def test_a_task_that_has_started_continues_and_its_client_is_told():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 1))
    client.says(cancel(client, 1))
    said = agent.says(refused(client, 1, attempts=(1,)))
    assert to_client(said) == [refused(client, 1)]
    assert statuses(agent.says(results(client, 1)), client) == {1: Status.SUCCESS}


def test_a_task_that_was_withdrawn_meanwhile_has_moved():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 1))
    client.says(cancel(client, 1))
    agent.says(Withdrawn((TaskColumn(client.session, (1,), (1,)),), True))
    assert to_client(agent.says(refused(client, 1, attempts=(1,)))) == [refused(client, 1, moved=True)]
    assert statuses(client.says(cancel(client, 1)), client) == {1: Status.CANCELLED}


def test_tasks_that_are_unknown_or_being_cancelled_are_refused():
    book = Playbook()
    client, _ = book.client(), book.agent()
    client.says(tasks(client, 1, 1))
    client.says(Cancel((TaskColumn(client.session, (1,)),)))
    assert to_client(client.says(cancel(client, 1, 77))) == [refused(client, 1, 77)]


def test_agents_of_older_versions_are_not_asked(monkeypatch):
    book = Playbook()
    client, _ = book.client(), book.agent()
    client.says(tasks(client, 1, 1))
    monkeypatch.setattr(unstarted_cancels, "UNSTARTED_ONLY_SINCE_MINOR", PROTOCOL_MINOR + 1)
    assert client.says(cancel(client, 1)) == [("client", refused(client, 1))]


def test_the_tasks_of_others_are_left_alone():
    book = Playbook()
    client, other = book.client(), book.client("other")
    client.says(tasks(client, 1, 1))
    assert other.says(cancel(client, 1)) == []
    assert "queued" in book.core.explain(client.session, 1)
