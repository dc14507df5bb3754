"""Clients ask for the stacks of tasks, and agents answer."""

from __future__ import annotations

from typing import Any

import pytest

from scaler_protocol.messages import PROTOCOL_MINOR, Goodbye, Heartbeat, RunningTask, StackReply, StackRequest
from scaler_scheduler.core import stack_table, stacks
from scaler_scheduler.core.stacks import ANSWER_SECONDS
from tests.unit.scheduler.playbook import Peer, Playbook, results, tasks

OWN = bytes(16)


def give_key(book: Playbook, peer: Peer, user: bytes) -> None:
    """The peer has connected with this key."""
    state = book.core.state
    (state.clients.get(peer.session) or state.agents[peer.session]).user = user


def test_the_agent_of_the_task_answers() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 1))
    assert client.says(StackRequest(7, OWN, 1)) == [(agent.name, StackRequest(1, client.session, 1))]
    assert agent.says(StackReply(1, True, "File")) == [(client.name, StackReply(7, True, "File"))]
    assert agent.says(StackReply(1, True, "File")) == []


def test_a_task_that_does_not_run_is_explained() -> None:
    book = Playbook()
    client = book.client()
    client.says(tasks(client, 1, 1))
    ((name, reply),) = client.says(StackRequest(7, OWN, 1))
    assert name == client.name and not reply.is_found
    assert reply.text.startswith("Cannot show the stack: Task 1 ") and "no worker" in reply.text


def test_a_task_that_has_ended_is_not_known() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 1))
    agent.says(results(client, 1))
    ((_, reply),) = client.says(StackRequest(7, OWN, 1))
    assert not reply.is_found


def test_the_tasks_of_others_are_not_shown() -> None:
    book = Playbook()
    client, other, _ = book.client(), book.client("other"), book.agent()
    client.says(tasks(client, 1, 1))
    ((_, reply),) = other.says(StackRequest(7, client.session, 1))
    assert not reply.is_found and "is not known here" in reply.text


@pytest.mark.parametrize("name", ["agent", "nobody"])
def test_a_worker_that_is_not_known(name: str) -> None:
    book = Playbook()
    client, _ = book.client(), book.agent()
    ((_, reply),) = client.says(StackRequest(7, OWN, 0, name))
    assert reply == StackReply(
        7, False, f"Cannot show the stack: no worker has the name {name!r}. The monitors show the names."
    )


def test_a_worker_by_name() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent()
    (worker,) = book.core.state.agents[agent.session].worker_names[:1]
    assert client.says(StackRequest(7, OWN, 0, worker)) == [(agent.name, StackRequest(1, client.session, 0, worker))]


def test_the_process_of_a_nested_task_that_runs_by_name() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent()
    workers = len(book.core.state.agents[agent.session].worker_names)
    running = RunningTask(client.session, 1, 1, workers, 7, 0.0, 0.0, 0.0, 0, False)
    agent.says(Heartbeat(50.0, 0.0, 0.0, 0, 0, 0, (), (running,)))
    name = f"{agent.name} nested 1"
    assert client.says(StackRequest(7, OWN, 0, name)) == [(agent.name, StackRequest(1, client.session, 0, name))]
    ((_, reply),) = client.says(StackRequest(8, OWN, 0, f"{agent.name} nested 2"))
    assert not reply.is_found and "no worker has the name" in reply.text


def test_with_keys_operators_alone_ask_for_workers() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent()
    (worker,) = book.core.state.agents[agent.session].worker_names[:1]
    give_key(book, client, b"submit:alice")
    ((_, reply),) = client.says(StackRequest(7, OWN, 0, worker))
    assert not reply.is_found and "Use admin.key" in reply.text


def test_an_agent_that_does_not_answer() -> None:
    book = Playbook()
    client, _ = book.client(), book.agent()
    client.says(tasks(client, 1, 1))
    client.says(StackRequest(7, OWN, 1))
    said = book.wait(ANSWER_SECONDS + 1)
    assert [body.text for name, body in said if isinstance(body, StackReply)] == [
        "Cannot show the stack: the agent did not answer. It may be overloaded or lost."
    ]


def test_an_old_agent_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "CONTROL_SINCE_MINOR", PROTOCOL_MINOR + 1)
    book = Playbook()
    client, _ = book.client(), book.agent()
    client.says(tasks(client, 1, 1))
    ((_, reply),) = client.says(StackRequest(7, OWN, 1))
    assert "is too old. Update scaler-worker there" in reply.text


def test_a_client_that_has_left_is_not_told() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 1))
    client.says(StackRequest(7, OWN, 1))
    client.says(Goodbye())
    assert not [body for _, body in agent.says(StackReply(1, True, "File")) if isinstance(body, StackReply)]


def test_requests_that_wait_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_table, "WAITING_LIMIT", 7)
    monkeypatch.setattr(stack_table, "CLIENT_LIMIT", 5)
    book = Playbook()
    first, second, agent = book.client("first"), book.client("second"), book.agent()
    for client in (first, second):
        client.says(tasks(client, 1, 1))
    assert refusals([each for number in range(7) for each in first.says(StackRequest(number, OWN, 1))]) == 2
    assert refusals([each for number in range(7) for each in second.says(StackRequest(number, OWN, 1))]) == 5
    agent.says(StackReply(1, True, "File"))
    assert not refusals(first.says(StackRequest(9, OWN, 1)))
    book.wait(ANSWER_SECONDS + 1)
    assert not refusals([each for number in range(5) for each in first.says(StackRequest(number, OWN, 1))])


def refusals(said: list[Any]) -> int:
    return sum("too many requests" in body.text for _, body in said if isinstance(body, StackReply))
