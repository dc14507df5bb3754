"""Clients ask what tasks have printed, agents answer, and agents report output for monitors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler_protocol.messages import OutputPiece, OutputReply, OutputRequest, PrintedOutput
from scaler_protocol.monitor import records
from scaler_protocol.monitor.ring import RING_HEADER_BYTES, RingReader, RingWriter
from scaler_scheduler.core import output_table
from scaler_scheduler.core.output_table import CLIENT_LIMIT, LIMIT_BYTES, REPLY_LIMIT_BYTES, WAITING_LIMIT
from scaler_scheduler.core.outputs import ANSWER_SECONDS, RECORDED_BYTES_PER_SECOND
from tests.unit.scheduler.playbook import Peer, Playbook, results, tasks

OWN = bytes(16)


def piece(session: bytes, data: bytes, attempt: int = 1) -> OutputPiece:
    return OutputPiece(session, 1, attempt, 0, 1, 0, "f", "vm-0", data)


def give_key(book: Playbook, peer: Peer, user: bytes) -> None:
    """The peer has connected with this key."""
    book.core.state.clients[peer.session].user = user


def test_all_agents_are_asked_and_their_answers_joined() -> None:
    book = Playbook()
    client, first, second = book.client(), book.agent("first"), book.agent("second")
    client.says(tasks(client, 1, 1))
    asked = client.says(OutputRequest(7, OWN, 1))
    assert sorted(asked) == sorted((peer.name, OutputRequest(1, client.session, 1)) for peer in (first, second))
    later, earlier = piece(client.session, b"again", 2), piece(client.session, b"once", 1)
    assert first.says(OutputReply(1, True, "", (later,))) == []
    answer = OutputReply(7, True, "", (earlier, later))
    assert second.says(OutputReply(1, True, "", (earlier,))) == [(client.name, answer)]
    assert second.says(OutputReply(1, True)) == []


def test_the_agent_of_a_process_for_nested_tasks_is_asked() -> None:
    book = Playbook()
    client, agent, _ = book.client(), book.agent("first"), book.agent("second")
    asked = OutputRequest(1, client.session, 0, "first nested 3")
    assert client.says(OutputRequest(7, OWN, 0, "first nested 3")) == [(agent.name, asked)]


def test_nothing_printed_is_an_empty_answer() -> None:
    book = Playbook()
    client = book.client()
    assert client.says(OutputRequest(7, OWN, 1)) == [(client.name, OutputReply(7, True))]
    agent = book.agent()
    client.says(OutputRequest(8, OWN, 1))
    assert agent.says(OutputReply(1, True)) == [(client.name, OutputReply(8, True))]


def test_a_silent_agent_is_not_waited_for() -> None:
    book = Playbook()
    client, agent, _ = book.client(), book.agent("first"), book.agent("second")
    client.says(OutputRequest(7, OWN, 1))
    agent.says(OutputReply(1, True, "", (piece(client.session, b"text"),)))
    said = [body for name, body in book.wait(ANSWER_SECONDS + 0.5) if name == client.name]
    assert OutputReply(7, True, "", (piece(client.session, b"text"),)) in said


@pytest.mark.parametrize("request_", [OutputRequest(7, b"s" * 16, 1), OutputRequest(7, OWN, 0, "agent-0")])
def test_only_operators_see_the_output_of_others(request_: OutputRequest) -> None:
    book = Playbook()
    client, _ = book.client(), book.agent()
    give_key(book, client, b"submit")
    ((_, reply),) = client.says(request_)
    assert not reply.is_found and "Use admin.key." in reply.text


def test_a_worker_that_is_not_known() -> None:
    book = Playbook()
    client, _ = book.client(), book.agent()
    ((_, reply),) = client.says(OutputRequest(7, OWN, 0, "nobody"))
    assert reply == OutputReply(7, False, reply.text) and "no worker has the name 'nobody'" in reply.text


def test_no_client_takes_the_requests_of_the_others() -> None:
    book = Playbook()
    clients = [book.client(f"client {number}") for number in range(WAITING_LIMIT // CLIENT_LIMIT + 1)]
    book.agent()
    for client in clients[:-1]:
        for number in range(CLIENT_LIMIT):
            ((name, _),) = client.says(OutputRequest(number, OWN, 1))
            assert name == "agent"
        ((name, reply),) = client.says(OutputRequest(CLIENT_LIMIT, OWN, 1))
        assert name == client.name and not reply.is_found and "Try again later." in reply.text
    ((_, reply),) = clients[-1].says(OutputRequest(1, OWN, 1))
    assert not reply.is_found and "Try again later." in reply.text


def test_what_waits_of_answers_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    book = Playbook()
    clients, (first, second) = [book.client("one"), book.client("two")], (book.agent("first"), book.agent("second"))
    monkeypatch.setattr(output_table, "LIMIT_BYTES", REPLY_LIMIT_BYTES)
    pieces = tuple(piece(client.session, b"x" * (REPLY_LIMIT_BYTES - 1000)) for client in clients)
    for number, client in enumerate(clients, 1):
        client.says(OutputRequest(7, OWN, 1))
        first.says(OutputReply(number, True, "", (pieces[number - 1],)))
    assert second.says(OutputReply(1, True)) == [("one", OutputReply(7, True, "", (pieces[0],)))]
    assert second.says(OutputReply(2, True)) == [("two", OutputReply(7, True))]
    assert LIMIT_BYTES > REPLY_LIMIT_BYTES


@pytest.mark.parametrize(("data", "function"), [(b"x" * 2000, "f"), (b"", "f" * 2000)])
def test_answers_of_several_agents_fit_a_message(data: bytes, function: str) -> None:
    """A message that is too large cannot be sent, and would end the session of the client."""
    book = Playbook()
    client, first, second = book.client(), book.agent("first"), book.agent("second")
    client.says(OutputRequest(7, OWN, 1))
    large = piece(client.session, b"x" * (REPLY_LIMIT_BYTES - 1000))
    first.says(OutputReply(1, True, "", (large,)))
    more = replace(piece(client.session, data), function=function)
    assert second.says(OutputReply(1, True, "", (more,))) == [(client.name, OutputReply(7, True, "", (large,)))]


def recorded(book: Playbook, reader: RingReader) -> list[records.PrintedText]:
    data, _, _ = reader.take(1 << 20)
    return [records.output_of(each) for each in records.records(data) if each.kind == records.Kind.OUTPUT]


def test_output_is_recorded_for_monitors_up_to_a_limit() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 1, 1))
    agent.says(PrintedOutput((piece(client.session, b"unwatched\n"),)))
    memory = bytearray(RING_HEADER_BYTES + (1 << 22))
    book.core.watch(RingWriter(memory), 0.0, book.now)
    agent.says(PrintedOutput((piece(client.session, b"one\n"), piece(OWN, b"two\n"))))
    large = piece(client.session, b"x" * 60_000)
    agent.says(PrintedOutput((large,) * 20))
    agent.says(results(client, 1))
    found = recorded(book, RingReader(memory))
    assert [each.data for each in found[:2]] == [b"one\n", b"two\n"] and found[0].function == "f"
    assert sum(len(each.data) for each in found) <= RECORDED_BYTES_PER_SECOND
