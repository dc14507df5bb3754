"""Priority, capabilities and limits on the page of a task."""

from __future__ import annotations

import pytest

from scaler_protocol.messages import Capability, TaskOptions
from scaler_protocol.monitor import links, records
from scaler_protocol.monitor.activity import ShownOptions
from scaler_protocol.monitor.entities import page_of
from scaler_protocol.monitor.links import EntityLink
from scaler_protocol.monitor.messages import Events
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.records import Kind, Naming

SECOND = 1_000_000


def model_of(value: dict[str, object]) -> Model:
    """Task 1 has these options, task 2 usual ones, and task 3 came before this monitor watched. All have ended."""
    some = [
        records.name_record(Naming.SESSION, 0, {"session": "ab" * 16, "host": "h", "pid": 1}),
        records.name_record(Naming.OPTIONS, 4, value),
        records.record(Kind.SUBMITTED, time=SECOND, session=0, first=1, count=1, function=0, attempt=4),
        records.record(Kind.SUBMITTED, time=SECOND, session=0, first=2, count=1, function=0),
        records.ended_record([1, 2, 3], [1] * 3, [1] * 3, [0] * 3, time=2 * SECOND, session=0, function=0),
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


def test_usual_options_and_unknown_ones() -> None:
    model = model_of(records.options_value(TaskOptions(priority=1)))
    assert (facts(model, 2)["priority"], facts(model, 2)["capabilities"]) == ("0", "none needed")
    assert "retries" not in facts(model, 2)
    assert "not known" in facts(model, 3)["priority, capabilities"]


@pytest.mark.parametrize(
    "value",
    [
        {"priority": "high", "capabilities": [1], "retries": None, "timeout_seconds": "x", "memory_bytes": []},
        {"priority": 10**400, "capabilities": {"\x1b[31m": float("inf"), "a": None}, "retries": -5},
        {"capabilities": {str(number): 1 for number in range(10_000)}, "timeout_seconds": float("nan")},
        {"memory_bytes": 10**400, "timeout_seconds": 10**400},
    ],
)
def test_hostile_options_are_bounded(value: dict[str, object]) -> None:
    shown = model_of(value).activity.options_of(0, 1)
    assert isinstance(shown, ShownOptions) and abs(shown.priority) <= 1 << 63
    assert len(shown.capabilities) <= 100 and not any("\x1b" in name for name, _ in shown.capabilities)
    facts(model_of(value), 1)
