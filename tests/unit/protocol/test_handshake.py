from __future__ import annotations

import dataclasses
import os
from importlib import metadata

import pytest

from scaler_protocol.address import parse_address
from scaler_protocol.codec import MalformedMessage, decode, decode_hello, encode
from scaler_protocol.handshake import (
    NONCE_SIZE_BYTES,
    WINDOW_SECONDS,
    PeerHandshake,
    ServerHandshake,
    installed_version,
    make_hello,
    place_of,
    places_of,
    refusal_for,
)
from scaler_protocol.ids import digest, new_session
from scaler_protocol.messages import (
    HELLO_LIMIT_BYTES,
    PROTOCOL_MAJOR,
    Challenge,
    Envelope,
    Hello,
    Ping,
    RefusalReason,
    Refused,
    Role,
    Welcome,
)
from scaler_protocol.objects.admission import StoreAdmission
from scaler_protocol.security import ensure_token

ADDRESS = "tcp://127.0.0.1:2345"
PLACE = place_of(ADDRESS)
TOKEN, OTHER_TOKEN = b"0" * 64, b"1" * 64
SEED, OTHER_SEED = b"s" * NONCE_SIZE_BYTES, b"t" * NONCE_SIZE_BYTES
NOW = 1000.0
SCHEDULER = b"scheduler......."


def server(token: bytes = TOKEN, address: str = ADDRESS, is_required: bool = True) -> ServerHandshake:
    return ServerHandshake(token, OTHER_SEED, places_of(address), is_required)


def peer(token: bytes = TOKEN, place: str = PLACE) -> PeerHandshake:
    return PeerHandshake(place, SEED, token)


def hello() -> Hello:
    return make_hello(Role.SUBMIT, new_session())


def welcome_for(said: Hello) -> Welcome:
    return Welcome(SCHEDULER, 5, 6, True, False, features=("one", "two"), number=said.number, cluster=b"c" * 16)


def shake(one: PeerHandshake, other: ServerHandshake, now: float = NOW) -> tuple[Hello, Challenge | Refused | None]:
    """The Hello with the proof, and what is said to it."""
    challenge = other.answer(one.begin(hello()), now)
    assert isinstance(challenge, Challenge)
    proved = one.answer(challenge)
    assert proved is not None
    return proved, other.answer(proved, now)


# ---- both ends -------------------------------------------------------------------------------------------------------


def test_both_ends_prove_that_they_know_the_token() -> None:
    one, other = peer(), server()
    proved, refused = shake(one, other)
    assert refused is None
    welcome = other.prove(proved, welcome_for(proved))
    assert welcome.proof and one.judge(welcome) == "genuine"


def test_nothing_that_is_sent_contains_the_token() -> None:
    one, other = peer(), server()
    proved, _ = shake(one, other)
    for body in (
        one.begin(hello()),
        other.answer(one.begin(hello()), NOW),
        proved,
        other.prove(proved, Welcome(b"", 1)),
    ):
        assert body is not None and TOKEN not in b"".join(encode(Envelope(body)))


def test_a_peer_with_another_token_is_refused() -> None:
    _, refused = shake(peer(OTHER_TOKEN), server())
    assert isinstance(refused, Refused) and refused.reason == RefusalReason.TOKEN and "SCALER_HOME" in refused.text


def test_a_scheduler_with_another_token_is_not_believed() -> None:
    one, other = peer(), server(OTHER_TOKEN)
    proved, _ = shake(one, other)
    assert one.judge(other.prove(proved, welcome_for(proved))) == "forged"


def test_a_welcome_without_a_challenge_is_not_believed() -> None:
    one = peer()
    said = one.begin(hello())
    assert one.judge(welcome_for(said)) == "forged"
    assert one.judge(dataclasses.replace(welcome_for(said), proof=bytes(32))) == "forged"


