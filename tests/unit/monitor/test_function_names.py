"""Functions of one name in different modules are different functions on all screens."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler_protocol.monitor import bounds, feed, function_names, links, records
from scaler_protocol.monitor.entities import page_of
from scaler_protocol.monitor.function_names import FunctionNames
from scaler_protocol.monitor.links import EntityLink
from scaler_protocol.monitor.messages import (
    Events,
    FunctionStatus,
    MapStatus,
    RunningTaskStatus,
    SchedulerStatus,
    Snapshot,
    WaitGroup,
)
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.operation import LookAction, Operation, profile_outcome
from scaler_protocol.monitor.records import Naming
from scaler_protocol.monitor.tables import FUNCTIONS, TASKS
from scaler_protocol.profile import ProfileTree
from scaler_scheduler.metrics.families import families_of
from tests.support.monitoring import agent_status

SECOND = 1_000_000
SESSION = b"\xab" * 16
FUNCTION_STATUSES = (
    FunctionStatus(b"\x01" * 16, "run", 3, 5, succeeded=5, number=1, module="pricing"),
    FunctionStatus(b"\x02" * 16, "run", 0, 1, succeeded=1, number=2, module="risk"),
    FunctionStatus(b"\x03" * 16, "load", 0, 1, succeeded=1, number=3, module="risk"),
)


def snapshot(functions: tuple[FunctionStatus, ...] = FUNCTION_STATUSES) -> Snapshot:
    running = RunningTaskStatus(SESSION, "run", b"\x02" * 16, 4, seconds=5.0, module="risk")
    said = Snapshot(
        SchedulerStatus("tcp://127.0.0.1:1", 1),
        agents=(replace(agent_status(0), running=(running,)),),
        functions=functions,
        waits=(WaitGroup(b"\x01" * 16, "run", "All workers are busy.", 3, 1.0, SESSION, 7, "pricing"),),
        maps=(MapStatus(SESSION, 1, "run", 8, 3, 1, 0, "pricing"),),
        time=10.0,
    )
    message = feed.decode(feed.encode(said)).message
    assert isinstance(message, Snapshot)
    return message


def names() -> list[bytes]:
    modules = {"run": ("pricing", "risk"), "load": ("risk",)}
    pairs = [(name, module) for name, its in modules.items() for module in its]
    return [
        records.name_record(Naming.SESSION, 0, {"session": SESSION.hex(), "host": "h", "pid": 1}),
        *(
            records.name_record(Naming.FUNCTION, index, {"digest": f"{index:02}" * 16, "name": name, "module": module})
            for index, (name, module) in enumerate(pairs)
        ),
    ]


def model_of(*more: bytes) -> Model:
    model = Model(0.0)
    some = [*names(), *more]
    model.apply(Events(10.0, 0, b"".join(some), 0, len(some), 1), 0.0)
    model.apply(snapshot(), 0.0)
    return model


def ended(task: int, function: int) -> bytes:
    return records.ended_record([task], [SECOND], [1], [0], time=9 * SECOND, session=0, function=function)


def test_a_name_includes_the_module_only_where_there_are_several() -> None:
    known = FunctionNames()
    known.add("run", "pricing")
    known.add("run", "pricing")
    assert known.shown("run", "pricing") == "run" and not known.are_ambiguous
    known.add("run", "risk")
    known.add("load", "risk")
    shown = [known.shown(*each) for each in (("run", "pricing"), ("run", "risk"), ("load", "risk"), ("run", ""))]
    assert shown == ["pricing.run", "risk.run", "load", "run"]


def test_names_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function_names, "NAMES_LIMIT", 10)
    known = FunctionNames()
    for number in range(1000):
        known.add(f"f{number}", "m")
    assert len(known._modules) == 10 < bounds.NAMES_LIMIT


def test_tables_tell_them_apart() -> None:
    model = model_of(ended(1, 0), ended(2, 1), ended(3, 2))
    functions = {row[0]: row[FUNCTIONS.index("module")] for row in model.rows("functions")[0]}
    assert functions == {"pricing.run": "pricing", "risk.run": "risk", "load": "risk"}
    log = {row[TASKS.index("task")]: row[TASKS.index("function")] for row in model.rows("tasks")[0]}
    assert log == {1: "pricing.run", 2: "risk.run", 3: "load"}
    assert model.rows("tasks", "pricing.run")[1] == 1
    assert [row[0] for row in model.rows("running")[0]] == ["risk.run"]
    assert [row[0] for row in model.rows("waits")[0]] == ["pricing.run"]
    assert "map 1 of abababab: pricing.run" in [row[1] for row in model.rows("progress")[0]]


def test_colours_tell_them_apart_and_are_those_of_the_scheduler() -> None:
    model = model_of()
    assert [model.activity.colour_number(index) for index in range(3)] == [0, 1, 2]
    assert model.activity.colours.number_of("risk.run") == 1


def test_pages_tell_them_apart_and_the_name_alone_leads_to_both() -> None:
    model = model_of(ended(1, 0), ended(2, 1))
    page = page_of(model, EntityLink(links.FUNCTION, ("risk.run",)))
    assert page is not None and ("module", "risk") in [(each.name, each.text) for each in page.facts]
    assert [[row[1] for row in each.rows] for each in page.sections if each.title == "Newest executions"] == [[2]]
    both = page_of(model, EntityLink(links.FUNCTION, ("run",)))
    assert both is not None
    assert [each.link for each in both.facts] == [
        EntityLink(links.FUNCTION, (name,)) for name in ("pricing.run", "risk.run")
    ]
    assert page_of(model, EntityLink(links.FUNCTION, ("missing",))) is None


def test_metrics_have_the_module_as_a_label() -> None:
    family = next(each for each in families_of(snapshot()) if each.name == "scaler_function_tasks")
    labels = [(sample.labels["function"], sample.labels["module"]) for sample in family.samples]
    assert labels == [("run", "pricing"), ("run", "risk"), ("load", "risk")]


def test_a_profile_of_a_function_that_is_named_with_its_module() -> None:
    tree = ProfileTree()
    for name in ("run", "Book.run", "other"):
        tree.add(("w", "ab" * 16, name, "frame"), 10)
    for target, expected in (("pricing.run", ["run"]), ("m.Book.run", ["Book.run"]), ("run", ["run"]), ("x.y", [])):
        outcome = profile_outcome(Operation(LookAction.PROFILE_FUNCTION, target), tree)
        assert outcome.profile is not None
        assert [path[2] for path, _ in outcome.profile.rows()] == expected, target
        others = f" (all functions named {expected[0]})" if expected and expected != [target] else ""
        assert outcome.text == f"Profile of {target}{others}, 5 s"


def test_without_modules_names_stay_as_they_are() -> None:
    model = Model(0.0)
    model.apply(snapshot(tuple(replace(each, module="") for each in FUNCTION_STATUSES[1:])), 0.0)
    assert {row[0] for row in model.rows("functions")[0]} == {"run", "load"}
