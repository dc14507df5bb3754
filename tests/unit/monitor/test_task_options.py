"""Priority, capabilities and limits on the page of a task."""

from __future__ import annotations

import mmap
import os
import struct
from dataclasses import replace

import pytest

from scaler_protocol.messages import Capability, TaskOptions
from scaler_protocol.monitor import feed, links, recorded_names, records
from scaler_protocol.monitor.activity import ShownOptions
from scaler_protocol.monitor.entities import page_of
from scaler_protocol.monitor.kept_names import KeptNames
from scaler_protocol.monitor.links import EntityLink
from scaler_protocol.monitor.messages import Events, WaitGroup
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.recorded_names import RecordedNames
from scaler_protocol.monitor.records import Kind, Naming
from scaler_protocol.monitor.ring import RING_HEADER_BYTES, RingWriter
from scaler_scheduler.shell.event_stream import EventStream
from tests.support.monitoring import snapshot

SECOND = 1_000_000


def model_of(value: dict[str, object]) -> Model:
    """Task 1 has these options, task 2 usual ones, task 3 came before this monitor watched, and what task 4 has is not
    recorded. All have ended."""
    some = [
        records.name_record(Naming.SESSION, 0, {"session": "ab" * 16, "host": "h", "pid": 1}),
        records.name_record(Naming.OPTIONS, 4, value),
        records.name_record(Naming.OPTIONS, 5, {}),
        records.record(Kind.SUBMITTED, time=SECOND, session=0, first=1, count=1, function=0, attempt=4),
        records.record(Kind.SUBMITTED, time=SECOND, session=0, first=2, count=1, function=0, attempt=5),
        records.record(Kind.SUBMITTED, time=SECOND, session=0, first=4, count=1, function=0),
        records.ended_record([1, 2, 3, 4], [1] * 4, [1] * 4, [0] * 4, time=2 * SECOND, session=0, function=0),
    ]
    model = Model(0.0)
    model.apply(Events(10.0, 0, b"".join(some), 0, len(some), 1), 0.0)
    return model


def facts(model: Model, task: int) -> dict[str, str]:
    page = page_of(model, EntityLink(links.TASK, ("abababab", str(task))))
    assert page is not None
    return {each.name: each.text for each in page.facts}


def test_the_page_of_a_task_names_its_priority_and_what_it_needs() -> None:
    options = TaskOptions(
        priority=-2, retries=3, rerun=False, timeout_seconds=90.0, memory_bytes=2 * 1024**3,
        capabilities=(Capability("gpu", 2), Capability("fast", 0, 500_000)),
    )  # fmt: skip
    model = model_of(records.options_value(options))
    shown = facts(model, 1)
    assert (shown["priority"], shown["capabilities"]) == ("-2", "gpu=2, fast=0.5")
    assert (shown["retries"], shown["time limit"], shown["memory limit"]) == ("3", "90s", "2.0 GiB")
    assert shown["runs again"] == "never, once it has started"


def reasons(some: list[bytes], waits: tuple[WaitGroup, ...], task: int) -> list[str]:
    """What the page of a task of the function ``f`` says of it, after these records."""
    names = [
        records.name_record(Naming.SESSION, 0, {"session": "ab" * 16, "host": "h", "pid": 1}),
        records.name_record(Naming.FUNCTION, 0, {"name": "f"}),
    ]
    model = Model(0.0)
    model.apply(replace(snapshot(epoch=1), waits=waits), 0.0)
    model.apply(Events(10.0, 0, b"".join(names + some), 0, len(names + some), 1), 0.0)
    page = page_of(model, EntityLink(links.TASK, ("abababab", str(task))))
    assert page is not None
    return [each.text for each in page.facts if each.name == "may wait because"]


def group(reason: str, demand: str = "", session: bytes = b"\xab" * 16, place: str = "") -> WaitGroup:
    return WaitGroup(b"", "f", reason, 1, 1.0, session, 99, "", demand, place)


