"""The memory of hosts: every monitor says how much is used, and of how much."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler_protocol.monitor.entities import page_of
from scaler_protocol.monitor.host_memory import HostMemory, memory_by_host, total_memory
from scaler_protocol.monitor.links import EntityLink
from scaler_protocol.monitor.messages import AgentStatus, PeerState
from scaler_protocol.monitor.model import Model
from scaler_scheduler.top.lines import text_of
from scaler_scheduler.top.screen import draw
from scaler_scheduler.top.view import View
from scaler_scheduler.web.answers import answer
from tests.support.monitoring import agent_status, snapshot

GIBIBYTE = 1024**3


def agent(index: int, host: str, free: int, limit: int) -> AgentStatus:
    made = agent_status(index, 2, host=host)
    return replace(made, rss_free_bytes=free * GIBIBYTE, memory_limit_bytes=limit * GIBIBYTE)


AGENTS = (agent(0, "near", 12, 16), agent(1, "near", 11, 16), agent(2, "far", 1, 8))


def model_of(*agents: AgentStatus) -> Model:
    model = Model(0.0)
    model.apply(snapshot(agents), 0.0)
    return model


def test_agents_of_one_host_share_its_memory() -> None:
    near, far = HostMemory(11 * GIBIBYTE, 16 * GIBIBYTE), HostMemory(GIBIBYTE, 8 * GIBIBYTE)
    assert memory_by_host(AGENTS) == {"near": near, "far": far}
    assert total_memory(AGENTS) == HostMemory(12 * GIBIBYTE, 24 * GIBIBYTE)
    assert (near.used_bytes, near.share, near.text) == (5 * GIBIBYTE, 5 / 16, "5.0 GiB of 16.0 GiB")


def test_what_is_not_known_is_not_counted() -> None:
    assert memory_by_host([agent(0, "new", 0, 0)]) == {}
    assert total_memory([]) == HostMemory() and HostMemory().text == "" and HostMemory().share == 0.0
    older = agent(0, "older", 3, 0)
    assert total_memory([older, *AGENTS]) == total_memory(AGENTS)
    assert total_memory([older]).text == "3.0 GiB free"


def test_the_table_of_hosts_has_a_row_for_each_host_the_fullest_first() -> None:
    rows, total = model_of(*AGENTS).rows("hosts")
    assert total == 2
    assert [row[:5] for row in rows] == [
        ("far", "connected", 7 * GIBIBYTE, 8 * GIBIBYTE, 7 / 8),
        ("near", "connected", 5 * GIBIBYTE, 16 * GIBIBYTE, 5 / 16),
    ]
    assert [row[5] for row in rows] == [GIBIBYTE, 11 * GIBIBYTE]
    assert [row[7:9] for row in rows] == [(2, 1), (4, 2)]


def test_tables_say_which_hosts_are_paused_and_which_leave() -> None:
    paused = replace(AGENTS[1], state=PeerState.PAUSED)
    draining = replace(AGENTS[2], state=PeerState.PAUSED, draining=True)
    model = model_of(AGENTS[0], paused, draining)
    assert [row[:2] for row in model.rows("hosts")[0]] == [("far", "draining"), ("near", "connected; paused")]
    assert [row[3] for row in model.rows("agents")[0]] == ["draining", "connected", "paused"]
    assert {row[1]: row[3] for row in model.rows("workers")[0]}["far"] == "draining"
    page = page_of(model, EntityLink("worker", ("far", draining.workers[0].name)))
    assert page is not None and any(fact.text.endswith(", draining") for fact in page.facts)


def test_the_page_of_a_host_says_it() -> None:
    page = page_of(model_of(*AGENTS), EntityLink("host", ("near",)))
    assert page is not None
    assert ("memory of the host", "5.0 GiB of 16.0 GiB") in [(fact.name, fact.text) for fact in page.facts]


def test_charts_have_a_line_for_all_hosts_and_one_for_their_limit() -> None:
    model = model_of(*AGENTS)
    assert list(model.history("hosts_used")[1]) == [12 * GIBIBYTE]
    assert list(model.history("hosts_limit")[1]) == [24 * GIBIBYTE]


def test_the_overview_of_the_web_says_it_and_turns_red_when_little_is_left() -> None:
    assert answer(model_of(*AGENTS), {"what": "overview"})["memory"] == ["12.0 GiB", "of 24.0 GiB on hosts", False]
    full = answer(model_of(agent(0, "full", 0, 8)), {"what": "overview"})["memory"]
    assert full == ["8.0 GiB", "of 8.0 GiB on hosts", True]
    assert answer(model_of(agent(0, "older", 3, 0)), {"what": "overview"})["memory"][:2] == ["3.0 GiB", "free on hosts"]


def test_the_overview_of_the_desktop_says_it() -> None:
    overview = pytest.importorskip("scaler_gui.models.overview")
    figures = {each.title: each for each in overview.figures(model_of(*AGENTS))}
    assert (figures["memory"].text, figures["memory"].tone) == ("12.0 GiB of 24.0 GiB", "")
    assert [line.name for line in overview.series(model_of(*AGENTS), "memory", 0.0)][-2:] == ["all of hosts", "limit"]


def test_the_overview_of_the_terminal_says_it_of_all_and_of_each_host() -> None:
    screen = draw(model_of(*AGENTS), View(page="overview"), 100, 40, 0.0, "address")
    lines = [text_of(line) for line in screen.lines]
    assert "12.0 GiB of 24.0 GiB, workers" in next(line for line in lines if line.startswith("Memory "))
    assert any(line.startswith("far ") and line.endswith("7.0 GiB of 8.0 GiB") for line in lines)
