"""The agent's shell, without processes."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from typing import Any

import pytest

from scaler_protocol.command.log_tail import LogTail
from scaler_protocol.command.turn_guard import BROKEN_CODE
from scaler_protocol.effects import Log, Send
from scaler_protocol.messages import Envelope, HeartbeatEcho, Hello, Ping, Status
from scaler_worker.config import ClusterSettings
from scaler_worker.core.effects import DispatchTasks
from scaler_worker.shell.agent import AgentShell
from tests.unit.worker.playbook import Stage, run_of


class NoZygote:
    """Nothing is started here."""

    def attach(self, *arguments: Any) -> None:
        pass

    def fork(self, *arguments: Any) -> None:
        pass

    def close(self) -> None:
        pass

    pid = None


def test_an_effect_that_cannot_be_carried_out_does_not_take_the_others_with_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    loop = asyncio.new_event_loop()
    agent = AgentShell(ClusterSettings(address="tcp://127.0.0.1:1"), 1, NoZygote(), loop, LogTail())  # type: ignore[arg-type]
    effects = [Send(b"", Envelope(Ping())), Log("WARNING", "this one is carried out")]
    monkeypatch.setattr("scaler_worker.shell.conversation.encode", lambda envelope: 1 // 0)
    monkeypatch.setattr(agent._core, "take_effects", lambda now: [effects.pop(0) for _ in effects[:]])
    agent._conversation.end_turn()
    agent.disconnect()
    loop.close()
    assert "Send failed" in caplog.text
    assert "this one is carried out" in caplog.text


@pytest.mark.parametrize(
    ("answer", "reason"), [(0, "no more processes"), (-errno.EAGAIN, "ulimit -u"), (-errno.EMFILE, "ulimit -n")]
)
def test_a_worker_process_that_could_not_be_forked_is_told_and_nobody_is_killed(
    answer: int, reason: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    loop = asyncio.new_event_loop()
    agent = AgentShell(ClusterSettings(address="tcp://127.0.0.1:1"), 1, NoZygote(), loop, LogTail())  # type: ignore[arg-type]
    killed = []
    monkeypatch.setattr("os.kill", lambda *arguments: killed.append(arguments))
    monkeypatch.setattr("os.killpg", lambda *arguments: killed.append(arguments))
    agent._conversation.end_turn()
    (number,) = agent._worker_processes.processes
    agent._worker_processes._on_forked(number, answer)
    agent._conversation.end_turn()
    assert killed == [] and agent._worker_processes.processes == {}
    agent.disconnect()
    loop.close()
    assert "cannot be started" in caplog.text and reason in caplog.text


@pytest.fixture
def agent() -> Iterator[AgentShell]:
    loop = asyncio.new_event_loop()
    agent = AgentShell(ClusterSettings(address="tcp://127.0.0.1:1"), 1, NoZygote(), loop, LogTail())  # type: ignore[arg-type]
    yield agent
    agent._conversation.end()
    agent.disconnect()
    loop.close()


def fail(*arguments: Any) -> Any:
    raise ValueError("it fails")


@pytest.mark.parametrize("method", ["take_effects", "next_deadline", "on_deadline"])
def test_an_agent_that_fails_in_every_turn_ends_with_a_diagnosis(
    method: str, agent: AgentShell, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(agent._core, "next_deadline", lambda: 0.0)
    monkeypatch.setattr(agent._core, method, fail)
    with pytest.raises(SystemExit) as ended:
        agent._conversation._loop._loop.run_until_complete(agent.run())
    assert ended.value.code == BROKEN_CODE
    assert "it fails" in caplog.text and "consecutive turns failed" in caplog.text


def test_a_turn_that_fails_once_is_repeated(agent: AgentShell, monkeypatch: pytest.MonkeyPatch) -> None:
    take_effects, calls = agent._core.take_effects, []

    def fail_first(now: float) -> Any:
        calls.append(now)
        return take_effects(now) if len(calls) > 1 else fail()

    monkeypatch.setattr(agent._core, "take_effects", fail_first)
    agent._conversation._loop.call_later(0.3, agent.stop)
    assert agent._conversation._loop._loop.run_until_complete(agent.run()) == 0


def test_a_message_that_is_not_taken_in_makes_the_agent_say_what_it_has() -> None:
    stage = Stage(1)
    stage.give(run_of(2))
    stage.sent.clear()
    stage.core.on_not_taken_in(stage.now)
    stage.turn()
    (hello,) = stage.bodies(Hello)
    assert hello.epoch == 0


def test_a_send_that_fails_makes_the_agent_say_what_it_has() -> None:
    stage = Stage(1)
    stage.sent.clear()
    stage.core.on_not_carried_out(Send(b"", Envelope(HeartbeatEcho(0.0))), stage.now)
    stage.turn()
    assert stage.bodies(Hello)


def test_tasks_that_could_not_be_handed_over_go_to_another_process() -> None:
    stage = Stage(1)
    stage.give(run_of(2))
    effect = next(each for each in stage.effects if isinstance(each, DispatchTasks))
    stage.core.on_not_carried_out(effect, stage.now)
    stage.turn()
    assert stage.kills == 1
    stage.die(0, signal="SIGKILL")
    stage.run_all()
    assert {status for status, _ in stage.results().values()} == {Status.SUCCESS}


def test_a_message_for_which_there_is_no_memory_costs_the_connection(
    agent: AgentShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheduler repeats it over the next one."""

    def lack_memory(frames: Any) -> Any:
        raise MemoryError

    cut: list[str] = []
    monkeypatch.setattr("scaler_worker.shell.conversation.decode", lack_memory)
    monkeypatch.setattr(agent._conversation._connection, "cut", lambda: cut.append("cut"))
    with pytest.raises(MemoryError):
        agent._conversation._read([b"a message"], 0.0)
    assert cut == ["cut"]