def test_the_page_of_a_task_tells_why_tasks_like_it_wait() -> None:
    some = [
        records.name_record(Naming.OPTIONS, 4, {"capabilities": {"gpu": 1, "fast": 0.5}}),
        records.name_record(Naming.OPTIONS, 5, {}),
        records.record(Kind.SUBMITTED, time=SECOND, session=0, first=1, count=1, function=0, attempt=4),
        records.record(Kind.SUBMITTED, time=SECOND, session=0, first=2, count=1, function=0, attempt=5),
    ]
    waits = (
        group("All are busy.", place="You are second."), group("None has it.", "fast=0.5, gpu=1"),
        group("Of another client.", session=b"\xcd" * 16),
    )  # fmt: skip
    assert reasons(some, waits, 1) == ["None has it."]
    assert reasons(some, waits, 2) == ["All are busy. You are second."]
    assert reasons(some, waits[1:], 2) == ["None has it."], "of the function, if there is nothing better"


def test_only_a_task_that_misses_results_waits_for_them() -> None:
    some = [
        *(records.record(Kind.SUBMITTED, time=SECOND, session=0, first=each, count=1, function=0) for each in (1, 2)),
        records.record(
            Kind.GRAPH, time=SECOND, session=0, first=1, count=2, function=0, body=struct.pack("<3Q", 2, 2, 1)
        ),
    ]
    waits = group("Waits for results of other tasks of its graph."), group("All are busy.")
    assert reasons(some, waits, 1) == ["All are busy."]
    assert reasons(some, waits, 2) == ["Waits for results of other tasks of its graph."]
    some.append(records.ended_record([1], [1], [1], [0], time=2 * SECOND, session=0, function=0))
    assert reasons(some, waits, 2) == ["All are busy."]


def test_usual_options_and_unknown_ones() -> None:
    model = model_of(records.options_value(TaskOptions(priority=1)))
    assert (facts(model, 2)["priority"], facts(model, 2)["capabilities"]) == ("0", "none needed")
    assert "retries" not in facts(model, 2)
    for task in (3, 4):
        shown = facts(model, task)
        assert "not known" in shown["priority, capabilities"] and "priority" not in shown


def test_of_many_capabilities_the_first_are_named() -> None:
    many = tuple(Capability(f"{number:02}" + "c" * 100, 1) for number in range(20))
    shown = facts(model_of(records.options_value(TaskOptions(capabilities=many))), 1)["capabilities"]
    assert shown.startswith("00" + "c" * 61 + "…=1, 01") and shown.endswith("…=1 and 4 more")
    assert shown.count("=1") == 16


def test_names_that_differ_only_where_they_are_cut_are_counted() -> None:
    alike = tuple(Capability("c" * 100 + end, 1) for end in "ab")
    value = records.options_value(TaskOptions(capabilities=alike))
    assert (len(value["capabilities"]), value["more_capabilities"]) == (1, 1)


def test_the_latest_options_are_kept() -> None:
    names = [records.name_record(Naming.OPTIONS, 1 + number, {"priority": number}) for number in range(3000)]
    model = Model(0.0)
    model.apply(Events(10.0, 0, b"".join(names), 0, len(names), 1), 0.0)
    assert list(model.activity.options) == list(range(1001, 3001))


def names_of_peers() -> bytes:
    return records.name_record(Naming.AGENT, 0, {"name": "agent"}) + records.name_record(
        Naming.FUNCTION, 0, {"name": "square"}
    )


@pytest.mark.parametrize("kept", [KeptNames(100, 100_000), KeptNames(2, 1000)])
def test_options_push_out_no_other_names(kept: KeptNames) -> None:
    kept.add(names_of_peers())
    for number in range(3000):
        kept.add(records.name_record(Naming.OPTIONS, 1 + number, {"priority": number}))
    assert b"".join(kept.records()[:2]) == names_of_peers()
    assert len(kept.records()) == 2002 and kept.size_bytes == sum(map(len, kept.records()))