def test_a_peer_without_its_token_believes_nobody() -> None:
    """An HMAC with an empty key could be made by anybody."""
    one = peer(token=b"")
    said = one.begin(hello())
    assert one.answer(Challenge(bytes(32), said.number)) is None and one.judge(welcome_for(said)) == "forged"


@pytest.mark.parametrize(
    "change",
    [
        {"session": b"x" * 16}, {"epoch": 6}, {"received": 7}, {"resumed": False}, {"protected": True}, {"major": 2},
        {"minor": 0}, {"distribution_version": "9"}, {"python_version": "3"}, {"features": ("onet", "wo")},
        {"features": ()}, {"cluster": b"d" * 16}, {"proof": b""}, {"proof": bytes(32)},
    ],
)  # fmt: skip
def test_no_field_of_a_welcome_can_be_changed(change: dict[str, object]) -> None:
    one, other = peer(), server()
    proved, _ = shake(one, other)
    welcome = other.prove(proved, welcome_for(proved))
    assert one.judge(welcome) == "genuine"
    assert one.judge(dataclasses.replace(welcome, **change)) == "forged"  # type: ignore[arg-type]


@pytest.mark.parametrize("change", [{"role": Role.WORK}, {"session": b"x" * 16}, {"number": 9}, {"nonce": b"y" * 32}])
def test_a_proof_is_of_one_hello(change: dict[str, object]) -> None:
    other = server()
    proved, _ = shake(peer(), other)
    assert other.answer(dataclasses.replace(proved, **change), NOW) is not None  # type: ignore[arg-type]


def test_an_impostor_at_another_port_cannot_pass_it_on() -> None:
    """It plays the scheduler to the peer, and the peer to the scheduler."""
    victim, genuine = peer(place=place_of("tcp://127.0.0.1:6666")), server()
    challenge = genuine.answer(victim.begin(hello()), NOW)
    assert isinstance(challenge, Challenge)
    proved = victim.answer(challenge)
    assert proved is not None
    refused = genuine.answer(proved, NOW)
    assert isinstance(refused, Refused) and refused.reason == RefusalReason.TOKEN
    assert victim.judge(genuine.prove(proved, welcome_for(proved))) == "forged"


def test_a_welcome_to_an_earlier_hello_is_late() -> None:
    one, other = peer(), server()
    proved, _ = shake(one, other)
    welcome = other.prove(proved, welcome_for(proved))
    one.begin(hello())
    assert one.judge(welcome) == "late"


def test_each_hello_has_a_nonce_of_its_own() -> None:
    one = peer()
    said = [one.begin(hello()) for _ in range(10)]
    assert [each.number for each in said] == list(range(1, 11))
    assert len({each.nonce for each in said}) == 10 and all(len(each.nonce) == NONCE_SIZE_BYTES for each in said)


# ---- challenges ------------------------------------------------------------------------------------------------------


def test_an_old_challenge_is_replaced_by_a_new_one() -> None:
    one, other = peer(), server()
    challenge = other.answer(one.begin(hello()), NOW)
    assert isinstance(challenge, Challenge)
    proved = one.answer(challenge)
    assert proved is not None
    assert other.answer(proved, NOW + WINDOW_SECONDS) is None
    again = other.answer(proved, NOW + 3 * WINDOW_SECONDS)
    assert isinstance(again, Challenge) and again.nonce != challenge.nonce
    proved = one.answer(again)
    assert proved is not None and other.answer(proved, NOW + 3 * WINDOW_SECONDS) is None


@pytest.mark.parametrize("seconds", [0.0, WINDOW_SECONDS, 2 * WINDOW_SECONDS, 3 * WINDOW_SECONDS])
def test_a_recorded_proof_opens_nothing(seconds: float) -> None:
    other = server()
    proved, refused = shake(peer(), other, NOW)
    assert refused is None
    for _ in range(2):
        assert isinstance(other.answer(proved, NOW + seconds), Challenge)
    assert shake(peer(), other, NOW + seconds)[1] is None


