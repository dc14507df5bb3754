"""What an open page is told, from a made-up stream."""

from __future__ import annotations

import datetime
import json
import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from scaler_protocol.monitor.messages import Events, Snapshot
from scaler_protocol.monitor.model import HISTORIES, Model
from scaler_protocol.monitor.records import NONE
from scaler_protocol.monitor.tables import TABLES
from scaler_scheduler.web.answers import answer, specification, stream
from scaler_scheduler.web.page import WATCH_LIMIT, Page
from scaler_scheduler.web.samples import Samples
from scaler_scheduler.web.status import PATIENCE_SECONDS, badges, live_status
from tests.support.monitor_stream import START_TIME, synthetic_messages
from tests.unit.monitor.test_actor_names import model as model_of_actors

ADDRESS = "ipc:///tmp/127.0.0.1_2345_monitor"


def table(name: str, **given: Any) -> dict[str, Any]:
    query = {"what": "table", "table": name, "filter": "", "sort": TABLES[name].default_sort, "descending": True}
    return {**query, "offset": 0, "limit": 20, **given}


STREAM = {"what": "stream", "end": None, "span": 5.0, "width": 1000, "first": 0, "rows": 100}


@pytest.fixture(scope="module")
def model() -> Model:
    made = Model(0.0)
    for message in synthetic_messages(5.0, 16, 500):
        made.apply(message, 5.0)
    return made


def texts(row: list[Any]) -> list[str]:
    return [cell if isinstance(cell, str) else cell[0] for cell in row]


def pushed(page: Page, model: Model, quick: bool = False, **status: Any) -> tuple[dict[str, Any], list[bytes]]:
    """The results and the streams of one push."""
    messages = page.push(model, status, quick)
    parsed = [json.loads(message) for message in messages if isinstance(message, str)]
    assert len(parsed) <= 1
    return (parsed[0] if parsed else {}), [message for message in messages if isinstance(message, bytes)]


# ---- pages ---------------------------------------------------------------------------------------------------------


def test_nothing_is_sent_twice(model: Model) -> None:
    page = Page()
    page.watch({"a": table("workers"), "b": STREAM})
    message, streams = pushed(page, model, state="live")
    assert (set(message["results"]), len(streams), message["status"]) == ({"a"}, 1, {"state": "live"})
    assert pushed(page, model, state="live") == ({}, [])
    message, streams = pushed(page, model, state="lost")
    assert (message["results"], streams, message["status"]) == ({}, [], {"state": "lost"})


def test_what_is_watched_anew_is_sent_and_the_rest_is_not(model: Model) -> None:
    page = Page()
    page.watch({"a": table("workers"), "b": table("clients")})
    pushed(page, model)
    page.watch({"a": table("workers"), "b": table("clients", filter="ab")})
    assert set(pushed(page, model)[0]["results"]) == {"b"}
    page.watch({"a": table("workers")})
    page.watch({"a": table("workers"), "b": table("clients", filter="ab")})
    assert set(pushed(page, model)[0]["results"]) == {"b"}


def test_a_page_is_behind_until_it_has_shown_what_it_got(model: Model) -> None:
    page = Page()
    assert not page.is_behind
    number = pushed(page, model, state="live")[0]["number"]
    assert page.is_behind
    page.saw(number)
    assert not page.is_behind


def test_quick_turns_leave_out_what_changes_slowly() -> None:
    model, page = Model(0.0), Page()
    messages = iter(synthetic_messages(3.0, 4, 200))
    for message in messages:
        model.apply(message, 0.0)
        if isinstance(message, Events) and model.log.total:
            break
    page.watch({"a": table("tasks"), "b": STREAM})
    assert pushed(page, model, quick=True)[0]["results"]
    for message in messages:
        model.apply(message, 0.0)
    message, streams = pushed(page, model, quick=True)
    assert (message["results"], len(streams)) == ({}, 1)
    assert set(pushed(page, model)[0]["results"]) == {"a"}


