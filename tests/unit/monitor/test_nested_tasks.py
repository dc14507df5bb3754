"""Parents and children of tasks, as records tell them."""

from __future__ import annotations

import pytest

from scaler_protocol.monitor import links, nested_tasks, records, task_times
from scaler_protocol.monitor.activity import Activity
from scaler_protocol.monitor.entities import CHILDREN_LIMIT, EntityPage, page_of
from scaler_protocol.monitor.links import EntityLink
from scaler_protocol.monitor.messages import Events
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.nested_tasks import ChildTasks, NestedTasks, TaskPlace
from scaler_protocol.monitor.records import BadRecord, Kind, Naming

OUTER, INNER = 0, 1


def submitted(session: int, first: int, count: int, function: int) -> bytes:
    return records.record(Kind.SUBMITTED, time=5_000_000, session=session, first=first, count=count, function=function)


def model_of(*more: bytes) -> Model:
    """Task 4 of the outer client has submitted tasks 0 to 29 of the inner one, and task 5 the later ones."""
    names = [
        records.name_record(Naming.SESSION, OUTER, {"session": "aa" * 16}),
        records.name_record(Naming.SESSION, INNER, {"session": "bb" * 16, "parent": "aa" * 16}),
        records.name_record(Naming.FUNCTION, 0, {"digest": "00", "name": "simulate"}),
        records.name_record(Naming.FUNCTION, 1, {"digest": "01", "name": "price"}),
    ]
    told = [
        submitted(OUTER, 4, 2, 0),
        records.nested_record(INNER, 0, (OUTER, 4, 1), time=0),
        submitted(INNER, 0, 10, 1),
        submitted(INNER, 10, 20, 1),
        records.nested_record(INNER, 30, (OUTER, 5, 1), time=0),
        submitted(INNER, 30, 2, 1),
        *more,
    ]
    model = Model(0.0)
    model.apply(Events(time=10.0, first=0, records=b"".join(names + told), count=len(names + told), epoch=1), 0.0)
    return model


def shown(model: Model, client: str, task: int) -> EntityPage:
    page = page_of(model, EntityLink(links.TASK, (client, str(task))))
    assert page is not None
    return page


def named(page: EntityPage, name: str) -> list[tuple[str, EntityLink | None]]:
    return [(fact.text, fact.link) for fact in page.facts if fact.name == name]


def test_a_task_names_the_task_that_has_submitted_it() -> None:
    model = model_of()
    assert named(shown(model, "bbbbbbbb", 29), "parent") == [
        ("task 4 simulate", EntityLink(links.TASK, ("aaaaaaaa", "4")))
    ]
    assert named(shown(model, "bbbbbbbb", 30), "parent") == [
        ("task 5 simulate", EntityLink(links.TASK, ("aaaaaaaa", "5")))
    ]
    assert named(shown(model, "aaaaaaaa", 4), "parent") == []


def test_a_task_names_its_children_and_counts_those_that_are_too_many() -> None:
    model = model_of()
    children = named(shown(model, "aaaaaaaa", 4), "children")
    assert children[:2] == [
        ("task 0 price", EntityLink(links.TASK, ("bbbbbbbb", "0"))),
        ("task 1 price", EntityLink(links.TASK, ("bbbbbbbb", "1"))),
    ]
    assert len(children) == CHILDREN_LIMIT + 1
    assert children[-1] == ("20 more", EntityLink(links.CLIENT, ("bbbbbbbb",)))
    assert [text for text, _ in named(shown(model, "aaaaaaaa", 5), "children")] == ["task 30 price", "task 31 price"]


def test_a_task_that_waits_has_its_function() -> None:
    assert named(shown(model_of(), "bbbbbbbb", 3), "function") == [("price", EntityLink(links.FUNCTION, ("price",)))]


def test_a_client_that_submits_nothing_in_a_task_leaves_no_trace_of_it() -> None:
    nested = NestedTasks()
    nested.add(INNER, 7, TaskPlace(OUTER, 1))
    nested.add(INNER, 7, TaskPlace(OUTER, 2))
    assert nested.parent_of(INNER, 6) is None and nested.parent_of(INNER, 7) == TaskPlace(OUTER, 2)
    assert [*nested.children_of(TaskPlace(OUTER, 1))] == []
    assert [*nested.children_of(TaskPlace(OUTER, 2))] == [ChildTasks(INNER, 7, None)]


def test_children_are_counted_whatever_comes_first() -> None:
    model = model_of(
        submitted(INNER, 40, 7, 1),
        records.nested_record(INNER, 40, (OUTER, 4, 1), time=0),
        submitted(INNER, 40, 7, 0),  # with other options
    )
    assert named(shown(model, "aaaaaaaa", 4), "children")[-1][0] == "27 more"
    model = model_of(*(records.nested_record(INNER, 40, (OUTER, 4, 1), time=0) for _ in range(3)))
    assert named(shown(model, "aaaaaaaa", 4), "children")[-1][0] == "20 more"


def test_the_page_of_a_task_with_very_many_children_looks_at_few_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    told = [
        part
        for number in range(100, 2100)
        for part in (records.nested_record(INNER, number, (OUTER, 6, 1), time=0), submitted(INNER, number, 1, 1))
    ]
    model = model_of(submitted(OUTER, 6, 1, 0), *told)
    looked: list[TaskPlace] = []
    end_of = NestedTasks._end_of
    monkeypatch.setattr(NestedTasks, "_end_of", lambda self, begin: looked.append(begin) or end_of(self, begin))
    children = named(shown(model, "aaaaaaaa", 6), "children")
    assert len(children) == CHILDREN_LIMIT + 1 and children[-1][0] == "1,990 more"
    assert len(looked) <= CHILDREN_LIMIT + 1


def test_children_that_came_long_ago_are_named_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_times, "RANGES_LIMIT", 4)
    told = [
        part
        for number in range(100, 150)
        for part in (records.nested_record(INNER, number, (OUTER, 6, 1), time=0), submitted(INNER, number, 1, 1))
    ]
    children = named(shown(model_of(submitted(OUTER, 6, 1, 0), *told), "aaaaaaaa", 6), "children")
    assert children[0] == ("task 100", EntityLink(links.TASK, ("bbbbbbbb", "100")))
    assert len(children) == CHILDREN_LIMIT + 1 and children[-1][0] == "40 more"


def test_only_the_latest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nested_tasks, "STAYS_LIMIT", 100)
    nested = NestedTasks()
    for number in range(1000):
        nested.add(number % 3, number, TaskPlace(9, number))
    kept = [number for number in range(1000) if [*nested.children_of(TaskPlace(9, number))]]
    assert kept == [*range(900, 1000)]
    assert nested.parent_of(0, 500) is None and nested.parent_of(0, 999) == TaskPlace(9, 999)


def test_a_record_that_is_cut_off_is_refused() -> None:
    with pytest.raises(BadRecord):
        Activity(100).apply(Events(time=1.0, records=records.record(Kind.NESTED, time=0, body=bytes(8)), count=1))
