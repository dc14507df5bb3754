"""Clients hear what workers run with."""

from __future__ import annotations

from dataclasses import replace

from scaler_protocol.messages import Goodbye, HostSoftware, Role
from scaler_scheduler.core.software_table import KINDS_LIMIT
from tests.unit.scheduler.playbook import Playbook

SOFTWARE = HostSoftware("vm-1", "3.12.1", "x86_64-v3", ("numpy 2.1.0",))
ON_ANOTHER_HOST = replace(SOFTWARE, host="vm-2")
OTHER = replace(SOFTWARE, host="vm-3", packages=("numpy 1.26.4",))


def test_a_client_that_connects_hears_of_each_kind_once() -> None:
    book = Playbook()
    for name, software in ("a", SOFTWARE), ("b", ON_ANOTHER_HOST), ("c", OTHER):
        assert book.agent(name).says(software) == []
    peer = book._peer("client", Role.SUBMIT, None)
    assert peer.connect() == [("client", SOFTWARE), ("client", OTHER)]


def test_clients_hear_of_a_new_kind() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent()
    assert agent.says(SOFTWARE) == [(client.name, SOFTWARE)]
    assert book.agent("b").says(ON_ANOTHER_HOST) == []


def test_an_agent_that_is_gone_counts_no_more() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent()
    agent.says(SOFTWARE)
    agent.says(Goodbye())
    assert book.agent("b").says(ON_ANOTHER_HOST) == [(client.name, ON_ANOTHER_HOST)]


def test_the_first_report_of_an_agent_counts() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent()
    assert agent.says(SOFTWARE, OTHER, OTHER) == [(client.name, SOFTWARE)]


def test_clients_do_not_hear_of_many_kinds() -> None:
    book = Playbook()
    book.client()
    kinds = [replace(SOFTWARE, machine=f"machine-{number}") for number in range(KINDS_LIMIT + 5)]
    said = [each for number, kind in enumerate(kinds) for each in book.agent(f"agent-{number}").says(kind)]
    assert [body for _, body in said] == kinds[:KINDS_LIMIT]
    late = book._peer("late", Role.SUBMIT, None)
    assert [body for _, body in late.connect()] == kinds[:KINDS_LIMIT]


def test_old_clients_and_clients_inside_tasks_do_not_hear_of_it() -> None:
    book = Playbook()
    agent = book.agent()
    agent.says(SOFTWARE)
    assert book._peer("old", Role.SUBMIT, None).connect(minor=3) == []
    inside = book._peer("inside", Role.SUBMIT, agent)
    assert inside.connect(parent_session=b"p" * 16, parent_task=1, parent_attempt=1) == []


def test_a_report_that_no_agent_makes_is_not_passed_on() -> None:
    book = Playbook()
    book.client()
    assert book.agent().says(replace(SOFTWARE, packages=("x" * 100,) * 100)) == []
    assert not list(book.core.state.software.kinds())