def test_badges_and_numbers_of_a_page_come_from_one_snapshot() -> None:
    model, page = Model(0.0), Page()
    page.watch({"overview": {"what": "overview"}})
    seen, status = [], {}
    for number, message in enumerate(each for each in synthetic_messages(6.0, 4, 200) if isinstance(each, Snapshot)):
        model.apply(message, 0.0)
        if number == 3:
            page.watch({"overview": {"what": "overview", "visit": 2}})
        message_to_page = pushed(page, model, quick=number != 5, **live_status(model, 0.0, ADDRESS))[0]
        status = message_to_page.get("status", status)
        seen.append({name: tuple(badge) for name, badge in status["badges"].items()} == badges(model))
    assert seen == [True, False, False, True, False, True, False, False]


def test_a_page_cannot_ask_for_everything() -> None:
    with pytest.raises(ValueError):
        Page().watch({str(number): table("workers") for number in range(WATCH_LIMIT + 1)})


# ---- answers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_a_text_for_each_column(model: Model, name: str) -> None:
    result = answer(model, table(name))
    assert len(result["rows"]) == len(result["keys"]) == min(20, result["total"])
    assert len(set(result["keys"])) == len(result["keys"])
    for row in result["rows"]:
        assert len(row) == len(specification(TABLES[name])["columns"])
        assert all(isinstance(text, str) for text in texts(row))


def test_paging_reaches_every_task(model: Model) -> None:
    total = answer(model, table("tasks"))["total"]
    seen = [
        key
        for offset in range(0, total, 700)
        for key in answer(model, table("tasks", offset=offset, limit=700))["keys"]
    ]
    assert total == model.log.total == len(seen) == len(set(seen))


def test_the_tooltip_of_a_call_names_its_actor() -> None:
    facts = [dict(answer(model_of_actors(), {"what": "task", "serial": serial})["facts"]) for serial in (0, 1)]
    assert [each.get("actor") for each in facts] == ["ledger", None]


def test_a_log_that_starts_late_says_so(model: Model) -> None:
    late = Model(0.0)
    assert model.snapshot is not None
    late.apply(model.snapshot, 1.0)
    assert answer(late, table("tasks"))["note"].endswith("tasks ended in all; the earliest are not listed")
    assert answer(model, table("tasks"))["note"] == ""


def test_failures_say_how_many_there_were_in_truth(model: Model) -> None:
    assert model.snapshot is not None
    seen, failed = model.activity.failures.total, model.snapshot.tasks.failed
    shown = answer(model, table("failures"))
    causes = "causes" if shown["total"] != 1 else "cause"
    assert shown["note"] == f" {causes} of {seen} failed executions, {failed} tasks failed"
    one = answer(model, table("failures", limit=1, filter=shown["rows"][0][2]))
    assert one["note"].startswith(" cause of ") == (one["total"] == 1)


def test_a_page_of_another_version_is_refused(model: Model) -> None:
    for query in (
        {"what": "no such thing"},
        {"what": "table"},
        {**table("workers"), "table": "nothing"},
        table("workers", sort="nothing"),
    ):
        with pytest.raises((KeyError, ValueError, TypeError)):
            answer(model, query)


def test_the_overview_is_exact(model: Model) -> None:
    assert model.snapshot is not None
    tasks, shown = model.snapshot.tasks, answer(model, {"what": "overview"})
    assert shown["success"][0] == f"{tasks.success:,}"
    assert shown["failed"][0] == f"{tasks.failed:,}"
    assert shown["canceled"][0] == f"{tasks.canceled:,}"
    assert shown["workers"][:2] == ["16", "on 2 hosts"]


