"""Progress and the estimate of its end, as all monitors show them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scaler_protocol.monitor import feed
from scaler_protocol.monitor.entities import page_of
from scaler_protocol.monitor.format import format_end
from scaler_protocol.monitor.links import EntityLink, row_link
from scaler_protocol.monitor.messages import (
    ActorStatus,
    ClientStatus,
    FunctionStatus,
    GraphStatus,
    MapStatus,
    RunningTaskStatus,
    Snapshot,
    TaskCounts,
    WaitGroup,
)
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.progress import (
    ALL,
    CLIENT,
    FUNCTION,
    GRAPH,
    GROUP,
    MAP,
    Pace,
    ProgressWatch,
    left_text,
    seconds_left,
    short_left_text,
)
from scaler_protocol.monitor.reasons import (
    LIMIT_TAKEN_BY_ACTORS,
    MISSING_CAPABILITIES,
    NO_AVAILABLE_WORKER,
    NO_WORKERS,
    RESULTS_MISSING,
)
from scaler_protocol.monitor.tables import CLIENTS, PROGRESS
from tests.support.monitoring import agent_status, snapshot

SESSION = b"\xab" * 16


def at(time: float, ended: int, unfinished: int, *, epoch: int = 7) -> Snapshot:
    """One client and one function that have all the tasks."""
    return replace(
        snapshot(epoch=epoch),
        time=time,
        tasks=TaskCounts(unassigned=max(0, unfinished - 4), running=min(4, unfinished), success=ended),
        clients=(ClientStatus(SESSION, "notebook", 777, True, unfinished, 0, ended, group="night"),),
        functions=(FunctionStatus(b"\x01" * 16, "simulate", unfinished, ended, ended),),
    )


def watched(*snapshots: Snapshot) -> ProgressWatch:
    watch = ProgressWatch()
    for each in snapshots:
        watch.add(each)
    return watch


def test_the_estimate_is_the_remaining_tasks_at_the_recent_pace() -> None:
    assert seconds_left(100, 10, 5.0) == 50.0
    assert seconds_left(100, 0, 5.0) == 0.0
    watch = watched(*(at(1000.0 + second, 50 * second, 1_000 - 50 * second) for second in range(11)))
    assert {row.kind for row in watch.rows} == {ALL, CLIENT, GROUP, FUNCTION}
    assert all(row.seconds_left == pytest.approx(10.0) for row in watch.rows)
    assert all((row.ended, row.unfinished, row.share) == (500, 500, 0.5) for row in watch.rows)


def test_a_pace_follows_a_change_within_a_minute() -> None:
    pace = Pace(0.0, 0)
    for second in range(1, 601):
        pace.add(second, 10 * second)
    for second in range(1, 91):
        pace.add(600 + second, 6_000 + 100 * second)
    assert pace.seconds_left(1_000) == pytest.approx(10.0, rel=0.1)


def test_long_tasks_have_an_estimate_between_their_ends() -> None:
    """Four at a time for five minutes each: 75 s a task."""
    pace = Pace(0.0, 0)
    for second in range(1, 1_501):
        pace.add(second, 4 * (second // 300))
        if second >= 900:
            assert 50 * 60 < pace.seconds_left(60) < 110 * 60


def test_nothing_ends_before_a_part_of_it() -> None:
    """A client with many short tasks does not hide the time that the long ones of another client take."""
    other, number = b"\xcd" * 16, 5

    def both(second: int) -> Snapshot:
        short, long = 100 * second, second // 10
        return replace(
            snapshot(),
            time=1000.0 + second,
            tasks=TaskCounts(unassigned=14_000 - short + 60 - long, success=short + long),
            clients=(
                ClientStatus(SESSION, "notebook", 777, True, 14_000 - short, 0, short, group="night"),
                ClientStatus(other, "server", 778, True, 60 - long, 0, long, group="night"),
            ),
            functions=(
                FunctionStatus(b"\x01" * 16, "short", 14_000 - short, short, short),
                FunctionStatus(b"\x02" * 16, "long", 60 - long, long, long),
            ),
            maps=(MapStatus(other, number, "long", 60, 60 - long, 0),),
        )

    watch = watched(*map(both, range(121)))
    rows = [
        watch.find(*each)
        for each in ((MAP, (other, number)), (CLIENT, other), (FUNCTION, "long"), (GROUP, "night"), (ALL, ""))
    ]
    assert [row and row.seconds_left for row in rows] == [pytest.approx(480.0, rel=0.1)] * 5
    short = watch.find(FUNCTION, "short")
    assert short is not None and short.seconds_left == pytest.approx(20.0, rel=0.1)


def overrunning(second: float, *running: RunningTaskStatus) -> Snapshot:
    """Of 102 tasks, 100 have ended within a second, and two have not."""
    return replace(
        at(1000.0 + second, 100 if second else 0, 2 if second else 102),
        maps=(MapStatus(SESSION, 3, "simulate", 102, 2), MapStatus(SESSION, 4, "simulate", 102, 2)),
        graphs=(GraphStatus(SESSION, 60, 102, done=100 if second else 0), GraphStatus(SESSION, 162, 102)),
        agents=(replace(agent_status(), running=running),),
    )


def least(*running: RunningTaskStatus) -> dict[str, float]:
    watch = watched(overrunning(0.0), overrunning(1.0, *running))
    return {row.kind: row.seconds_left for row in watch.rows if row.seconds_left}


@pytest.mark.parametrize(
    ("usual", "seconds", "left"), [(0.01, 300.0, 299.99), (20.0, 5.0, 15.0), (20.0, 30.0, 10.0), (0.0, 60.0, 60.0)]
)
def test_no_estimate_is_less_than_running_tasks_show(usual: float, seconds: float, left: float) -> None:
    known = {"usual_seconds": usual, "map_number": 3, "graph": 60}
    older = RunningTaskStatus(SESSION, "simulate", b"", 100, 1, 0, 17, seconds, **known)
    newer = replace(older, task=101, seconds=usual or seconds / 2)
    assert least(older, newer) == dict.fromkeys((ALL, CLIENT, GROUP, FUNCTION, GRAPH), pytest.approx(left))
    estimate = least()
    assert estimate == {kind: pytest.approx(0.02) for kind in estimate} and ALL in estimate


def test_running_tasks_of_other_clients_functions_maps_and_graphs_show_nothing() -> None:
    other = RunningTaskStatus(b"\xcd" * 16, "other", b"", 100, 1, 0, 17, 300.0, map_number=3, graph=60)
    found = least(other)
    assert found.pop(ALL) == 300.0
    assert found == {kind: pytest.approx(0.02) for kind in (CLIENT, GROUP, FUNCTION, GRAPH)}


def test_maps_have_the_estimate_of_their_own_running_tasks() -> None:
    task = RunningTaskStatus(SESSION, "simulate", b"", 100, 1, 0, 17, 300.0, usual_seconds=0.01, map_number=3)
    before = replace(overrunning(0.0), maps=tuple(MapStatus(SESSION, each, "simulate", 102, 102) for each in (3, 4)))
    watch = watched(before, overrunning(1.0, task))
    first, second = watch.find(MAP, (SESSION, 3)), watch.find(MAP, (SESSION, 4))
    assert first and first.seconds_left == pytest.approx(299.99)
    assert second and second.seconds_left == pytest.approx(0.02)


def test_actors_and_tasks_that_wait_for_others_show_nothing() -> None:
    actor = RunningTaskStatus(SESSION, "simulate", b"", 100, 1, 0, 17, 300.0, actor=True)
    blocked = replace(actor, actor=False, blocked=True)
    assert least(blocked)[ALL] == pytest.approx(0.02)
    assert least(actor)[ALL] < 1.0
    assert least(replace(blocked, usual_seconds=10.0))[ALL] == 290.0


def test_running_tasks_give_no_estimate_where_there_is_none() -> None:
    task = RunningTaskStatus(SESSION, "simulate", b"", 0, 1, 0, 17, 300.0)
    running = replace(at(1001.0, 0, 10), agents=(replace(agent_status(), running=(task,)),))
    assert {row.seconds_left for row in watched(at(1000.0, 0, 10), running).rows} == {0.0}


def test_nothing_is_estimated_before_a_task_has_ended() -> None:
    watch = watched(at(1000.0, 0, 10), at(1001.0, 0, 10))
    assert [row.seconds_left for row in watch.rows] == [0.0] * 4


def test_what_is_done_leaves_all_but_the_row_of_all_tasks() -> None:
    watch = watched(at(1000.0, 0, 10), at(1001.0, 10, 0))
    (row,) = watch.rows
    assert (row.kind, row.share, row.seconds_left) == (ALL, 1.0, 0.0)
    assert watch.find(CLIENT, SESSION) is None


def test_a_second_job_does_not_count_the_pause_before_it() -> None:
    watch = watched(at(1000.0, 10, 0), at(5000.0, 10, 100), at(5001.0, 20, 90))
    found = watch.find(FUNCTION, "simulate")
    assert found is not None and found.seconds_left == pytest.approx(9.0)


def test_a_clock_that_is_set_back_and_counts_that_begin_again_do_no_harm() -> None:
    model = Model(0.0)
    for number, each in enumerate((at(1000.0, 50, 50), at(400.0, 60, 40), at(401.0, 3, 97, epoch=8))):
        model.apply(each, float(number))
    assert [row.seconds_left for row in model.progress.rows] == [0.0] * 4


def test_a_graph_and_the_failures_of_a_function() -> None:
    shown = replace(
        at(1000.0, 10, 10),
        graphs=(GraphStatus(SESSION, 60, 60, 10, 10, 10, 25, 5, 4),),
        functions=(FunctionStatus(b"\x01" * 16, "simulate", 10, 10, 6, 3, 1),),
    )
    watch = watched(shown)
    graph, function = watch.find(GRAPH, (SESSION, 60)), watch.find(FUNCTION, "simulate")
    assert graph is not None and (graph.done, graph.failed, graph.canceled, graph.unfinished) == (25, 1, 4, 30)
    assert function is not None and (function.done, function.failed, function.canceled) == (6, 3, 1)
    assert function.unfinished == 10


def test_failed_and_cancelled_tasks_of_clients_groups_and_maps_are_counted_apart() -> None:
    clients = (
        ClientStatus(SESSION, "notebook", 777, True, 7, 3, 20, group="night", failed=4, canceled=6),
        ClientStatus(b"\xcd" * 16, "notebook", 778, True, 1, 0, 5, group="night", failed=1, canceled=2),
    )
    shown = replace(
        at(1000.0, 10, 10),
        tasks=TaskCounts(8, 3, 12, 4, 8, 1),
        clients=clients,
        maps=(MapStatus(SESSION, 3, "simulate", 30, 10, 3, 10, canceled=6),),
    )
    watch = watched(shown)
    rows = [watch.find(*each) for each in ((ALL, ""), (CLIENT, SESSION), (GROUP, "night"), (MAP, (SESSION, 3)))]
    assert [row and (row.done, row.failed, row.canceled, row.unfinished) for row in rows] == [
        (12, 5, 8, 11),
        (10, 4, 6, 10),
        (12, 5, 8, 11),
        (10, 4, 6, 10),
    ]
    model = Model(0.0)
    model.apply(shown, 0.0)
    client, _ = sorted(model.rows("clients")[0], key=lambda row: row[CLIENTS.index("pid")])
    assert [client[CLIENTS.index(key)] for key in ("finished", "failed", "canceled")] == [20, 4, 6]


def test_cancelled_tasks_say_nothing_about_the_time_that_the_others_take() -> None:
    def after(seconds: int, done: int, canceled: int, unfinished: int) -> Snapshot:
        clients = (ClientStatus(SESSION, "", 1, True, unfinished, 0, done + canceled, canceled=canceled),)
        return replace(at(1000.0 + seconds, 0, 0), clients=clients)

    watch = watched(after(0, 0, 0, 1_000), after(10, 10, 0, 990), after(20, 20, 900, 80))
    found = watch.find(CLIENT, SESSION)
    assert found is not None and found.seconds_left == pytest.approx(80.0)


def mapping(second: int, sent: int, **more: Any) -> Snapshot:
    """A map has sent so many tasks, of which 10 have ended each second."""
    ended = 10 * second
    named = (MapStatus(SESSION, 3, "simulate", sent, sent - ended, **more),)
    return feed.decode(feed.encode(replace(at(1000.0 + second, ended, sent - ended), maps=named))).message


def test_tasks_that_a_map_has_still_to_submit_count_everywhere() -> None:
    watch = watched(*(mapping(second, 10 * second + 5, to_come=995 - 10 * second) for second in range(5)))
    assert {row.kind for row in watch.rows} == {ALL, CLIENT, GROUP, FUNCTION, MAP}
    assert {(row.unfinished, row.share) for row in watch.rows} == {(960, 0.04)}
    assert all(row.seconds_left == pytest.approx(96.0) for row in watch.rows)


def test_nothing_is_estimated_where_a_map_of_unknown_length_takes_part() -> None:
    other = ClientStatus(b"\xcd" * 16, "notebook", 778, True, 100, 0, 0, group="day")
    seen = [mapping(second, 10 * second + 5, is_open=True) for second in range(5)]
    watch = watched(
        *(
            replace(each, clients=(*each.clients, replace(other, unassigned=100 - 10 * second, finished=10 * second)))
            for second, each in enumerate(seen)
        )
    )
    with_estimate = {(row.kind, row.key) for row in watch.rows if row.seconds_left}
    assert with_estimate == {(CLIENT, other.session), (GROUP, "day")}
    assert len(watch.rows) == 7


def test_schedulers_that_do_not_tell_cancelled_tasks_apart_count_them_as_failed() -> None:
    status = MapStatus(SESSION, 3, "simulate", 30, 10, 3, 10)
    found = watched(replace(at(1000.0, 0, 0), maps=(status,))).find(MAP, (SESSION, 3))
    assert found is not None and (found.done, found.failed, found.canceled) == (10, 10, 0)


def test_the_table_names_the_end_and_other_tables_the_time_left() -> None:
    model = Model(0.0)
    for second in range(3):
        model.apply(at(1000.0 + second, 10 * second, 100 - 10 * second), float(second))
    rows, total = model.rows("progress")
    assert total == 4
    named = [dict(zip((column.key for column in PROGRESS.columns), row, strict=True)) for row in rows]
    assert {row["kind"] for row in named} == {"all", "client", "group", "function"}
    assert {row["end"] for row in named} == {format_end(1002.0 + 8.0, 1002.0)}
    (client,), (function,) = model.rows("clients")[0], model.rows("functions")[0]
    assert client[-1] == pytest.approx(8.0)
    assert function[6:8] == pytest.approx((0.2, 8.0))


def test_an_end_on_another_day_has_its_date() -> None:
    model = Model(0.0)
    for second in range(3):
        model.apply(at(1e9 + 600 * second, second, 1000 - second), float(second))
    assert {row[PROGRESS.index("end")][:5] for row in model.rows("progress")[0]} == {"2001-"}


def test_a_map_has_its_progress_and_a_page() -> None:
    model = Model(0.0)
    for second in range(5):
        left = 100 - 10 * second
        maps = (MapStatus(SESSION, 3, "simulate: fast", 110, left, 4, 2), MapStatus(SESSION, 2, "f", 7))
        said = feed.decode(feed.encode(replace(at(1000.0 + second, 0, 0), maps=maps))).message
        model.apply(said, float(second))
    (row,) = [row for row in model.rows("progress")[0] if row[0] == "map"]
    assert row[1] == "map 3 of abababab: simulate: fast" and row[3] == pytest.approx(6.0)
    assert row[PROGRESS.index("unfinished")] == 60 and row[PROGRESS.index("done")] == 48
    link = row_link("progress", row)
    assert link == EntityLink("map", ("abababab", "3"))
    page = page_of(model, link)
    assert page is not None
    facts = {each.name: each.text for each in page.facts}
    assert facts["function"] == "simulate: fast" and facts["client"] == "abababab"
    names = ("tasks", "done", "failed", "cancelled", "on hosts", "remaining")
    assert [facts[name] for name in names] == ["110", "48", "2", "0", "4", "60"]
    assert facts["progress"] == "45%" and facts["time left"].startswith("6 s left, until ")
    ended = page_of(model, EntityLink("map", ("abababab", "2")))
    assert ended is not None and ("remaining", "0") in [(each.name, each.text) for each in ended.facts]
    assert page_of(model, EntityLink("map", ("abababab", "1"))) is None


def test_tasks_of_a_function_that_do_not_wait_are_on_hosts() -> None:
    waits = (
        WaitGroup(b"\x01" * 16, "simulate", "All workers are busy.", 5),
        WaitGroup(b"\x01" * 16, "simulate", "Waits for results.", 2),
    )
    shot = replace(at(1000.0, 10, 10), waits=waits, wait_count=2)
    for each, expected in ((shot, 3), (replace(shot, wait_count=3), 0)):
        found = watched(each).find(FUNCTION, "simulate")
        assert found is not None and found.on_hosts == expected


def test_functions_whose_waiting_tasks_are_not_all_listed_count_only_long_tasks_on_hosts() -> None:
    running = RunningTaskStatus(b"s", "simulate")
    waits = (WaitGroup(b"", "other functions", "All workers are busy.", 5),)
    shot = replace(at(1000.0, 10, 10), waits=waits, wait_count=1, agents=(replace(agent_status(), running=(running,)),))
    found = watched(shot).find(FUNCTION, "simulate")
    assert found is not None and found.on_hosts == 1


GPU = f"{MISSING_CAPABILITIES.capitalize()} (gpu=1)."
PAUSED = f"{NO_AVAILABLE_WORKER.capitalize()} paused (4 on host a.b) or silent (9 on 2 hosts)."
NEEDS_RESULTS = f"{RESULTS_MISSING.capitalize()}."


def group(count: int, reason: str, function: str = "simulate", session: bytes = SESSION, demand: str = "") -> WaitGroup:
    return WaitGroup(function.encode(), function, reason, count, 30.0, session, demand=demand)


def with_waits(*waits: WaitGroup, seconds: int = 5, **more: Any) -> ProgressWatch:
    """After so many seconds in which 10 of 100 tasks have ended each second. Four are on hosts."""
    seen = (at(1000.0 + second, 10 * second, 100 - 10 * second) for second in range(seconds))
    return watched(*(replace(each, waits=waits, wait_count=len(waits), **more) for each in seen))


def test_tasks_that_no_worker_can_run_do_not_count_and_are_named() -> None:
    watch = with_waits(group(20, GPU, demand="gpu=1"), group(36, "All workers are busy."))
    assert {row.kind for row in watch.rows} == {ALL, CLIENT, GROUP, FUNCTION}
    assert {(row.unfinished, row.cannot_run) for row in watch.rows} == {(60, 20)}
    assert all(row.seconds_left == pytest.approx(4.0) for row in watch.rows)
    text = left_text(watch.rows[0], 1004.0)
    assert text.startswith("4 s left, until ") and text.endswith("; 20 cannot run: no worker has gpu=1")
    assert short_left_text(watch.rows[0]) == "4 s left, 20 cannot run"


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        (GPU, "60 cannot run: no worker has the capabilities that they need"),
        (f"{NO_WORKERS.capitalize()}.", "60 cannot run: no worker is connected"),
        (PAUSED, "60 cannot run: suitable workers are paused (4 on host a.b) or silent (9 on 2 hosts)"),
    ],
)
def test_nothing_is_estimated_when_no_task_can_run(reason: str, text: str) -> None:
    tasks = TaskCounts(unassigned=60, success=40)
    clients = (ClientStatus(SESSION, "notebook", 777, True, 60, 0, 40, group="night"),)
    watch = with_waits(group(60, reason))
    watch.add(replace(at(1005.0, 40, 60), tasks=tasks, clients=clients, waits=(group(60, reason),), wait_count=1))
    assert [(row.kind, left_text(row, 1005.0)) for row in watch.rows] == [
        (kind, text) for kind in (ALL, CLIENT, GROUP, FUNCTION)
    ]
    assert {short_left_text(row) for row in watch.rows} == {"60 cannot run"}


HELD = f"{LIMIT_TAKEN_BY_ACTORS.capitalize()}: 1 in 'night'."


def with_actor(time: float, ended: int, unfinished: int, reason: str = "") -> Snapshot:
    """An actor runs on one host, and the other unfinished tasks wait."""
    actor = RunningTaskStatus(SESSION, "Account", b"", 1, 1, 0, 17, 60.0, actor=True)
    functions = (
        FunctionStatus(b"\x01" * 16, "simulate", unfinished, ended, ended),
        FunctionStatus(b"\x02" * 16, "Account", 1, 0, 0),
    )
    return replace(
        at(time, ended, unfinished),
        tasks=TaskCounts(unassigned=unfinished, running=1, success=ended),
        clients=(ClientStatus(SESSION, "notebook", 777, True, unfinished, 1, ended, group="night"),),
        functions=functions,
        waits=(group(unfinished, reason),) if reason and unfinished else (),
        wait_count=int(bool(reason and unfinished)),
        agents=(replace(agent_status(), running=(actor,)),),
    )


def test_an_actor_that_holds_the_workers_of_its_group_makes_no_estimate_longer() -> None:
    """Ten tasks end each second, then none for three hours, until the actor is ended."""
    seen = [with_actor(1000.0 + second, 10 * second, 100 - 10 * second) for second in range(6)]
    watch = watched(*seen)
    assert {row.kind: row.seconds_left for row in watch.rows if row.kind in (ALL, CLIENT, GROUP)} == {
        kind: pytest.approx(5.0) for kind in (ALL, CLIENT, GROUP)
    }
    for minute in range(1, 181):
        watch.add(with_actor(1005.0 + 60 * minute, 50, 50, HELD))
    text = "50 cannot run: actors hold the workers that their group may use"
    assert {row.kind: left_text(row, 0.0) for row in watch.rows if row.key != "Account"} == dict.fromkeys(
        (ALL, CLIENT, GROUP, FUNCTION), text
    )
    watch.add(with_actor(11_806.0, 60, 40))
    assert [row.seconds_left for row in watch.rows if row.kind == CLIENT] == [pytest.approx(4.0)]


def test_actors_alone_have_no_estimate_and_take_no_time() -> None:
    seen = [with_actor(1000.0 + second, 10 * second, 50 - 10 * second) for second in range(6)]
    watch = watched(*seen, *(with_actor(1005.0 + 60 * minute, 50, 0) for minute in range(1, 181)))
    assert {left_text(row, 0.0) for row in watch.rows} == {"no estimate: only actors run, until they are ended"}
    assert {short_left_text(row) for row in watch.rows} == {"only actors run"}
    watch.add(with_actor(11_806.0, 60, 90))
    assert [row.seconds_left for row in watch.rows if row.kind == CLIENT] == [pytest.approx(9.0)]


def test_an_actor_that_runs_a_call_is_no_task_that_will_end() -> None:
    """Its process shows the call."""
    call = RunningTaskStatus(SESSION, "Account.book", b"", 2, 1, 0, 17, 60.0)
    actor = ActorStatus(SESSION, 1, "Account", "host", "w0", is_made=True, running=1)
    seen = [
        replace(with_actor(1000.0 + second, 10 * second, 100 - 10 * second), actors=(actor,)) for second in range(6)
    ]
    calling = [replace(each, agents=(replace(each.agents[0], running=(call,)),)) for each in seen]
    assert {row.actors for row in watched(*calling).rows if row.kind in (ALL, CLIENT, GROUP)} == {1}
    waiting = [replace(each, actors=(replace(actor, host=""),)) for each in calling]
    assert {row.actors for row in watched(*waiting).rows} == {0}


def test_tasks_that_need_results_of_blocked_tasks_cannot_run_either() -> None:
    tasks, waits = TaskCounts(unassigned=10, success=90), (group(1, GPU, "first"), group(9, NEEDS_RESULTS))
    clients = (ClientStatus(SESSION, "notebook", 777, True, 10, 0, 90),)
    graphs = (GraphStatus(SESSION, 100, 100, 9, 1, 0, 90),)
    shown = replace(at(1000.0, 90, 10), tasks=tasks, clients=clients, waits=waits, wait_count=2, graphs=graphs)
    watch = watched(shown, replace(shown, time=1001.0))
    assert {row.kind: row.cannot_run for row in watch.rows} == {ALL: 10, CLIENT: 10, GRAPH: 10, FUNCTION: 0}
    running = replace(shown, tasks=replace(tasks, running=1), clients=(replace(clients[0], running=1),))
    assert {row.kind: row.cannot_run for row in watched(running).rows if row.kind in (ALL, CLIENT)} == {
        ALL: 1,
        CLIENT: 1,
    }


def test_maps_and_graphs_have_no_estimate_while_tasks_that_cannot_run_may_be_theirs() -> None:
    maps = (MapStatus(SESSION, 1, "simulate", 40, 30, 0), MapStatus(SESSION, 2, "other", 40, 30, 0))
    graphs = (GraphStatus(SESSION, 60, 60, 30, 0, 0, 30),)
    waits = (group(20, GPU), group(36, "All workers are busy."), group(30, "All workers are busy.", "other"))
    watch = with_waits(*waits, maps=maps, graphs=graphs)
    first, second, graph = (
        watch.find(*each) for each in ((MAP, (SESSION, 1)), (MAP, (SESSION, 2)), (GRAPH, (SESSION, 60)))
    )
    assert first and left_text(first, 0.0) == "no estimate: 20 of the tasks of its function cannot run, perhaps its own"
    assert second and not second.obstacle
    assert graph and left_text(graph, 0.0) == "no estimate: 20 of the tasks of its client cannot run, perhaps its own"


def test_a_map_that_has_all_waiting_tasks_of_its_function_has_those_that_cannot_run() -> None:
    watch = with_waits(
        group(20, GPU), group(10, "All workers are busy."), maps=(MapStatus(SESSION, 1, "simulate", 40, 34, 4),)
    )
    found = watch.find(MAP, (SESSION, 1))
    assert found and (found.cannot_run, found.obstacle) == (20, "no worker has the capabilities that they need")


def test_a_map_of_unknown_length_says_why_it_has_no_estimate() -> None:
    found = watched(*(mapping(second, 10 * second + 5, is_open=True) for second in range(5))).find(MAP, (SESSION, 3))
    assert found and left_text(found, 0.0) == "no estimate: further tasks may come, and their number is not known"


def test_the_table_counts_tasks_that_cannot_run() -> None:
    model = Model(0.0)
    model.apply(replace(at(1000.0, 40, 60), waits=(group(20, GPU),), wait_count=1), 0.0)
    assert {row[PROGRESS.index("cannot_run")] for row in model.rows("progress")[0]} == {20}
