"""What peers must prove before anything they say counts."""

from __future__ import annotations

import dataclasses

import pytest

from scaler_protocol.handshake import PeerHandshake, ServerHandshake, place_of, places_of
from scaler_protocol.messages import Challenge, Hello, RefusalReason, Refused, Role, Welcome, WhoAreYou
from scaler_scheduler.core import admission
from scaler_scheduler.core.effects import Send
from scaler_scheduler.core.hello import on_first_message, on_malformed_first_message
from tests.unit.scheduler.playbook import Peer, Playbook, tasks

ADDRESS = "tcp://127.0.0.1:2345"
TOKEN, SEED = b"0" * 64, b"s" * 32


def local_book(**settings) -> Playbook:
    handshake = ServerHandshake(TOKEN, SEED, places_of(ADDRESS))
    return Playbook(**{"address": ADDRESS, "handshake": handshake, **settings})


def say(book: Playbook, peer: Peer, hello: Hello | None) -> list:
    """What is answered, all of it."""
    on_first_message(book.core.state, peer.session, hello, b"", book.now)
    said = [(effect.peer, effect.envelope.body) for effect in book.core.take_effects(book.now) if type(effect) is Send]
    book.core.check()
    assert all(to == peer.session for to, _ in said)
    return [body for _, body in said]


def peer_of(book: Playbook, token: bytes = TOKEN, role: Role = Role.SUBMIT) -> tuple[Peer, PeerHandshake]:
    return book._peer("peer", role), PeerHandshake(place_of(ADDRESS), b"p" * 32, token)


def prove(book: Playbook, peer: Peer, handshake: PeerHandshake, **changes) -> list:
    [challenge] = say(book, peer, handshake.begin(peer.hello(**changes)))
    assert isinstance(challenge, Challenge)
    proved = handshake.answer(challenge)
    assert proved is not None
    return say(book, peer, proved)


@pytest.mark.parametrize("role", [Role.SUBMIT, Role.WORK])
def test_a_peer_with_the_token_is_welcome(role: Role) -> None:
    book = local_book()
    peer, handshake = peer_of(book, role=role)
    [welcome] = prove(book, peer, handshake)
    assert isinstance(welcome, Welcome) and handshake.judge(welcome) == "genuine"
    assert admission.knows(book.core.state, peer.session)


def test_a_hello_without_a_proof_leaves_no_trace() -> None:
    book = local_book()
    peer, handshake = peer_of(book)
    for _ in range(3):
        [challenge] = say(book, peer, handshake.begin(peer.hello()))
        assert isinstance(challenge, Challenge)
    assert not book.core.state.clients and not book.core.state.ignored and book.core.next_deadline() is None


def test_a_peer_with_another_token_is_refused() -> None:
    book = local_book()
    peer, handshake = peer_of(book, b"1" * 64)
    [refused] = prove(book, peer, handshake)
    assert isinstance(refused, Refused) and refused.reason == RefusalReason.TOKEN and not book.core.state.clients


def test_who_names_the_session_of_another_and_proves_nothing_changes_nothing() -> None:
    book = local_book()
    peer, handshake = peer_of(book)
    [welcome] = prove(book, peer, handshake)
    peer.welcome = welcome
    peer.says(tasks(peer, 1, 3))
    thief = PeerHandshake(place_of(ADDRESS), b"t" * 32, b"1" * 64)
    [refused] = prove(book, peer, thief)
    assert isinstance(refused, Refused)
    on_malformed_first_message(book.core.state, peer.session, "garbage", book.now)
    say(book, peer, None)
    client = book.core.state.clients[peer.session]
    assert client.connection.is_open and client.table.columns.unfinished == 3
    assert peer.says(tasks(peer, 4, 1)) == [] and client.table.columns.unfinished == 4


def test_a_peer_that_comes_back_resumes_when_it_has_proved_who_it_is() -> None:
    book = local_book()
    peer, handshake = peer_of(book)
    [welcome] = prove(book, peer, handshake)
    book.lose(peer)
    [again] = prove(book, peer, handshake, epoch=welcome.epoch)
    assert again.resumed and handshake.judge(again) == "genuine"


def test_whatever_else_comes_first_is_asked_for_a_hello() -> None:
    book = local_book()
    peer, _ = peer_of(book)
    assert say(book, peer, None) == [WhoAreYou()]


def test_a_peer_without_a_nonce_is_refused() -> None:
    book = local_book()
    peer, _ = peer_of(book)
    [refused] = say(book, peer, peer.hello(token=TOKEN, minor=1))
    assert refused.reason == RefusalReason.TOKEN and "Upgrade" in refused.text
    assert say(book, peer, None) == [], "it has been told"


def test_a_local_scheduler_that_cannot_check_lets_nobody_in() -> None:
    book = local_book(handshake=None)
    peer, handshake = peer_of(book)
    for hello in (peer.hello(), handshake.begin(peer.hello())):
        [refused] = say(book, peer, hello)
        assert isinstance(refused, Refused) and refused.reason == RefusalReason.TOKEN


def test_on_the_network_whoever_asks_for_a_proof_gets_one() -> None:
    address = "tcp://0.0.0.0:2345"
    handshake = ServerHandshake(TOKEN, SEED, places_of(address), is_required=False)
    book = local_book(address=address, handshake=handshake)
    peer, ours = peer_of(book)
    [welcome] = prove(book, peer, ours)
    assert ours.judge(welcome) == "genuine"
    other = book._peer("other", Role.SUBMIT)
    assert isinstance(say(book, other, other.hello())[0], Welcome)


def test_nested_clients_prove_nothing() -> None:
    book = local_book()
    agent, handshake = peer_of(book, role=Role.WORK)
    prove(book, agent, handshake)
    nested = book._peer("nested", Role.SUBMIT, agent)
    book.core.state.agents[agent.session].attached = True
    nested.connect()
    assert nested.welcome is not None and not nested.welcome.proof


@pytest.mark.parametrize("role", [Role.OBSERVE])
def test_monitors_go_elsewhere(role: Role) -> None:
    book = local_book()
    peer, handshake = peer_of(book)
    [refused] = say(book, peer, handshake.begin(dataclasses.replace(peer.hello(), role=role)))
    assert refused.reason == RefusalReason.ROLE