def test_the_overview_tells_failed_executions_from_failed_tasks(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    assert model.snapshot is not None
    without = replace(model.snapshot, tasks=replace(model.snapshot.tasks, failed=0))
    monkeypatch.setattr(model, "snapshot", without)
    assert answer(model, {"what": "overview"})["failed"][1:] == [
        f"{model.activity.failures.total:,} failed executions", False,
    ]  # fmt: skip


def test_all_answers_of_a_model_that_has_heard_nothing() -> None:
    empty = Model(0.0)
    for what in ("overview", "scheduler", "processes", "graphs"):
        assert json.dumps(answer(empty, {"what": what}))
    assert answer(empty, {"what": "failure", "group": 0}) == {"text": ""}
    assert answer(empty, {"what": "task", "serial": 0}) is None
    for name in TABLES:
        assert answer(empty, table(name))["total"] == 0
    head, _ = parsed_stream(stream(empty, STREAM, "key"))
    assert (head["count"], head["total_rows"], head["oldest"]) == (0, 0, None)


def test_worker_processes_and_graphs(model: Model) -> None:
    hosts = answer(model, {"what": "processes"})["hosts"]
    assert sum(len(host["workers"]) for host in hosts) == 16
    for graph in answer(model, {"what": "graphs"})["graphs"]:
        assert sum(share for _, _, share in graph["parts"]) == pytest.approx(1.0)


# ---- the task stream -----------------------------------------------------------------------------------------------

COLUMNS = "QfffIIIB"


def parsed_stream(message: bytes) -> tuple[dict[str, Any], list[tuple[Any, ...]]]:
    """As the page does: serials, x0, x1, busy, rows, functions, counts, statuses, each aligned to its own size."""
    (size,) = struct.unpack_from("<I", message)
    head, at, columns = json.loads(message[4 : 4 + size]), 4 + size, []
    for code in COLUMNS:
        columns.append(struct.unpack_from(f"<{head['count']}{code}", message, at))
        at += head["count"] * struct.calcsize(code)
    assert at == len(message)
    return head, columns


def test_bars_stand_for_all_tasks(model: Model) -> None:
    span = model.time - 1_600_000_000
    head, columns = parsed_stream(stream(model, {**STREAM, "end": model.time + 1, "span": 30.0}, "key"))
    serials, x0, x1, busy, rows, functions, counts, statuses = columns
    assert span > 0 and head["key"] == "key" and head["total_rows"] == len(model.stream_rows())
    assert sum(counts) == head["tasks"] > 2000
    assert all(0 <= left <= right <= head["width"] for left, right in zip(x0, x1, strict=True))
    assert set(map(str, functions)) <= set(head["functions"])
    assert {0, 1, 2} >= set(statuses) and max(rows) < len(head["rows"]) and max(busy) <= 1
    facts = dict(answer(model, {"what": "task", "serial": serials[0]})["facts"])
    assert facts["worker"] == head["rows"][rows[0]][0]


def test_a_window_of_the_rows(model: Model) -> None:
    whole, _ = parsed_stream(stream(model, STREAM, "key"))
    part, _ = parsed_stream(stream(model, {**STREAM, "first": 5, "rows": 3}, "key"))
    assert (part["first"], part["rows"]) == (5, whole["rows"][5:8])


def test_rows_for_no_certain_worker_come_last_and_only_with_tasks() -> None:
    model = Model(0.0)
    for message in synthetic_messages(2.0, 8, 100):
        model.apply(message, 0.0)
    nobody = model.activity.worker_index(0, NONE)
    head, _ = parsed_stream(stream(model, STREAM, "key"))
    assert (head["total_rows"], len(head["rows"])) == (8, 8)
    model.log.append(10**9, int(model.time * 1e6), 1000, 0, 0, nobody)
    model.activity.unplaced_runs[nobody] = int(model.time * 1e6) - 1000, int(model.time * 1e6)
    head, _ = parsed_stream(stream(model, STREAM, "key"))
    assert (head["total_rows"], head["rows"][-1][0]) == (9, "node-0, unknown worker")


# ---- histories -----------------------------------------------------------------------------------------------------


def test_each_sample_comes_once_and_settled() -> None:
    model, samples = Model(0.0), Samples()
    times: list[float] = []
    for message in synthetic_messages(10.0, 4, 50):
        model.apply(message, 0.0)
        new = samples.new(model)
        if new is not None:
            assert not (new["reset"] and times)
            assert set(new["values"]) == set(HISTORIES)
            assert {len(values) for values in new["values"].values()} == {len(new["times"])}
            times += new["times"]
    assert times == sorted(set(times)) and len(times) >= 9


def test_a_line_ends_where_nothing_was_heard() -> None:
    model, samples = Model(0.0), Samples()
    columns: list[tuple[float, float | None]] = []
    for message in synthetic_messages(20.0, 4, 50):
        if not 8.0 < message.time - START_TIME < 16.0:
            model.apply(message, 0.0)
        new = samples.new(model)
        if new is not None:
            columns += zip(new["times"], new["values"]["running"], strict=True)
    (place,) = [place for place, (_, value) in enumerate(columns) if value is None]
    before, gap, after = (columns[place + step][0] for step in (-1, 0, 1))
    assert before + 1 == gap and after - before > 7
    assert [time for time, _ in columns] == sorted({time for time, _ in columns})


def test_another_past_starts_anew(model: Model) -> None:
    samples = Samples()
    first, again, other = samples.new(model), samples.new(model), samples.new(Model(0.0))
    assert first is not None and first["reset"] and first["times"]
    assert again is None
    assert other is not None and other["reset"] and not other["times"]


# ---- sentences -----------------------------------------------------------------------------------------------------


def sentences(model: Model, now: float) -> list[str]:
    return [text for _, text in live_status(model, now, ADDRESS)["notices"]]


def first_snapshot(**scheduler: Any) -> Snapshot:
    found = next(message for message in synthetic_messages(1.0) if isinstance(message, Snapshot))
    return replace(found, scheduler=replace(found.scheduler, **scheduler))


def test_silence_is_said_after_a_while() -> None:
    model = Model(100.0)
    assert not sentences(model, 100.0 + PATIENCE_SECONDS / 2)
    assert [text for text in sentences(model, 110.0) if ADDRESS in text and "monitor address" in text]
    model.apply(first_snapshot(), 111.0)
    assert not sentences(model, 112.0)
    assert live_status(model, 112.0, ADDRESS)["state"] == "live"
    assert ["silent" in text for text in sentences(model, 120.0)] == [True]


def test_a_cluster_without_workers_says_how_to_get_some() -> None:
    model = Model(0.0)
    model.apply(replace(first_snapshot(), agents=()), 1.0)
    assert sentences(model, 1.0) == ["There are no workers: start some with scaler_cluster tcp://127.0.0.1:2345"]


def test_what_the_scheduler_cannot_do_is_said() -> None:
    model = Model(0.0)
    model.apply(replace(first_snapshot(), trouble="The event log x cannot be written."), 1.0)
    assert sentences(model, 1.0) == ["The event log x cannot be written."]


def test_what_cannot_be_read_is_one_sentence() -> None:
    model = Model(0.0)
    model.refuse("the scheduler uses monitor protocol 9, this program 1: use both from the same release")
    assert len(sentences(model, 10.0)) == 1
    assert "use both from the same release" in sentences(model, 10.0)[0]


def test_a_restart_is_said_for_a_minute() -> None:
    model = Model(0.0)
    model.apply(first_snapshot(epoch=1), 1.0)
    model.apply(first_snapshot(epoch=2), 2.0)
    assert ["restarted" in text for text in sentences(model, 3.0)] == [True]
    model.apply(first_snapshot(epoch=2), 70.0)
    assert not sentences(model, 70.0)


def test_badges_are_short(model: Model) -> None:
    badges: Mapping[str, Any] = live_status(model, 5.0, ADDRESS)["badges"]
    assert badges["workers"] == ("16", False)
    assert all(len(text) <= 6 for text, _ in badges.values())


def test_a_page_finds_a_time_of_the_past(model: Model) -> None:
    text = f"{datetime.datetime.fromtimestamp(START_TIME + 2):%H:%M:%S}"
    assert answer(model, {"what": "moment", "text": text}) == {"text": text, "time": START_TIME + 2, "problem": ""}
    unknown = answer(model, {"what": "moment", "text": "1999-01-01T00:00"})
    assert unknown["time"] is None and unknown["problem"].startswith("Cannot go to 1999-01-01T00:00")
    assert len(answer(model, {"what": "moment", "text": "x" * 10_000})["problem"]) < 300