def test_a_store_is_not_opened_by_a_recorded_proof() -> None:
    admission, one = StoreAdmission(PLACE), PeerHandshake(PLACE, SEED, ensure_token())
    said = one.begin(hello())
    challenge = admission.answer(said, welcome_for(said), NOW)
    assert isinstance(challenge, Challenge)
    proved = one.answer(challenge)
    assert proved is not None
    answers = [admission.answer(proved, welcome_for(said), NOW) for _ in range(3)]
    assert [type(each) for each in answers] == [Welcome, Challenge, Challenge]


def test_a_challenge_of_another_start_is_replaced() -> None:
    other = server()
    proved, _ = shake(peer(), dataclasses.replace(other, seed=SEED))
    assert isinstance(other.answer(proved, NOW), Challenge)


def test_a_peer_does_not_answer_for_ever() -> None:
    one = peer()
    number = one.begin(hello()).number
    answers = [one.answer(Challenge(bytes([index]) * 32, number)) for index in range(10)]
    assert sum(answer is not None for answer in answers) == 3


@pytest.mark.parametrize("challenge", [Challenge(b"short", 1), Challenge(b"", 1), Challenge(bytes(32), 7)])
def test_what_is_no_challenge_is_not_answered(challenge: Challenge) -> None:
    one = peer()
    assert one.answer(challenge) is None
    one.begin(hello())
    assert one.answer(challenge) is None


# ---- where nothing is proved -----------------------------------------------------------------------------------------


def test_peers_elsewhere_prove_nothing() -> None:
    one = PeerHandshake()
    said = one.begin(hello())
    assert said.nonce == said.proof == said.token == b""
    assert one.judge(welcome_for(said)) == "genuine"
    assert one.answer(Challenge(bytes(32), said.number)) is None


def test_whoever_proves_nothing_is_refused_here() -> None:
    refused = server().answer(hello(), NOW)
    assert isinstance(refused, Refused) and refused.reason == RefusalReason.TOKEN
    assert server(is_required=False).answer(hello(), NOW) is None


def test_a_peer_that_sends_its_token_is_told_to_upgrade() -> None:
    refused = server().answer(dataclasses.replace(hello(), minor=1, token=TOKEN), NOW)
    assert isinstance(refused, Refused) and "1.1" in refused.text and "Upgrade" in refused.text


def test_a_scheduler_on_the_network_proves_itself_to_peers_of_its_machine() -> None:
    one, other = peer(), server(address="tcp://0.0.0.0:2345", is_required=False)
    proved, refused = shake(one, other)
    assert refused is None
    assert one.judge(other.prove(proved, welcome_for(proved))) == "genuine"


def test_a_scheduler_without_a_token_says_so() -> None:
    refused = server(b"", is_required=False).answer(peer().begin(hello()), NOW)
    assert isinstance(refused, Refused) and "has no token" in refused.text


def test_it_cannot_be_forgotten() -> None:
    with pytest.raises(ValueError, match="requires a token"):
        server(b"")
    for seed in (b"", b"short"):
        with pytest.raises(ValueError, match="A seed has 32 bytes"):
            ServerHandshake(TOKEN, seed, (PLACE,))
        with pytest.raises(ValueError, match="A seed has 32 bytes"):
            PeerHandshake(PLACE, seed)


@pytest.mark.parametrize("nonce", [b"short", b"x" * 33])
def test_a_nonce_has_its_size(nonce: bytes) -> None:
    refused = server().answer(dataclasses.replace(hello(), nonce=nonce), NOW)
    assert isinstance(refused, Refused) and refused.reason == RefusalReason.MALFORMED


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("tcp://localhost:1", "tcp://127.0.0.1:1"),
        ("tcp://[0:0:0:0:0:0:0:1]:1", "tcp://[::1]:1"),
        ("ipc:///tmp/here", "ipc:///run/there"),
    ],
)
def test_an_address_has_one_name(one: str, other: str) -> None:
    assert place_of(one) == place_of(other) == place_of(parse_address(other))


