"""No single peer takes so much of the scheduler that the others are left without."""

from __future__ import annotations

import pytest

from scaler_protocol.codec import TaskRun
from scaler_protocol.ids import digest
from scaler_protocol.messages import (
    Capability,
    ClusterInfoReply,
    ClusterInfoRequest,
    CoordinationKind,
    ExplainRequest,
    FunctionDefinition,
    NamedAction,
    NamedRequest,
    ObjectChunk,
    ObjectKey,
    Refused,
    Status,
    TaskOptions,
    Tasks,
)
from scaler_scheduler.core import limit_checks
from scaler_scheduler.core.effects import Describe, Send
from tests.unit.scheduler.playbook import FUNCTION, Peer, Playbook, handed, results, statuses, tasks

MEBIBYTE = 1 << 20


def refused(said: list) -> dict[str, str]:
    return {name: body.text for name, body in said if isinstance(body, Refused)}


def others_notice_nothing(book: Playbook, honest: Peer, first: int) -> None:
    agent = book.agent(f"agent {first}", slots=4)
    said = honest.says(tasks(honest, first, 2))
    assert handed([*agent.joined, *said], agent)[-2:] == [(first, 1), (first + 1, 1)]
    assert statuses(agent.says(results(honest, first, first + 1)), honest) == {first: 0, first + 1: 0}


def test_a_client_has_a_share_of_the_memory_for_its_tasks():
    book = Playbook(client_memory_bytes=MEBIBYTE)
    greedy, honest = book.client("greedy"), book.client("honest")
    for first in range(1, 3000):
        greedy.says(tasks(greedy, first * 2000, 1))
    said = book.wait(0.5)
    assert "1 MiB" in refused(said)["greedy"] and "honest" not in refused(said)
    assert greedy.session not in book.core.state.clients
    others_notice_nothing(book, honest, 1)


def test_functions_and_objects_are_part_of_that_share():
    book = Playbook(client_memory_bytes=MEBIBYTE)
    greedy, other, honest = book.client("greedy"), book.client("other"), book.client("honest")
    for index in range(50):
        pickle = bytes([index]) * 30_000
        greedy.says(Tasks([], [FunctionDefinition(digest(pickle), "f", pickle, len(pickle))]))
    for index in range(4):
        size = 300_000
        other.says(ObjectChunk(ObjectKey(other.session, 2**64 - 1 - index), size, 0, bytes(size)))
    assert refused(book.wait(0.5)).keys() == {"greedy", "other"}
    assert not book.core.state.objects.held_bytes
    others_notice_nothing(book, honest, 1)


def test_what_ended_is_no_part_of_the_share():
    book = Playbook(client_memory_bytes=MEBIBYTE)
    client, agent = book.client(), book.agent(slots=4)
    for first in range(1, 3000):
        client.says(tasks(client, first * 2000, 1))
        agent.says(results(client, first * 2000))
    assert refused(book.wait(0.5, (agent,))) == {}


@pytest.fixture
def low_limits(monkeypatch):
    monkeypatch.setattr(limit_checks, "UNREAD_MESSAGES_LIMIT", 20)
    monkeypatch.setattr(limit_checks, "DEMANDS_LIMIT", 10)
    monkeypatch.setattr(limit_checks, "IDLE_SESSIONS_LIMIT", 5)
    monkeypatch.setattr(limit_checks, "NESTED_SESSIONS_LIMIT", 3)


def test_a_client_that_asks_and_reads_no_answers_is_ended(low_limits):
    book = Playbook()
    deaf, honest = book.client("deaf"), book.client("honest")
    book.deaf.add("deaf")
    for _ in range(30):
        deaf.says(ExplainRequest(1))
    book.deaf.clear()
    assert "not acknowledged" in [*refused(book.wait(0.5)).values(), *book.logs][-1]
    assert deaf.session not in book.core.state.clients
    others_notice_nothing(book, honest, 1)


def test_answers_that_a_client_does_not_acknowledge_are_part_of_its_share():
    """A value that is taken from a queue counts neither for the queue nor for its limit any more."""
    book = Playbook(client_memory_bytes=MEBIBYTE)
    book.wait(3.0)  # requests are held for a while after a start
    deaf, honest = book.client("deaf"), book.client("honest")
    book.deaf.add("deaf")
    for number in range(1, 200, 2):
        deaf.says(named(NamedAction.PUT, number, bytes(20_000)), named(NamedAction.TAKE, number + 1))
    book.wait(0.5)
    assert any("more than 1 MiB" in line for line in book.logs)
    assert deaf.session not in book.core.state.clients and not book.core.state.named.size_bytes
    others_notice_nothing(book, honest, 1)


def named(action: NamedAction, number: int, value: bytes = b"") -> NamedRequest:
    return NamedRequest(CoordinationKind.QUEUE, action, number, "name", value)


