"""An agent works for a scheduler that has proved who it is, and for no other."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import pytest

from scaler_protocol.effects import Log
from scaler_protocol.handshake import NONCE_SIZE_BYTES, PeerHandshake, ServerHandshake, place_of, places_of
from scaler_protocol.messages import AgentAttach, Challenge, Hello, Stop, Tasks, Welcome
from scaler_worker.core.agent import SCHEDULER
from scaler_worker.core.effects import DispatchTasks, Exit, Reconnect
from scaler_worker.core.joining import TELL_AFTER_SECONDS
from tests.unit.worker.playbook import Stage, definition, nothing, run_of

ADDRESS, TOKEN = "tcp://127.0.0.1:2345", b"0" * 64
SERVER = ServerHandshake(TOKEN, b"q" * 32, places_of(ADDRESS))


@pytest.fixture
def stage() -> Stage:
    handshake = PeerHandshake(place_of(ADDRESS), os.urandom(NONCE_SIZE_BYTES))
    return Stage(1, welcome=False, handshake=handshake, death_timeout_seconds=100.0)


def connect(stage: Stage) -> Hello:
    stage.core.on_connected(TOKEN, stage.now)
    stage.turn()
    hello: Hello = stage.bodies(Hello)[-1]
    return hello


def challenge(stage: Stage, hello: Hello) -> Hello:
    challenge = SERVER.answer(hello, 0.0)
    assert isinstance(challenge, Challenge)
    stage.say_raw(challenge)
    proved: Hello = stage.bodies(Hello)[-1]
    assert proved.proof and proved.number == hello.number and not proved.token
    assert SERVER.answer(proved, 0.0) is None
    return proved


def welcome(hello: Hello, **changes: Any) -> Welcome:
    return dataclasses.replace(SERVER.prove(hello, Welcome(b"S" * 16, 1, number=hello.number)), **changes)


def others(stage: Stage) -> list[Any]:
    return [each for each in stage.effects if isinstance(each, (Log, Reconnect, Exit))]


def test_it_attaches_when_the_scheduler_has_proved_who_it_is(stage: Stage) -> None:
    stage.say_raw(welcome(challenge(stage, connect(stage))))
    assert stage.bodies(AgentAttach)


@pytest.mark.parametrize("changes", [{"proof": b""}, {"proof": bytes(32)}, {"epoch": 2}])
def test_a_forged_welcome_is_not_acted_on(stage: Stage, changes: dict[str, Any]) -> None:
    stage.say_raw(welcome(challenge(stage, connect(stage)), **changes))
    stage.say_raw(Tasks([run_of(3)], [definition(nothing)]))
    stage.say_raw(Stop())
    assert not stage.bodies(AgentAttach) and not stage.count(DispatchTasks)
    [log, reconnect] = others(stage)
    assert isinstance(log, Log) and "did not prove" in log.text and isinstance(reconnect, Reconnect)


def test_it_keeps_trying_and_says_so_once(stage: Stage) -> None:
    for _ in range(3):
        stage.say_raw(welcome(connect(stage)))
    assert [type(each) for each in others(stage)] == [Log, Reconnect, Reconnect, Reconnect]
    stage.say_raw(welcome(challenge(stage, connect(stage))))
    assert stage.bodies(AgentAttach)


def test_whoever_never_answers_is_left(stage: Stage) -> None:
    connect(stage)
    stage.pass_time(30, heard=False)
    assert len(stage.bodies(Hello)) == 4 and others(stage) == [Reconnect()]


def test_a_refused_key_is_said_once_and_tried_again(stage: Stage) -> None:
    for _ in range(3):
        stage.core.on_key_refused("The key is not known.", stage.now)
        stage.pass_time(3, heard=False)
    assert [type(each) for each in others(stage)] == [Log, Reconnect, Reconnect, Reconnect]
    stage.say_raw(welcome(challenge(stage, connect(stage))))
    assert stage.bodies(AgentAttach)


def test_an_obstacle_of_the_transport_is_said_once() -> None:
    stage = Stage(1, welcome=False, death_timeout_seconds=100.0, address=ADDRESS)
    for _ in range(3):
        stage.core.on_obstacle("Each handshake fails.", stage.now)
        stage.pass_time(2, heard=False)
    assert others(stage) == [Log("ERROR", "Each handshake fails.")]


def test_a_scheduler_that_is_away_is_worth_a_line_and_so_is_its_return() -> None:
    stage = Stage(1, welcome=False, death_timeout_seconds=100.0, address=ADDRESS)
    stage.pass_time(TELL_AFTER_SECONDS - 0.1, heard=False)
    assert others(stage) == []
    stage.pass_time(10, heard=False)
    told = f"Waiting for the scheduler at {ADDRESS}: none answers there. Check with: scaler doctor {ADDRESS}"
    assert others(stage) == [Log("WARNING", told)]
    stage.say_raw(Welcome(b"S" * 16, 1, number=connect(stage).number))
    assert others(stage)[1:] == [Log("INFO", f"The scheduler at {ADDRESS} answers.")]
    stage.core.on_peer_lost(SCHEDULER, stage.now)
    stage.pass_time(1, heard=False)
    stage.say_raw(Welcome(b"S" * 16, 2, number=connect(stage).number))
    assert len(others(stage)) == 2, "a scheduler that merely starts again is not worth a line"


def test_after_a_loss_it_proves_itself_again(stage: Stage) -> None:
    first = challenge(stage, connect(stage))
    stage.say_raw(welcome(first))
    stage.core.on_peer_lost(SCHEDULER, stage.now)
    second = challenge(stage, connect(stage))
    assert second.nonce != first.nonce
    stage.say_raw(welcome(first))
    assert len(stage.bodies(AgentAttach)) == 1, "that was for the connection before"
    stage.say_raw(welcome(second))
    assert len(stage.bodies(AgentAttach)) == 2