def test_addresses_have_different_names() -> None:
    names = [place_of(each) for each in (ADDRESS, "tcp://127.0.0.2:2345", "tcp://127.0.0.1:1", "ipc://x", "inproc://x")]
    assert len(set(names)) == 5 and names[-1] == ""
    assert places_of("tcp://*:2345") == (PLACE, "tcp://[::1]:2345")


# ---- what is refused whatever is proved ------------------------------------------------------------------------------


def test_hello_says_who_it_is() -> None:
    session = new_session()
    said = make_hello(Role.WORK, session, distribution="no-such-thing", epoch=5, received=6, parent_task=7)
    assert (said.role, said.session, said.pid) == (Role.WORK, session, os.getpid())
    assert said.host and said.python_version.count(".") == 2 and said.major == PROTOCOL_MAJOR
    assert (said.epoch, said.received, said.parent_task, said.distribution_version) == (5, 6, 7, "")


def test_another_major_version_is_refused_and_another_minor_is_not() -> None:
    said = hello()
    refused = refusal_for(dataclasses.replace(said, major=PROTOCOL_MAJOR + 1))
    assert refused is not None and refused.reason == RefusalReason.VERSION
    assert f"{PROTOCOL_MAJOR + 1}.{said.minor}" in refused.text and "Install the same major version" in refused.text
    assert refusal_for(dataclasses.replace(said, minor=99)) is None


def test_a_session_has_its_size() -> None:
    refused = refusal_for(make_hello(Role.SUBMIT, b"short"))
    assert refused is not None and refused.reason == RefusalReason.MALFORMED


def test_ids() -> None:
    assert len({new_session() for _ in range(100)}) == 100
    assert all(len(new_session()) == 16 and new_session()[0] for _ in range(1000))
    assert digest(b"x") == digest(b"x") != digest(b"y") and len(digest(b"")) == 16


@pytest.mark.parametrize("distribution", ["pyzmq", "pytest", "scaler-protocol", "not-installed"])
def test_versions_are_those_of_the_standard_library(distribution: str) -> None:
    try:
        expected = metadata.version(distribution)
    except metadata.PackageNotFoundError:
        expected = ""
    assert installed_version(distribution) == expected


# ---- reading a Hello -------------------------------------------------------------------------------------------------


def test_a_hello_is_read_and_nothing_else() -> None:
    one, other = peer(), server()
    proved, _ = shake(one, other)
    assert decode_hello(encode(Envelope(proved))) == proved == decode(encode(Envelope(proved))).body
    assert decode_hello(encode(Envelope(Ping()))) is None
    assert decode_hello([]) is None and decode_hello([b""]) is None and decode_hello([b"", b""]) is None


def test_a_hello_larger_than_any_is_not_read() -> None:
    large = encode(Envelope(dataclasses.replace(hello(), token=bytes(HELLO_LIMIT_BYTES))))
    assert decode_hello(large) is None and isinstance(decode(large).body, Hello)


TOO_LONG: dict[str, object] = {"str": "x" * 257, "bytes": bytes(257), "tuple[str, ...]": ("x", "y" * 257)}
"""Values of a Hello by the annotation of their field."""


@pytest.mark.parametrize(
    "change",
    [
        {"features": ("x",) * 65},
        *({each.name: TOO_LONG[str(each.type)]} for each in dataclasses.fields(Hello) if str(each.type) in TOO_LONG),
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_hello_that_says_too_much_is_malformed(change: dict[str, object]) -> None:
    with pytest.raises(MalformedMessage, match="larger than any valid Hello|are allowed"):
        decode_hello(encode(Envelope(dataclasses.replace(hello(), **change))))  # type: ignore[arg-type]


@pytest.mark.parametrize("garbage", [b"x", bytes(8), bytes(4000), b"\xff" * 64])
def test_garbage_is_malformed(garbage: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode_hello([garbage])
