"""The handshake of a peer and a scheduler, with someone in between who sees, changes and repeats all, but has no token.

Nothing raises, whatever Hello, Challenge or Welcome comes. An end accepts only what the other one has proved.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from fuzz.choices import Choices
from scaler_protocol.codec import MalformedMessage, decode_hello, encode
from scaler_protocol.handshake import (
    NONCE_SIZE_BYTES,
    PeerHandshake,
    ServerHandshake,
    make_hello,
    place_of,
    places_of,
    refusal_for,
)
from scaler_protocol.messages import Challenge, Envelope, Hello, Refused, Role, Welcome

ADDRESS = "tcp://127.0.0.1:2345"
TOKEN, OTHER_TOKEN = b"0" * 64, b"1" * 64
SEEDS = (b"s" * NONCE_SIZE_BYTES, b"t" * NONCE_SIZE_BYTES, b"u" * NONCE_SIZE_BYTES)
SESSIONS = (b"a" * 16, b"b" * 16)
PROOF_FIELDS = ("role", "session", "number", "nonce", "challenge")
"""The fields of a Hello that its proof covers."""

PAUSES_SECONDS = (0.0, 1.0, 10.0, 30.0, 1e6)
MESSAGES_LIMIT = 64
LONGEST_INPUT_BYTES = 1024


class HandshakeConversation:
    """Two peers and a scheduler that know the token, ends that know another one, and what all have said."""

    def __init__(self) -> None:
        place = place_of(ADDRESS)
        self.peers = [PeerHandshake(place, SEEDS[0], TOKEN), PeerHandshake(place, SEEDS[1], TOKEN)]
        self.impostor = PeerHandshake(place, SEEDS[2], OTHER_TOKEN)
        self.server = ServerHandshake(TOKEN, SEEDS[2], places_of(ADDRESS))
        self.other_server = ServerHandshake(OTHER_TOKEN, SEEDS[1], places_of(ADDRESS))
        self.hellos: list[Hello] = [make_hello(Role.SUBMIT, SESSIONS[0])]
        self.challenges: list[Challenge] = [Challenge(bytes(NONCE_SIZE_BYTES), 1)]
        self.welcomes: list[Welcome] = [Welcome(SESSIONS[1], 5, number=1)]
        self.proved_hellos: set[tuple[Any, ...]] = set()
        self.proved_welcomes: list[Welcome] = []
        self.last_said: dict[int, Hello] = {}
        self.now = 1000.0

    def step(self, choices: Choices) -> None:
        operation = choices.below(6)
        if operation == 0:
            self.begin(choices)
        elif operation == 1:
            self.challenge(choices)
        elif operation == 2:
            self.hello(choices)
        elif operation == 3:
            self.welcome(choices)
        elif operation == 4:
            self.now += choices.pick(PAUSES_SECONDS)
        else:
            self.impose(choices)

    def begin(self, choices: Choices) -> None:
        index = choices.below(len(self.peers))
        said = self.peers[index].begin(make_hello(choices.pick([*Role]), choices.pick(SESSIONS)))
        assert not said.proof and not said.token
        self.last_said[index] = said
        self.hellos.append(said)

    def challenge(self, choices: Choices) -> None:
        """One of all that were said, perhaps changed, comes to a peer."""
        index = choices.below(len(self.peers))
        answer = self.peers[index].answer(changed(choices, choices.pick(self.challenges)))
        if answer is not None:
            assert TOKEN not in b"".join(encode(Envelope(answer)))
            self.last_said[index] = answer
            self.proved_hellos.add(covered(answer))
            self.hellos.append(answer)

    def hello(self, choices: Choices) -> None:
        """Comes to the scheduler."""
        said = changed(choices, choices.pick(self.hellos))
        refusal_for(said)
        answer = self.server.answer(said, self.now)
        if isinstance(answer, Challenge):
            self.challenges.append(answer)
        elif answer is None:
            assert covered(said) in self.proved_hellos, "The scheduler accepts what no peer with the token has said."
            welcome = self.server.prove(said, Welcome(SESSIONS[1], 1 + choices.below(4), number=said.number))
            self.proved_welcomes.append(welcome)
            self.welcomes.append(welcome)

    def welcome(self, choices: Choices) -> None:
        """Comes to a peer."""
        index = choices.below(len(self.peers))
        welcome = changed(choices, choices.pick(self.welcomes))
        if self.peers[index].judge(welcome) == "genuine":
            assert welcome in self.proved_welcomes, "A peer believes what was not proved."
            assert welcome.number == self.last_said[index].number

    def impose(self, choices: Choices) -> None:
        """Ends that have another token say something, too."""
        said = self.impostor.begin(choices.pick(self.hellos))
        answer = self.impostor.answer(dataclasses.replace(choices.pick(self.challenges), number=said.number))
        self.hellos.append(answer or said)
        theirs = changed(choices, choices.pick(self.hellos))
        challenge = self.other_server.answer(theirs, self.now)
        if isinstance(challenge, Challenge):
            self.challenges.append(challenge)
        welcome = changed(choices, choices.pick(self.welcomes))
        self.welcomes.append(self.other_server.prove(theirs, dataclasses.replace(welcome, number=theirs.number)))


def covered(hello: Hello) -> tuple[Any, ...]:
    return tuple(getattr(hello, name) for name in PROOF_FIELDS)


def changed(choices: Choices, message: Any) -> Any:
    """Mostly as it is; else with a field that says something else."""
    if not choices.flag(3):
        return message
    name = choices.pick([field.name for field in dataclasses.fields(message)])
    value = getattr(message, name)
    return dataclasses.replace(message, **{name: another(choices, value)})


def another(choices: Choices, value: Any) -> Any:
    if isinstance(value, bytes):
        return choices.pick([b"", value[:-1], value + b"\0", choices.take(40), flipped(choices, value)])
    if isinstance(value, bool):
        return not value
    if isinstance(value, Role):
        return choices.pick([*Role])
    if isinstance(value, int):
        return choices.pick([0, value + 1, 2**32 - 1 & value, choices.number(4)])
    if isinstance(value, str):
        return choices.pick(["", value + "x", choices.take(8).decode("latin-1")])
    return tuple(choices.take(4).decode("latin-1") for _ in range(choices.below(3)))


def flipped(choices: Choices, value: bytes) -> bytes:
    if not value:
        return b"\0"
    at = choices.below(len(value))
    return value[:at] + bytes([value[at] ^ 1 << choices.below(8)]) + value[at + 1 :]


def one_input(data: bytes) -> None:
    """The first byte decides: a transcript, or the bytes of a Hello."""
    choices = Choices(data)
    if choices.flag(4):
        read_hello(choices.rest())
        return
    conversation = HandshakeConversation()
    for _ in range(MESSAGES_LIMIT):
        if not choices.more:
            break
        conversation.step(choices)


def read_hello(data: bytes) -> None:
    """Read a Hello like a scheduler, whatever comes first."""
    try:
        said = decode_hello([data])
    except MalformedMessage as error:
        assert str(error)
        return
    if said is not None and refusal_for(said) is None:
        server = ServerHandshake(TOKEN, SEEDS[0], places_of(ADDRESS))
        assert isinstance(server.answer(said, 1000.0), (Challenge, Refused)), "No peer has proved anything here."


def seeds() -> Iterator[bytes]:
    begin, prove, believe = [0, 0, 0, 0, 2, 1, 0], [1, 0, 1, 0, 2, 2, 0, 0], [3, 0, 1, 0]
    yield bytes([0, *begin, *prove, *believe])
    yield bytes([0, *begin, *prove, 4, 2, 2, 2, 0, 1, 0, 2, 0, 2, 3, 0, *believe, 5, 0, 1, 0, 1, 0, 1, 0, *believe])
    proving = PeerHandshake(place_of(ADDRESS), SEEDS[0], TOKEN)
    hello = make_hello(Role.SUBMIT, SESSIONS[0])
    for said in (hello, proving.begin(hello)):
        yield b"\3" + b"".join(encode(Envelope(said)))
