"""The largest objects: their table, their pages, and the links that lead to them."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

import pytest

from scaler_protocol.monitor import feed, links, records
from scaler_protocol.monitor.entities import EntityPage, page_of
from scaler_protocol.monitor.links import EntityLink, row_link
from scaler_protocol.monitor.messages import ClientStatus, Events, ObjectStatus, Snapshot
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.records import Kind, Naming
from scaler_protocol.monitor.stored_objects import label_of
from scaler_scheduler.top.lines import text_of
from scaler_scheduler.top.screen import draw
from scaler_scheduler.top.view import View
from tests.support.monitoring import agent_status, snapshot

CLIENT = b"\xab" * 16
SHORT = "abababab"
MIB = 1024 * 1024
OBJECTS = (
    ObjectStatus(CLIENT, 2**63 + 2**62 - 1, size_bytes=30 * MIB, copies=12, hosts="node-0, node-1 and 10 more",
                 readers=25, reader_tasks="17 18", host_names=("node-0", "node-1")),
    ObjectStatus(CLIENT, 17, size_bytes=20 * MIB, copies=1, hosts="node-0", host_names=("node-0",)),
    ObjectStatus(CLIENT, 2**64 - 2, size_bytes=10 * MIB, copies=1, hosts="node-1", readers=1, reader_tasks="19",
                 host_names=("node-1",)),
    ObjectStatus(b"", 0, b"\x01" * 16, 5 * MIB, 1, "node-0", 7, host_names=("node-0",)),
)  # fmt: skip


def made(*objects: ObjectStatus) -> Model:
    some = [
        records.name_record(Naming.SESSION, 0, {"session": CLIENT.hex(), "host": "laptop", "pid": 1}),
        records.name_record(Naming.FUNCTION, 0, {"digest": "01" * 16, "name": "simulate"}),
        records.record(Kind.SUBMITTED, time=10**6, session=0, first=17, count=3, function=0),
    ]
    model = Model(0.0)
    model.apply(Events(10.0, 0, b"".join(some), 0, len(some), 7), 0.0)
    model.apply(received(*objects), 0.0)
    return model


def received(*objects: ObjectStatus) -> Snapshot:
    said = snapshot(agents=(agent_status(0, host="node-0"),))
    scheduler = replace(said.scheduler, epoch=7)
    said = replace(said, objects=objects, clients=(ClientStatus(CLIENT, "laptop", 1),), scheduler=scheduler)
    message = feed.decode(feed.encode(said)).message
    assert isinstance(message, Snapshot)
    return message


@pytest.fixture
def model() -> Model:
    return made(*OBJECTS)


def page(model: Model, kind: str, *key: str) -> EntityPage:
    found = page_of(model, EntityLink(kind, key))
    assert found is not None
    return found


def facts(page: EntityPage) -> list[tuple[str, str]]:
    return [(each.name, each.text) for each in page.facts]


def test_objects_have_names_for_people() -> None:
    assert list(map(label_of, OBJECTS)) == ["sent-1", "result-17", "argument-2", "function-01010101"]


def test_the_table_has_the_largest_first_and_each_row_a_page(model: Model) -> None:
    rows, total = model.rows("largest")
    assert total == 4 and [row[0] for row in rows] == ["sent-1", "result-17", "argument-2", "function-01010101"]
    assert [row[2] for row in rows] == ["", "simulate", "", "simulate"]
    assert row_link("largest", rows[1]) == EntityLink(links.OBJECT, (SHORT, "result-17"))
    shown = [row for row in rows if (link := row_link("largest", row)) and page_of(model, link) is not None]
    assert len(shown) == 3, "a function without a client that is here has no page of its own in the table"


def test_the_names_of_all_functions_are_looked_at_once() -> None:
    """There may be very many of them, and of sessions."""
    looked_at = []

    class Looked(OrderedDict):  # type: ignore[type-arg]
        def values(self):  # type: ignore[no-untyped-def]
            looked_at.append("functions")
            return super().values()

        def items(self):  # type: ignore[no-untyped-def]
            looked_at.append("sessions")
            return super().items()

    model = made(*(replace(each, number=each.number - n) for n in range(10) for each in OBJECTS if each.number))
    activity = model.activity
    activity.functions, activity.sessions = Looked(activity.functions), Looked(activity.sessions)
    looked_at.clear()
    rows, _ = model.rows("largest")
    assert {row[2] for row in rows} == {"", "simulate"} and sorted(looked_at) == ["functions", "sessions"]


def test_the_page_of_what_a_client_has_sent(model: Model) -> None:
    found = page(model, links.OBJECT, SHORT, "sent-1")
    assert facts(found) == [
        ("sent by", f"client {SHORT}"), ("size", "30.0 MiB"), ("is on", "node-0"), ("is on", "node-1"),
        ("is on", "10 more hosts"), ("needed by", "task 17 simulate"), ("needed by", "task 18 simulate"),
        ("needed by", "23 more unfinished tasks"),
    ]  # fmt: skip
    assert found.facts[5].link == EntityLink(links.TASK, (SHORT, "17"))


def test_the_page_of_a_result_names_its_task(model: Model) -> None:
    assert facts(page(model, links.OBJECT, SHORT, "result-17")) == [
        ("made by", "task 17"), ("client", SHORT), ("function", "simulate"), ("size", "20.0 MiB"), ("is on", "node-0"),
        ("needed by", "no unfinished task"),
    ]  # fmt: skip


def test_the_page_of_a_function_is_found_with_any_client(model: Model) -> None:
    found = page(model, links.OBJECT, "12345678", "function-01010101")
    assert ("needed by", "7 unfinished tasks") in facts(found) and ("function", "simulate") in facts(found)


def test_tasks_clients_and_hosts_lead_to_their_objects(model: Model) -> None:
    task = page(model, links.TASK, SHORT, "17")
    mentioned = {
        each.name: each.link for each in task.facts if each.link is not None and each.link.kind == links.OBJECT
    }
    assert mentioned == {
        "result": EntityLink(links.OBJECT, (SHORT, "result-17")),
        "needs object": EntityLink(links.OBJECT, (SHORT, "sent-1")),
    }
    for kind, key, count in ((links.CLIENT, SHORT, 3), (links.HOST, "node-0", 3)):
        section = next(each for each in page(model, kind, key).sections if each.table == "largest")
        assert section.total == count


def test_an_object_that_is_gone_has_no_page(model: Model) -> None:
    model.apply(received(), 1.0)
    assert page_of(model, EntityLink(links.OBJECT, (SHORT, "result-17"))) is None
    assert page_of(model, EntityLink(links.OBJECT, (SHORT, "nonsense"))) is None


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
def test_a_terminal_has_a_page_of_them(model: Model, size: tuple[int, int]) -> None:
    lines = [text_of(line) for line in draw(model, View(page="largest"), *size, 0.0, "", True).lines]
    assert any("sent-1" in line and "30.0 MiB" in line for line in lines)
    view = View(page="largest").pressed("enter", 20, row_link("largest", model.rows("largest")[0][0]))
    lines = [text_of(line) for line in draw(model, view, *size, 0.0, "", True).lines]
    assert any("Object sent-1" in line for line in lines) and any("task 18 simulate" in line for line in lines)


def test_hostile_objects_are_shown_or_left_out() -> None:
    hostile = ObjectStatus(
        b"\xff" * 100, 2**64 - 1, b"", 2**64 - 1, 2**64 - 1, " and ,, \x1b[31m", 2**64 - 1, "x 9" * 999
    )
    model = made(hostile)
    (row,) = model.rows("largest")[0]
    link = row_link("largest", row)
    assert link is not None and page_of(model, link) is not None


def test_names_of_hosts_may_contain_anything() -> None:
    names = ("rack 1, node 2", "salt and pepper")
    one = ObjectStatus(CLIENT, 17, size_bytes=MIB, copies=2, hosts=", ".join(names), host_names=names)
    model = made(one)
    found = page(model, links.OBJECT, SHORT, "result-17")
    assert [each.link for each in found.facts if each.name == "is on"] == [
        EntityLink(links.HOST, (name,)) for name in names
    ]
    said = received(one)
    model.apply(replace(said, agents=(*said.agents, agent_status(1, host=names[0]))), 0.0)
    sections = page(model, links.HOST, names[0]).sections
    assert [each.total for each in sections if each.table == "largest"] == [1]
