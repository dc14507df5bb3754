"""The capabilities of workers: every monitor says what workers offer, and what tasks have left of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler_protocol.messages import UNLIMITED_AMOUNT, Capability
from scaler_protocol.monitor.entities import page_of
from scaler_protocol.monitor.feed import decode, encode
from scaler_protocol.monitor.links import EntityLink
from scaler_protocol.monitor.messages import AgentStatus
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.tables import TABLES, Row
from scaler_protocol.monitor.workers import filter_rows
from scaler_scheduler.top.lines import text_of
from scaler_scheduler.top.screen import draw
from scaler_scheduler.top.view import View
from scaler_scheduler.web.answers import answer
from tests.support.monitoring import agent_status, snapshot
from tests.unit.scheduler.playbook import Playbook, attach, tasks

GPU = replace(agent_status(0, 2, host="near"), capabilities="gpu=1, linux", capabilities_left="gpu 1 of 2")
PLAIN = replace(agent_status(1, 2, host="near"), capabilities="linux")
NOTHING = agent_status(2, 2, host="far")


def model_of(*agents: AgentStatus) -> Model:
    model = Model(0.0)
    model.apply(decode(encode(snapshot(agents))).message, 0.0)
    return model


def cells(model: Model, table: str, *keys: str) -> list[Row]:
    places = [TABLES[table].index(key) for key in keys]
    return [tuple(row[place] for place in places) for row in model.rows(table)[0]]


def test_the_scheduler_says_what_workers_offer_and_what_is_left_of_it() -> None:
    book = Playbook()
    client = book.client()
    book.agent("strong", 2, {"gpu": 2, "linux": UNLIMITED_AMOUNT})
    book.agent("weak")
    client.says(tasks(client, 1, 1, capabilities=(Capability("gpu", 1),)))
    strong, weak = book.core.snapshot(book.now).agents
    assert (strong.capabilities, strong.capabilities_left) == ("gpu=2, linux", "gpu 3 of 4")
    assert (weak.capabilities, weak.capabilities_left) == ("", "")


def test_parts_of_a_device_are_shown_as_fractions() -> None:
    book = Playbook()
    book.agent()
    (agent,) = book.core.state.agents.values()
    agent.attach(replace(attach("agent", 3), capabilities=(Capability("gpu", 0, 500_000),)), 1, book.now)
    assert (agent.shown_capabilities, agent.shown_capabilities_left()) == ("gpu=0.5", "gpu 1.5 of 1.5")


def test_very_many_capabilities_with_long_names_are_cut() -> None:
    book = Playbook()
    book.agent("agent", 1, {f"{number}" + "x" * 1000: 1 for number in range(64)})
    (agent,) = book.core.snapshot(book.now).agents
    assert agent.capabilities.count("=1") == agent.capabilities_left.count(" of 1") == 16
    assert len(agent.capabilities) < 16 * 70


def test_why_a_task_waits_names_what_workers_offer_instead() -> None:
    book = Playbook()
    client = book.client()
    book.agent("strong", 2, {"gpu": 1, "linux": UNLIMITED_AMOUNT})
    book.agent("strong too", 2, {"gpu": 1, "linux": UNLIMITED_AMOUNT})
    book.agent("weak")
    client.says(tasks(client, 1, 1, capabilities=(Capability("gpu", 8),)))
    reason, offers = "No connected worker has the capabilities it needs (gpu=8).", "Workers offer gpu=1, linux; none."
    assert [(each.reason, each.place) for each in book.core.snapshot(book.now).waits] == [(reason, offers)]
    assert book.core.explain(client.session, 1).endswith(f"{reason[1:]} {offers}")
    for number in range(9):
        book.agent(f"other {number}", 1, {f"capability {number}": 1})
    (group,) = book.core.snapshot(book.now).waits
    assert group.place == "Workers offer gpu=1, linux; none; capability 0=1; and 8 others."


def test_tables_of_workers_agents_and_hosts_have_them() -> None:
    model = model_of(GPU, PLAIN, NOTHING)
    workers = cells(model, "workers", "host", "capabilities")
    assert sorted(workers) == [("far", ""), ("far", ""), *[("near", "gpu=1, linux")] * 2, *[("near", "linux")] * 2]
    assert sorted(cells(model, "agents", "name", "capabilities", "capabilities_left")) == [
        ("agent-0", "gpu=1, linux", "gpu 1 of 2"), ("agent-1", "linux", ""), ("agent-2", "", ""),
    ]  # fmt: skip
    assert sorted(cells(model, "hosts", "host", "capabilities", "capabilities_left")) == [
        ("far", "", ""), ("near", "gpu=1, linux; linux", "gpu 1 of 2"),
    ]  # fmt: skip


def test_workers_are_found_by_what_they_offer() -> None:
    model = model_of(GPU, PLAIN, NOTHING)
    assert [row[TABLES["workers"].index("host")] for row in model.rows("workers", "gpu")[0]] == ["near", "near"]
    assert len(filter_rows(model.worker_rows, "GPU")) == 2


def test_the_page_of_a_worker_has_them() -> None:
    model = model_of(GPU, NOTHING)
    for agent, text in ((GPU, "gpu=1, linux"), (NOTHING, "none")):
        page = page_of(model, EntityLink("worker", (agent.host, agent.workers[0].name)))
        assert page is not None
        assert ("capabilities", text) in [(fact.name, fact.text) for fact in page.facts]


@pytest.mark.parametrize("width", [80, 200])
def test_the_terminal_shows_them_by_host(width: int) -> None:
    view = View(page="overview").pressed("H", 20)
    screen = draw(model_of(GPU, PLAIN, NOTHING), view, width, 24, 0.0, "address")
    lines = [text_of(line) for line in screen.lines]
    assert any("capabilities" in line for line in lines)
    assert any(line.startswith("near ") and "gpu=1, linux" in line for line in lines)


def test_a_host_of_the_terminal_leads_to_its_page() -> None:
    model, view = model_of(GPU, NOTHING), View(page="hosts")
    screen = draw(model, view, 100, 30, 0.0, "address")
    opened = view.pressed("enter", screen.page_rows, screen.selected)
    assert isinstance(opened.details_of, EntityLink) and opened.details_of.kind == "host"


def test_the_web_shows_them_with_the_processes_of_each_agent() -> None:
    hosts = answer(model_of(GPU, NOTHING), {"what": "processes"})["hosts"]
    facts = {host["name"]: host["facts"] for host in hosts}
    near = next(shown for name, shown in facts.items() if name.startswith("near"))
    far = next(shown for name, shown in facts.items() if name.startswith("far"))
    assert near[-2:] == ["offers gpu=1, linux", "not taken: gpu 1 of 2"]
    assert not any("offers" in fact or "taken" in fact for fact in far)