def test_functions_push_out_no_names_of_agents_and_sessions() -> None:
    kept = KeptNames(100, 100_000)
    peers = [records.name_record(Naming.SESSION, 0, {}), records.name_record(Naming.AGENT, 0, {"name": "agent"})]
    kept.add(b"".join(peers))
    for number in range(3000):
        kept.add(records.name_record(Naming.FUNCTION, number, {"name": f"f{number}"}))
    assert kept.records()[:2] == peers and len(kept.records()) == 2 + 100


def test_long_options_push_out_one_another() -> None:
    kept = KeptNames(100, 100_000)
    kept.add(names_of_peers())
    for number in range(40):
        kept.add(records.name_record(Naming.OPTIONS, 1 + number, {"capabilities": {"c" * 1_000_000: 1.0}}))
    assert b"".join(kept.records()[:2]) == names_of_peers() and len(kept.records()) == 2 + 16


def test_a_recording_keeps_the_names_of_the_epoch_that_it_plays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded_names, "BYTES_LIMIT", 10_000)
    recorded = RecordedNames()
    recorded.add(1, names_of_peers())
    recorded.add(2, names_of_peers())
    for number in range(500):
        recorded.add(2, records.name_record(Naming.OPTIONS, 1 + number, {"priority": number}))
    assert not list(recorded.parts(1)) and b"".join(recorded.parts(2)).startswith(names_of_peers())


def test_late_watchers_learn_the_names_of_agents_after_very_many_options() -> None:
    descriptor = os.memfd_create("ring")
    os.ftruncate(descriptor, RING_HEADER_BYTES + 1024 * 1024)
    memory = mmap.mmap(descriptor, 0)
    ring, stream = RingWriter(memory), EventStream()
    stream.open(descriptor, 0, 7)
    for each in (names_of_peers()[: len(names_of_peers()) // 2], names_of_peers()[len(names_of_peers()) // 2 :]):
        ring.write(each)
    for number in range(60_000):
        ring.write(records.name_record(Naming.OPTIONS, 1 + number, {"priority": number}))
        if number % 5000 == 0:
            list(stream.take())
    list(stream.take())
    model = Model(0.0)
    for payload in stream.named():
        message = feed.decode(payload).message
        assert isinstance(message, Events)
        model.apply(message, 0.0)
    assert model.activity.agents[0].name == "agent" and model.activity.functions[0].name == "square"
    assert len(model.activity.options) == 2000


@pytest.mark.parametrize(
    "value",
    [
        {"priority": "high", "capabilities": [1], "retries": None, "timeout_seconds": "x", "memory_bytes": []},
        {"priority": 10**400, "capabilities": {"\x1b[31m": float("inf"), "a": None}, "retries": -5},
        {"capabilities": {str(number): 1 for number in range(10_000)}, "timeout_seconds": float("nan")},
        {"capabilities": {"c" * 10_000: 1}, "more_capabilities": -5},
        {"more_capabilities": 10**400},
        {"memory_bytes": 10**400, "timeout_seconds": 10**400},
    ],
)
def test_hostile_options_are_bounded(value: dict[str, object]) -> None:
    shown = model_of(value).activity.options_of(0, 1)
    assert isinstance(shown, ShownOptions) and abs(shown.priority) <= 1 << 63
    assert len(shown.capabilities) <= 16 and not any("\x1b" in name for name, _ in shown.capabilities)
    assert all(len(name) <= 64 for name, _ in shown.capabilities) and 0 <= shown.more_capabilities < 1 << 64
    facts(model_of(value), 1)


def test_the_page_of_an_actor_has_its_name_after_its_end() -> None:
    name = "ledger" * 1000
    shown = facts(model_of(records.options_value(TaskOptions(hosts_actor=True, actor_name=name))), 1)["actor name"]
    assert shown.startswith("ledgerledger") and len(shown) < 1100
    assert facts(model_of({"actor_name": 7}), 1).get("actor name") is None
