"""Silent agents: each monitor says so on its first page."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler_protocol.monitor.messages import PeerState
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.silence import silence_text, silent_agents
from scaler_scheduler.web.answers import answer
from scaler_scheduler.web.status import live_status
from tests.support.monitoring import agent_status, snapshot

SILENT = {"state": PeerState.SUSPECT, "silent_seconds": 12.0}


def model_of(*agents: object) -> Model:
    model = Model(0.0)
    model.apply(snapshot(agents), 0.0)  # type: ignore[arg-type]
    return model


def test_nothing_is_said_while_all_agents_are_heard() -> None:
    model = model_of(agent_status(0, 2), agent_status(1, 2))
    assert silent_agents(model.snapshot) == [] and silence_text([]) == ""
    assert answer(model, {"what": "overview"})["workers"][1:] == ["on 1 host", False]


def test_overviews_say_how_many_workers_are_paused_and_how_many_leave() -> None:
    paused = agent_status(1, 2, state=PeerState.PAUSED)
    draining = replace(agent_status(2, 1, state=PeerState.PAUSED), draining=True)
    model = model_of(agent_status(0, 2), paused, draining)
    said = ["on 1 host, 2 workers paused, 1 worker draining", False]
    assert answer(model, {"what": "overview"})["workers"][1:] == said
    overview = pytest.importorskip("scaler_gui.models.overview")
    figure = next(each for each in overview.figures(model) if each.title == "busy workers")
    assert figure.text.endswith(" / 5, 2 paused, 1 draining") and figure.tone == ""


def test_an_agent_that_leaves_and_is_not_heard_of_is_silent() -> None:
    silent = replace(agent_status(1, 2, **SILENT), draining=True)  # type: ignore[arg-type]
    assert silent.state_name == "suspect"
    assert answer(model_of(silent), {"what": "overview"})["workers"][1:] == ["on 1 host, 1 silent", True]


def test_the_agent_that_has_been_silent_longest_comes_first() -> None:
    first = agent_status(0, 1, state=PeerState.LOST, silent_seconds=3.0)
    second = agent_status(1, 1, host="far", **SILENT)
    agents = silent_agents(model_of(first, second).snapshot)
    assert agents == [second, first]
    assert silence_text(agents) == f"2 agents are silent, the one on far (pid {second.pid}) for 12 s"
    assert silence_text([second]) == f"the agent on far (pid {second.pid}) has been silent for 12 s"


def test_the_web_says_it_on_every_page_and_on_the_overview() -> None:
    model = model_of(agent_status(0, 2), agent_status(1, 2, host="far", **SILENT))
    assert answer(model, {"what": "overview"})["workers"] == ["4", "on 2 hosts, 1 silent", True]
    ((severity, text, _, table),) = live_status(model, 0.0, "tcp://127.0.0.1:1")["alerts"]
    assert (severity, table) == ("warning", "agents")
    assert text.startswith("The agent on far (pid ") and text.endswith("12 s.")


def test_the_desktop_says_it_and_does_not_count_silent_workers_as_busy() -> None:
    overview = pytest.importorskip("scaler_gui.models.overview")
    status = pytest.importorskip("scaler_gui.models.status")
    model = model_of(agent_status(0, 2), agent_status(1, 3, host="far", **SILENT))
    figure = next(each for each in overview.figures(model) if each.title == "busy workers")
    assert figure.text.endswith(" / 5, 3 silent") and figure.tone == "bad"
    assert status.live_status(model, 0.0, "tcp://127.0.0.1:1").trouble.startswith("The agent on far (pid ")
