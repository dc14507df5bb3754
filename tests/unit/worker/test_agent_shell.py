"""The agent's shell, without processes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scaler_protocol.effects import Log, Send
from scaler_protocol.messages import Envelope, Ping
from scaler_worker.config import ClusterSettings
from scaler_worker.shell.agent import Agent


class NoZygote:
    """Nothing is started here."""

    def attach(self, *arguments: Any) -> None:
        pass

    def fork(self, *arguments: Any) -> None:
        pass


def test_an_effect_that_cannot_be_carried_out_does_not_take_the_others_with_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    loop = asyncio.new_event_loop()
    agent = Agent(ClusterSettings(address="tcp://127.0.0.1:1"), 1, NoZygote(), loop)  # type: ignore[arg-type]
    effects = [Send(b"", Envelope(Ping())), Log("WARNING", "this one is carried out")]
    monkeypatch.setattr("scaler_worker.shell.conversation.encode", lambda envelope: 1 // 0)
    monkeypatch.setattr(agent._core, "take_effects", lambda now: [effects.pop(0) for _ in effects[:]])
    agent._conversation.end_turn()
    agent.disconnect()
    loop.close()
    assert "Send could not be carried out" in caplog.text
    assert "this one is carried out" in caplog.text


def test_a_processor_that_could_not_be_forked_is_told_and_nobody_is_killed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    loop = asyncio.new_event_loop()
    agent = Agent(ClusterSettings(address="tcp://127.0.0.1:1"), 1, NoZygote(), loop)  # type: ignore[arg-type]
    killed = []
    monkeypatch.setattr("os.kill", lambda *arguments: killed.append(arguments))
    monkeypatch.setattr("os.killpg", lambda *arguments: killed.append(arguments))
    agent._conversation.end_turn()
    (number,) = agent._processors.processes
    agent._processors._on_forked(number, 0)
    assert killed == [] and agent._processors.processes == {}
    agent.disconnect()
    loop.close()
    assert "cannot be started" in caplog.text