def test_tasks_that_an_agent_does_not_acknowledge_are_limited():
    """It returns their results, so that they count for their client no longer."""
    book = Playbook(client_memory_bytes=MEBIBYTE)
    client, deaf = book.client(), book.agent("deaf", slots=4)
    book.deaf.add("deaf")
    for first in range(1, 60):
        run = TaskRun(client.session, FUNCTION, "f", b"", first, 1, (), TaskOptions(), [[bytes(30_000)]])
        client.says(Tasks([run]))
        deaf.says(results(client, first))
    book.wait(0.5)
    assert any("more than 1 MiB of messages" in line for line in book.logs)
    assert deaf.session not in book.core.state.agents
    others_notice_nothing(book, client, 100)


def test_queues_that_no_task_needs_are_forgotten(low_limits):
    """Each agent is compared with each of them."""
    book = Playbook()
    client = book.client()
    agent = book.agent("able", slots=1, capabilities={f"c{index}": 1 for index in range(30)})
    for index in range(1, 31):
        client.says(tasks(client, index, 1, capabilities=(Capability(f"c{index - 1}", 1),)))
        agent.says(results(client, index))
    assert len(book.core.state.placement.classes) >= 30
    assert refused(book.wait(0.5, (agent,))) == {}
    assert len(book.core.state.placement.classes) <= 1
    said = client.says(tasks(client, 31, 1, capabilities=(Capability("c29", 1),)))
    assert handed(said, agent) == [(31, 1)]
    others_notice_nothing(book, client, 32)


def test_the_client_with_most_combinations_of_capabilities_is_ended(low_limits):
    book = Playbook()
    greedy, honest = book.client("greedy"), book.client("honest")
    honest.says(tasks(honest, 1, 1, capabilities=(Capability("rare", 1),)))
    for index in range(1, 31):
        greedy.says(tasks(greedy, index, 1, capabilities=(Capability(f"c{index}", 1),)))
    assert refused(book.wait(0.5)).keys() == {"greedy"}
    assert len(book.core.state.placement.classes) <= 10 + 20
    book.wait(0.5)
    able = book.agent("able", capabilities={"rare": 1})
    assert handed(able.joined, able) == [(1, 1)]
    assert statuses(able.says(results(honest, 1)), honest) == {1: Status.SUCCESS}


def test_an_agent_has_a_limited_number_of_nested_clients(low_limits):
    book = Playbook()
    bad, honest = book.agent("bad"), book.client("honest")
    for index in range(5):
        book.client(f"nested {index}", via=bad)
    assert refused(book.wait(0.5, (bad,))).keys() == {"bad"}
    book.wait(0.5)
    assert book.core.state.clients.keys() == {honest.session}
    others_notice_nothing(book, honest, 1)


def test_one_description_of_the_cluster_answers_all_who_ask_at_a_time():
    book = Playbook()
    client = book.client()
    core = book.core
    described = 0
    for _ in range(50):
        core.on_message(client.session, client.link.wrap(ClusterInfoRequest()), book.now)
        for effect in core.take_effects(book.now):
            if isinstance(effect, Describe):
                described += 1
                core.on_described(b"snapshot", book.now)
            else:
                client.hears(effect.envelope)
    assert described == 1
    answers = [body for _, body in client.says(ClusterInfoRequest()) if isinstance(body, ClusterInfoReply)]
    assert [bytes(body.snapshot) for body in answers] == [b"snapshot"] * len(answers) and answers


def test_requests_that_come_while_a_description_is_made_get_it_too():
    """Many requests may come in one turn."""
    book = Playbook()
    core, clients = book.core, [book.client("one"), book.client("two")]
    for client in clients * 100:
        core.on_message(client.session, client.link.wrap(ClusterInfoRequest()), book.now)
    effects = core.take_effects(book.now)
    assert [effect for effect in effects if not isinstance(effect, Send)] == [Describe()]
    core.on_described(b"snapshot", book.now)
    said = [body for _, body in book.run() if isinstance(body, ClusterInfoReply)]
    assert [bytes(body.snapshot) for body in said] == [b"snapshot"] * 200


def test_what_an_agent_tells_of_a_death_is_kept_only_if_it_is_short():
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 1))
    for attempt in (1, 2, 3):
        said = agent.says(results(client, (1, attempt, Status.PROCESSOR_DIED, b"x" * 600_000)))
    assert statuses(said, client) == {1: Status.PROCESSOR_DIED}
    [body] = [body for name, body in said if name == "client"]
    assert bytes(body.runs[0].payload(0)) == b"[{},{},{}]"


def test_a_flood_of_messages_does_not_put_off_what_is_due():
    book = Playbook(client_timeout_seconds=1.0)
    gone, loud = book.client("gone"), book.client("loud")
    book.lose(gone)
    for _ in range(20):
        book.now += 0.1
        loud.says(ExplainRequest(1))  # the shell finds another message whenever it looks, and never an alarm
    assert gone.session not in book.core.state.clients


def test_sessions_that_were_left_without_tasks_do_not_pile_up(low_limits):
    book = Playbook()
    busy = book.client("busy")
    busy.says(tasks(busy, 1, 1))
    book.lose(busy)
    for index in range(20):
        book.now += 0.001
        book.lose(book.client(f"left {index}"))
    book.wait(0.5)
    kept = [client.hello.session for client in book.core.state.clients.values()]
    assert kept == [busy.session, *(f"left {index}".encode().ljust(16, b".") for index in range(15, 20))]
