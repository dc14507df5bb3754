"""Sessions belong to holders of keys, which the authenticator names: role, name and public key, with colons between."""

from __future__ import annotations

from scaler_protocol.messages import Refused, Role, ShutdownRequest
from scaler_scheduler.core import admission
from scaler_scheduler.core.effects import Disconnect
from scaler_scheduler.core.hello import on_first_message
from tests.unit.scheduler.playbook import Peer, Playbook, statuses, tasks


def connect(book: Playbook, name: str, role: Role, user: bytes) -> Peer:
    peer = book._peer(name, role)
    on_first_message(book.core.state, peer.session, peer.hello(), user, book.now)
    assert book.run() == []
    return peer


def network_book() -> Playbook:
    return Playbook(address="tcp://0.0.0.0:1", protected=False)


def change_keys(book: Playbook, *users: bytes) -> list[bytes]:
    """Who is disconnected."""
    admission.on_keys_changed(book.core.state, frozenset(users), book.now)
    effects = book.core.take_effects(book.now)
    for effect in effects:
        if not isinstance(effect, Disconnect):
            book.core.state.effects.append(effect)
    return [effect.peer for effect in effects if isinstance(effect, Disconnect)]


def test_a_session_is_its_holders_whatever_else_that_key_may_do_by_now() -> None:
    book = network_book()
    client = connect(book, "client", Role.SUBMIT, b"submit:alice:A")
    for other in (b"submit:bob:B", b"submit::B", b"admin:alice:B", b"observe:alice:A", b"work:alice:A"):
        assert not admission.admits(book.core.state, client.session, other)
        [(name, refused)] = book.run()
        assert name == "client" and isinstance(refused, Refused)
    assert admission.admits(book.core.state, client.session, b"submit:alice:A")
    [(_, reply)] = client.says(ShutdownRequest())
    assert not reply.accepted and "admin.key" in reply.text
    assert admission.admits(book.core.state, client.session, b"admin:alice:A")
    assert client.says(ShutdownRequest())[0][1].accepted


def test_a_new_key_of_the_same_holder_goes_on_with_the_session() -> None:
    book = network_book()
    client = connect(book, "client", Role.SUBMIT, b"submit:alice:A")
    assert admission.admits(book.core.state, client.session, b"submit:alice:B")
    assert not admission.admits(book.core.state, client.session, b"submit:bob:B2")


def test_when_a_key_is_taken_away_its_client_has_left() -> None:
    book = network_book()
    mine = connect(book, "mine", Role.SUBMIT, b"submit:alice:A")
    other = connect(book, "other", Role.SUBMIT, b"submit:bob:B")
    for client in (mine, other):
        client.says(tasks(client, 1, 3))
    assert change_keys(book, b"submit:alice:A", b"submit:bob:B") == []
    assert change_keys(book, b"submit:bob:B") == [mine.session]
    said = book.run()
    assert [type(body) for name, body in said if name == "mine"] == [Refused] and not statuses(said, other)
    assert list(book.core.state.clients) == [other.session] and book.core.state.placement.queued == 3
    assert "submit-alice" in book.logs[-1]


def test_when_a_key_is_taken_away_its_agent_is_lost() -> None:
    book = network_book()
    agent = connect(book, "agent", Role.WORK, b"work::A")
    assert change_keys(book) == [agent.session] and not book.core.state.agents


def test_whoever_has_a_newer_key_may_come_back_with_it() -> None:
    book = network_book()
    client = connect(book, "client", Role.SUBMIT, b"submit:alice:A")
    client.says(tasks(client, 1, 3))
    assert change_keys(book, b"submit:alice:B") == [client.session]
    assert book.run() == [] and list(book.core.state.clients) == [client.session]
    assert admission.admits(book.core.state, client.session, b"submit:alice:B")
    assert change_keys(book, b"submit:alice:B") == []


def test_a_key_that_may_do_less_by_now_ends_what_it_may_not_do() -> None:
    book = network_book()
    client = connect(book, "client", Role.SUBMIT, b"submit:alice:A")
    assert change_keys(book, b"admin::A") == [] and book.core.state.clients[client.session].user == b"admin::A"
    assert change_keys(book, b"observe::A") == [client.session] and not book.core.state.clients


def test_nested_clients_end_with_their_agents() -> None:
    book = network_book()
    agent = connect(book, "agent", Role.WORK, b"work::A")
    nested = book._peer("nested", Role.SUBMIT, agent)
    agent.epoch = 1
    book.core.state.agents[agent.session].attached = True
    nested.connect()
    assert change_keys(book, b"work::A") == [] and nested.session in book.core.state.clients
    assert change_keys(book) == [agent.session]
