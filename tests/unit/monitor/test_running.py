"""Running tasks as monitors show them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler_protocol.limits import NO_WORKER
from scaler_protocol.messages import ControlAction
from scaler_protocol.monitor import feed
from scaler_protocol.monitor.entities import page_of
from scaler_protocol.monitor.links import EntityLink, row_link
from scaler_protocol.monitor.messages import (
    UNLIMITED_RESTARTS,
    ActorStatus,
    FunctionStatus,
    RunningTaskStatus,
    Snapshot,
    WaitGroup,
)
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.operation import targets_of
from scaler_protocol.monitor.running import longest_running, summary_of
from scaler_protocol.monitor.tables import ACTORS, RUNNING, WAITS
from scaler_scheduler.top.lines import Style, text_of
from scaler_scheduler.top.screen import draw
from scaler_scheduler.top.status import running_line
from scaler_scheduler.top.view import View
from scaler_scheduler.web.answers import answer
from tests.support.monitoring import MIB, agent_status, snapshot

TASK = RunningTaskStatus(b"\xab" * 16, "simulate", b"\x01" * 16, 7, 2, 1, 20_001, 60.0, 0.5, 50.0, 99.0, 200 * MIB)


def shown(*tasks: RunningTaskStatus, time: float = 1000.0) -> Snapshot:
    return replace(snapshot((replace(agent_status(), running=tasks),)), time=time)


def model_of(*tasks: RunningTaskStatus) -> Model:
    model = Model(0.0)
    model.apply(shown(*tasks), 0.0)
    return model


def state_of(task: RunningTaskStatus) -> str:
    (row,), _ = model_of(task).rows("running")
    return str(row[RUNNING.index("state")])


def test_a_row_names_function_task_client_worker_and_start() -> None:
    rows, total = model_of(TASK, replace(TASK, task=8, worker=len(agent_status().workers), pid=9, seconds=70.0)).rows(
        "running"
    )
    assert total == 2
    named = [dict(zip((column.key for column in RUNNING.columns), row, strict=True)) for row in rows]
    assert [(row["task"], row["worker"], row["pid"]) for row in named] == [
        (8, f"{agent_status().name} nested 1", 9),
        (7, "w1", 20_001),
    ]
    assert named[1]["started"] == 940.0
    assert (named[1]["function"], named[1]["session"], named[1]["host"]) == ("simulate", "abababab", "sd-1e7d-dfba")
    assert (named[1]["seconds"], named[1]["cpu"], named[1]["rss"], named[1]["usual"]) == (60.0, 99.0, 200 * MIB, 50.0)


def test_a_start_does_not_move_with_the_delay_of_messages() -> None:
    model = model_of(TASK)
    model.apply(shown(replace(TASK, seconds=60.75), time=1001.0), 1.0)
    (row,) = model.running.values()
    assert row.started == 940.0
    model.apply(shown(replace(TASK, attempt=3, seconds=1.5), time=1002.0), 2.0)
    (row,) = model.running.values()
    assert row.started == 1000.5


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, "running"),
        ({"usual_seconds": 6.0}, "stuck? 10x usual"),
        ({"usual_seconds": 6.5}, "running"),
        ({"usual_seconds": 0.5, "seconds": 9.0}, "running"),
        ({"usual_seconds": 0.0, "idle_seconds": 31.0}, "stuck? no CPU 31 s"),
        ({"usual_seconds": 0.0, "idle_seconds": 29.0}, "running"),
        ({"usual_seconds": 50.0, "idle_seconds": 60.0}, "running"),
        ({"usual_seconds": 0.01, "idle_seconds": 60.0}, "stuck? 6,000x usual, no CPU 60 s"),
        ({"usual_seconds": 0.01, "idle_seconds": 60.0, "blocked": True}, "blocked"),
        ({"actor": True}, "actor"),
        ({"actor": True, "usual_seconds": 0.0, "idle_seconds": 31.0}, "stuck? no CPU 31 s"),
    ],
)
def test_what_looks_stuck_is_said(changes: dict[str, float], state: str) -> None:
    assert state_of(replace(TASK, **changes)) == state  # type: ignore[arg-type]


def test_running_tasks_arrive_with_their_agents() -> None:
    agents = (
        replace(agent_status(0), running=(TASK, replace(TASK, task=8))),
        agent_status(1),
        replace(agent_status(2), running=(replace(TASK, task=9, blocked=True), replace(TASK, task=10, actor=True))),
    )
    message = feed.decode(feed.encode(snapshot(agents))).message
    assert isinstance(message, Snapshot)
    assert [agent.running for agent in message.agents] == [agent.running for agent in agents]


def test_processes_for_nested_tasks_count_as_running() -> None:
    nested = replace(TASK, worker=NO_WORKER)
    assert shown(TASK).unfinished.running == 2
    assert shown(TASK, nested).unfinished.running == 3


STUCK = replace(TASK, task=9, seconds=40.0, usual_seconds=2.0, function="hang")


def test_the_terminal_names_the_longest_running_tasks_as_far_as_there_is_room() -> None:
    model = model_of(TASK, STUCK)
    texts = {width: text_of(running_line(model, width)) for width in (20, 60, 120)}
    stuck = "hang 40 s on w1 (stuck? 20x usual)"
    assert texts == {20: "", 60: f"longest: {stuck}", 120: f"longest: {stuck}, simulate 60 s on w1"}
    assert running_line(model_of(), 120) == ()
    styles = [span.style for span in running_line(model, 120)]
    assert styles == [Style.DIM, Style.WARNING, Style.DIM, Style.PLAIN]
    first = [text_of(line) for line in draw(model, View(), 120, 30, 0.0, "").lines]
    assert first[10] == texts[120]
    long = replace(TASK, function="f" * 1000)
    assert text_of(running_line(model_of(long), 80)) == f"longest: {'f' * 49}… 60 s on w1"


def test_the_page_of_a_browser_counts_those_that_look_stuck() -> None:
    overview = {"what": "overview"}
    assert answer(model_of(TASK, STUCK), overview)["running"] == ["2", "1 looks stuck, 8 queued on hosts"]
    assert answer(model_of(TASK), overview)["running"] == ["2", "8 queued on hosts"]


ACTOR = ActorStatus(b"\xab" * 16, 98, "Counter", "node-0", "w1", True, 1, 41, 1, 3, 75.0)


def actors_of(*actors: ActorStatus) -> Model:
    model = Model(0.0)
    model.apply(feed.decode(feed.encode(replace(snapshot((agent_status(),)), actors=actors))).message, 0.0)
    return model


def test_an_actor_has_a_row_with_its_state_calls_and_restarts() -> None:
    others = (
        replace(ACTOR, task=2, running=0, waiting=0, restarts_limit=UNLIMITED_RESTARTS),
        replace(ACTOR, task=3, is_made=False, running=0, waiting=5),
        ActorStatus(b"\xab" * 16, 4, "Counter", waiting=7),
    )
    rows = actors_of(ACTOR, *others).rows("actors")[0]
    named = [dict(zip((column.key for column in ACTORS.columns), row, strict=True)) for row in rows]
    assert [(row["task"], row["state"], row["running"], row["waiting"], row["restarts"]) for row in named] == [
        (98, "busy", 1, 41, "1 of 3"),
        (4, "waiting", 0, 7, "0 of 0"),
        (3, "being made", 0, 5, "1 of 3"),
        (2, "idle", 0, 0, "1, no limit"),
    ]
    assert (named[0]["function"], named[0]["host"], named[0]["worker"]) == ("Counter", "node-0", "w1")
    assert (named[0]["session"], named[0]["seconds"]) == ("abababab", 75.0)


def test_actors_have_their_names_in_all_tables_and_on_their_pages() -> None:
    actor = replace(TASK, actor=True, actor_name="ledger", task=98, session=ACTOR.session, function="Counter")
    agent = replace(agent_status(), running=(actor, replace(actor, actor=False, task=99, worker=1)), host="node-0")
    seen = replace(snapshot((agent,)), actors=(replace(ACTOR, name="ledger"),))
    model = Model(0.0)
    model.apply(feed.decode(feed.encode(seen)).message, 0.0)
    (row,) = model.rows("actors")[0]
    assert row[ACTORS.index("name")] == "ledger"
    assert [row[RUNNING.index("actor")] for row in model.rows("running")[0]] == ["ledger"] * 2
    texts = [summary_of(row).partition(" (")[2] for row in longest_running(model.running.values())]
    assert texts == ["actor ledger)", "actor ledger)"]
    stuck = model_of(replace(STUCK, actor_name="ledger"))
    assert summary_of(*stuck.running.values()).endswith("usual, actor ledger)")
    for link in (("task", ("abababab", "98")), ("worker", ("node-0", "w1")), ("host", ("node-0",))):
        page = page_of(model, EntityLink(*link))
        assert page is not None
        assert any("ledger" in row for section in page.sections for row in section.rows), link
    for width in (80, 120):
        assert any("ledger" in text_of(line) for line in draw(model, View(), width, 30, 0.0, "").lines)


def test_running_and_waiting_tasks_show_priorities_that_are_not_usual() -> None:
    tasks = tuple(replace(TASK, priority=priority, task=priority + 10) for priority in (-3, 0, 12))
    waits = tuple(WaitGroup(b"", "f", f"Reason {priority}.", priority=priority) for priority in (-3, 0, 12))
    mixed = WaitGroup(b"", "f", "Several.", priority=2, lowest_priority=-5, highest_priority=10)
    seen = replace(shown(*tasks), waits=(*waits, mixed), wait_count=4)
    model = Model(0.0)
    model.apply(feed.decode(feed.encode(seen)).message, 0.0)
    for table, further in ((RUNNING, []), (WAITS, ["-5 to 10"])):
        rows = model.rows(table.name)[0]
        assert sorted(row[table.index("priority")] for row in rows) == sorted(["", "-3", "12", *further])


def test_a_row_of_an_actor_leads_to_a_page_that_says_so_and_can_end_it() -> None:
    model = actors_of(ACTOR)
    (row,), _ = model.rows("actors")
    link = row_link("actors", row)
    page = page_of(model, link) if link is not None else None
    assert page is not None and [section.title for section in page.sections] == ["Actor"]
    facts = {fact.name: fact.text for fact in page.facts}
    assert (facts["function"], facts["state"]) == ("Counter", "actor, busy")
    assert targets_of(ACTORS, row)[ControlAction.CANCEL_TASK] == "abababab/98"
    for other in (("client", ("abababab",)), ("host", ("node-0",)), ("worker", ("node-0", "w1"))):
        mentioned = page_of(model, EntityLink(*other))
        assert mentioned is None or any(section.table == "actors" for section in mentioned.sections)


def test_an_actor_of_a_class_whose_name_two_modules_have_names_its_module() -> None:
    model = Model(0.0)
    functions = tuple(FunctionStatus(b"\1" * 16, "Counter", module=module) for module in ("one", "two"))
    actors = (replace(ACTOR, module="two"),)
    model.apply(replace(snapshot(), functions=functions, actors=actors), 0.0)
    assert model.rows("actors")[0][0][0] == "two.Counter"


def test_the_terminal_has_a_page_of_actors() -> None:
    screen = draw(actors_of(ACTOR), View(page="actors"), 80, 24, 0.0, "")
    lines = [text_of(line) for line in screen.lines]
    assert any("1 actor" in line for line in lines)
    (line,) = (line for line in lines if line.startswith("Counter"))
    assert "busy" in line and "1 of 3" in line and "w1" in line
    empty = draw(actors_of(), View(page="actors"), 80, 24, 0.0, "")
    assert any("no client has made an actor" in text_of(line) for line in empty.lines)
