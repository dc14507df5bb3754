"""A client believes a scheduler that has proved who it is, and no other."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from scaler.core.effects import Finish, Log, ReplaceConnection
from scaler.core.outcome import DISCONNECTED
from scaler.core.runs import Function, Shape
from scaler.core.session import SCHEDULER, Session
from scaler_protocol.effects import Send
from scaler_protocol.handshake import PeerHandshake, ServerHandshake, place_of, places_of
from scaler_protocol.messages import (
    Body,
    Challenge,
    Envelope,
    Hello,
    Output,
    Results,
    Role,
    TaskOptions,
    Tasks,
    Welcome,
    WhoAreYou,
)
from tests.unit.client.scheduler_side import Sink

ADDRESS, TOKEN = "tcp://127.0.0.1:2345", b"0" * 64


class Stage:
    def __init__(self, timeout_seconds: float = 5.0) -> None:
        self.now = 100.0
        self.session = Session(
            Hello(Role.SUBMIT, b"s" * 16),
            timeout_seconds=timeout_seconds,
            heartbeat_interval_seconds=2.0,
            serializer=None,
            now=self.now,
            handshake=PeerHandshake(place_of(ADDRESS), b"p" * 32),
        )
        self.server = ServerHandshake(TOKEN, b"q" * 32, places_of(ADDRESS))
        self.others: list[Any] = []

    def submit(self) -> Sink:
        sink = Sink()
        self.session.submissions.add(Shape(Function("f", b"f"), 1, (), TaskOptions()), [b"1"], 1, sink)
        return sink

    def said(self) -> list[Body]:
        bodies: list[Body] = []
        for effect in self.session.take_effects(self.now):
            if isinstance(effect, Send):
                bodies.append(effect.envelope.body)
            else:
                self.others.append(effect)
        return bodies

    def connect(self) -> Hello:
        self.session.on_connected(self.now, TOKEN)
        [hello] = self.said()
        assert isinstance(hello, Hello)
        return hello

    def hear(self, body: Body) -> list[Body]:
        self.session.on_message(SCHEDULER, Envelope(body), self.now)
        return self.said()

    def challenge(self, hello: Hello) -> Hello:
        challenge = self.server.answer(hello, self.now)
        assert isinstance(challenge, Challenge)
        [proved] = self.hear(challenge)
        assert isinstance(proved, Hello)
        return proved

    def welcome(self, hello: Hello, **changes: Any) -> Welcome:
        return dataclasses.replace(self.server.prove(hello, Welcome(b"w" * 16, 7, number=hello.number)), **changes)

    def pass_time(self, seconds: float) -> list[Body]:
        """In the steps of its deadlines."""
        said, end = [], self.now + seconds
        while (deadline := self.session.next_deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self.session.on_deadline(self.now)
            said += self.said()
        self.now = end
        return said


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_tasks_leave_when_the_scheduler_has_proved_who_it_is(stage: Stage) -> None:
    stage.submit()
    proved = stage.challenge(stage.connect())
    assert proved.nonce and proved.proof and not proved.token
    [tasks] = stage.hear(stage.welcome(proved))
    assert isinstance(tasks, Tasks) and stage.session.welcomed


@pytest.mark.parametrize("changes", [{"proof": b""}, {"proof": bytes(32)}, {"epoch": 8}, {"cluster": b"c" * 16}])
def test_a_forged_welcome_is_not_acted_on(stage: Stage, changes: dict[str, Any]) -> None:
    stage.submit()
    proved = stage.challenge(stage.connect())
    assert stage.hear(stage.welcome(proved, **changes)) == []
    assert not stage.session.welcomed and stage.session.cluster == b""
    [log, reconnect] = stage.others
    assert isinstance(log, Log) and "did not prove" in log.text and isinstance(reconnect, ReplaceConnection)


def test_a_welcome_without_a_challenge_is_forged(stage: Stage) -> None:
    stage.submit()
    hello = stage.connect()
    assert stage.hear(stage.welcome(hello)) == [] and not stage.session.welcomed


def test_it_is_said_once_until_the_true_one_comes(stage: Stage) -> None:
    for _ in range(3):
        stage.hear(stage.welcome(stage.connect()))
    assert [type(each) for each in stage.others] == [Log, ReplaceConnection, ReplaceConnection, ReplaceConnection]
    stage.hear(stage.welcome(stage.challenge(stage.connect())))
    assert stage.session.welcomed
    stage.session.on_peer_lost(SCHEDULER, stage.now)
    stage.hear(stage.welcome(stage.connect()))
    assert [type(each) for each in stage.others].count(Log) == 2


@pytest.mark.parametrize("body", [Results([]), Output(b"s" * 16, 1, 1, b"evil")])
def test_nothing_else_counts_before(stage: Stage, body: Body) -> None:
    stage.submit()
    stage.challenge(stage.connect())
    assert stage.hear(body) == [] and stage.others == []


def test_a_scheduler_may_ask_again_who_this_is(stage: Stage) -> None:
    first = stage.connect()
    [second] = stage.hear(WhoAreYou())
    assert isinstance(second, Hello) and second.number == first.number + 1 and second.nonce != first.nonce
    stage.hear(stage.welcome(stage.challenge(second)))
    assert stage.session.welcomed


def test_whoever_never_answers_is_left(stage: Stage) -> None:
    """Something else may hold the connection, and the scheduler listen by now."""
    stage.connect()
    hellos = stage.pass_time(60)
    assert [type(each) for each in hellos] == [Hello] * 3
    assert stage.others == [ReplaceConnection()]


def test_the_reason_is_said_when_time_is_over(stage: Stage) -> None:
    sink = stage.submit()
    stage.session.on_obstacle("The port belongs to another user.")
    stage.session.on_obstacle("")
    stage.pass_time(6)
    [outcome] = [each.outcome for each in stage.others if isinstance(each, Finish)] or sink.outcomes
    assert outcome.status == DISCONNECTED
    assert bytes(outcome.payload) == b"The scheduler was out of reach for 5 seconds. The port belongs to another user."


def test_a_refused_key_is_said_at_once_and_tried_again(stage: Stage) -> None:
    sink = stage.submit()
    stage.session.on_key_refused("The key is not known.", stage.now)
    stage.said()
    assert bytes(sink.outcomes[0].payload) == b"The key is not known."
    stage.pass_time(3)
    assert ReplaceConnection() in stage.others
    stage.hear(stage.welcome(stage.challenge(stage.connect())))
    assert stage.session.welcomed


def test_a_session_that_was_welcomed_survives_a_forged_refusal(stage: Stage) -> None:
    stage.hear(stage.welcome(stage.challenge(stage.connect())))
    sink = stage.submit()
    stage.session.on_peer_lost(SCHEDULER, stage.now)
    stage.session.on_key_refused("The key is not known.", stage.now)
    stage.said()
    assert not sink.outcomes and Log("WARNING", "The key is not known.") in stage.others
    stage.pass_time(3)
    assert ReplaceConnection() in stage.others
    [tasks] = stage.hear(stage.welcome(stage.challenge(stage.connect())))
    assert isinstance(tasks, Tasks) and not sink.outcomes


def test_a_session_that_was_welcomed_gives_up_when_its_key_stays_refused() -> None:
    stage = Stage(timeout_seconds=60.0)
    stage.hear(stage.welcome(stage.challenge(stage.connect())))
    sink = stage.submit()
    stage.session.on_peer_lost(SCHEDULER, stage.now)
    began = stage.now
    while not sink.outcomes:
        stage.session.on_key_refused("The key is not known.", stage.now)
        stage.pass_time(2)
    assert bytes(sink.outcomes[0].payload) == b"The key is not known."
    assert 10 <= stage.now - began <= 13
    assert [type(each) for each in stage.others].count(Log) == 1
    later = stage.submit()
    stage.session.on_key_refused("The key is not known.", stage.now)
    stage.said()
    assert bytes(later.outcomes[0].payload) == b"The key is not known."


def test_the_token_may_change_between_connections(stage: Stage) -> None:
    stage.session.on_connected(stage.now, b"1" * 64)
    stage.said()
    stage.session.on_peer_lost(SCHEDULER, stage.now)
    stage.hear(stage.welcome(stage.challenge(stage.connect())))
    assert stage.session.welcomed
