"""Totals of functions outlive the clients that called them, within bounds."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from scaler_protocol.codec import ResultRun
from scaler_protocol.messages import Goodbye, Results, Status, Tasks
from scaler_scheduler.core import function_numbers, function_totals
from scaler_scheduler.core.function_keys import FunctionKey
from scaler_scheduler.core.function_loads import FunctionLoad
from scaler_scheduler.core.function_numbers import FunctionNumbers
from scaler_scheduler.core.function_totals import CURRENT_LIMIT, NAME_LIMIT, OTHERS, FunctionTotal, FunctionTotals
from tests.unit.scheduler.playbook import FUNCTION, OTHER_FUNCTION, Playbook, definition, results, run


def functions(book: Playbook) -> list[tuple[str, int, int, int, float]]:
    snapshot = book.core.snapshot(book.now)
    assert snapshot.function_count == len(snapshot.functions)
    return [
        (each.name, each.unfinished, each.succeeded, each.failed, each.duration_seconds) for each in snapshot.functions
    ]


def test_totals_remain_when_the_client_leaves_and_grow_with_the_next() -> None:
    book = Playbook()
    agent = book.agent(slots=4)
    for session, calls in ("one", 1), ("two", 2):
        client = book.client(session)
        client.says(Tasks([run(client, 1, 2)], [definition()]))
        (name, *before) = functions(book)[0]
        assert before == [2, calls - 1, calls - 1, calls - 1.0]
        agent.says(results(client, 1, (2, 1, Status.EXCEPTION, b""), duration_us=500_000))
        assert functions(book) == [(name, 0, calls, calls, float(calls))]
        client.says(Goodbye())
        assert not book.core.state.function_loads
        assert functions(book) == [(name, 0, calls, calls, float(calls))]


def load(name: str, microseconds: float, module: str = "") -> FunctionLoad:
    made = FunctionLoad(name.encode(), name, module)
    made.observe(microseconds, 1)
    return made


def test_functions_of_one_name_are_one() -> None:
    totals = FunctionTotals()
    totals.keep(load("f", 1))
    found = totals.with_current([load("f", 2), load("f", 4), load("g", 8)])
    assert {name.name: each.total_us for name, each in found.items()} == {"f": 7, "g": 8}
    assert {name.name: each.total_us for name, each in totals.with_current([]).items()} == {"f": 1}


def test_functions_of_one_name_in_different_modules_are_two() -> None:
    totals = FunctionTotals()
    totals.keep(load("f", 1, "a"))
    found = totals.with_current([load("f", 2, "a"), load("f", 4, "b")])
    assert {name: each.total_us for name, each in found.items()} == {
        FunctionKey("f", "a"): 3,
        FunctionKey("f", "b"): 4,
    }


def test_snapshots_tell_functions_of_different_modules_apart() -> None:
    book = Playbook()
    client = book.client("one")
    for first, function, module in (1, FUNCTION, "pricing"), (3, OTHER_FUNCTION, "risk"):
        client.says(Tasks([run(client, first, 2, function=function)], [replace(definition(function), module=module)]))
    snapshot = book.core.snapshot(book.now)
    assert {(each.name, each.module, each.unfinished) for each in snapshot.functions} == {
        ("f", "pricing", 2), ("f", "risk", 2),
    }  # fmt: skip
    assert len({each.number for each in snapshot.functions}) == 2
    assert {each.module for each in snapshot.waits} == {"pricing", "risk"}
    book.agent(slots=4).says(results(client, 1, 2))
    client.says(Goodbye())
    kept = {(each.name, each.module, each.finished) for each in book.core.snapshot(book.now).functions}
    assert kept == {("f", "pricing", 2), ("f", "risk", 0)}


def counted(totals: FunctionTotals, *current: FunctionLoad) -> dict[str, float]:
    return {name.name: each.total_us for name, each in totals.with_current(current).items()}


def test_names_are_bounded_and_nothing_that_was_counted_is_lost() -> None:
    totals = FunctionTotals()
    for number in range(3 * NAME_LIMIT):
        totals.keep(load(f"f{number}", 1))
    found = counted(totals)
    assert len(found) == NAME_LIMIT and sum(found.values()) == 3 * NAME_LIMIT
    assert f"f{3 * NAME_LIMIT - 1}" in found and "f0" not in found, "the names that were dropped last are kept"
    assert found[OTHERS.name] == 2 * NAME_LIMIT + 1


def test_a_function_that_a_client_has_is_named_however_many_names_there_were() -> None:
    totals = FunctionTotals()
    for number in range(2 * NAME_LIMIT):
        totals.keep(load(f"f{number}", 1))
    assert counted(totals, load("another", 5))["another"] == 5
    totals.keep(load("another", 5))
    assert counted(totals)["another"] == 5


def test_the_numbers_of_a_name_that_a_client_has_do_not_decrease() -> None:
    totals = FunctionTotals()
    totals.keep(load("f", 3))
    current = load("f", 2)
    totals.begin(current)
    for number in range(2 * NAME_LIMIT):
        totals.keep(load(f"g{number}", 1))
    assert counted(totals, current)["f"] == 5
    totals.keep(current)
    assert counted(totals)["f"] == 5, "it is now the name that was dropped last"


def test_running_functions_are_shown_after_very_many_others_have_ended() -> None:
    book = Playbook()
    for number in range(NAME_LIMIT + 100):
        book.core.state.function_totals.keep(load(f"f{number}", 1))
    client = book.client("one")
    client.says(Tasks([run(client, 1, 2)], [definition()]))
    assert [(each.name, each.unfinished) for each in book.core.snapshot(book.now).functions if each.unfinished] == [
        ("f", 2)
    ]


def test_names_of_current_functions_are_bounded_too() -> None:
    found = FunctionTotals().with_current([load(f"f{number}", 1) for number in range(CURRENT_LIMIT + 5)])
    assert len(found) == CURRENT_LIMIT + 1 and found[OTHERS].total_us == 5


_ZERO_PLACES = [6, 14]
"""No task waited for dependencies, or for long."""


def figures(total: FunctionTotal) -> list[float]:
    counts = total.unfinished, total.finished, total.succeeded, total.canceled
    spread = total.durations.counts_between([100_000]), total.waits.counts_between([100_000])
    return [*counts, total.total_us, total.cpu_us, *total.parts_us, *spread[0], *spread[1]]


def test_all_figures_of_further_functions_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    book = Playbook()
    agent, client = book.agent(slots=8), book.client("one")
    for first, function in (1, FUNCTION), (11, OTHER_FUNCTION):
        named = replace(definition(function), module=str(first))
        client.says(Tasks([run(client, first, 4, function=function)], [named]))
        book.now += 0.2
        rows = [
            (first, 1, Status.SUCCESS, b"r", 50_000, 40_000, 0),
            (first + 1, 1, Status.EXCEPTION, b"", 300_000, 7, 0),
            (first + 2, 1, Status.CANCELLED, b"", 0, 0, 0),
        ]
        made = ResultRun(client.session, rows)
        made.set_parts(struct.pack("<4I", 1, 10_000, 20_000, 30_000))
        agent.says(Results([made]))
    loads = book.core.state.function_loads.values()
    apart = [figures(each) for each in FunctionTotals().with_current(loads).values()]
    monkeypatch.setattr(function_totals, "CURRENT_LIMIT", 0)
    (together,) = FunctionTotals().with_current(loads).values()
    assert len(apart) == 2 and [place for place, each in enumerate(apart[0]) if not each] == _ZERO_PLACES
    assert figures(together) == pytest.approx([sum(each) for each in zip(*apart, strict=True)])


def test_the_row_of_all_further_functions_stays_when_they_have_ended() -> None:
    book = Playbook()
    for number in range(CURRENT_LIMIT + 5):
        each = load(f"f{number}", 1)
        book.core.state.function_loads[each.digest] = each
    shown = {each.name: each.duration_seconds for each in book.core.snapshot(book.now).functions}
    assert shown[OTHERS.name] == pytest.approx(5e-6)


def test_distributions_and_processor_time_remain_too() -> None:
    book = Playbook()
    agent = book.agent(slots=20)
    for session in "one", "two":
        client = book.client(session)
        client.says(Tasks([run(client, 1, 20)], [definition()]))
        agent.says(results(client, *range(1, 20), duration_us=1000))
        agent.says(results(client, 20, duration_us=8_000_000))
        client.says(Goodbye())
    (function,) = book.core.snapshot(book.now).functions
    assert function.executions == 40 and function.longest_seconds == 8
    assert 0.00075 <= function.median_seconds <= 0.00125 and function.p95_seconds < 0.00125
    assert function.cpu_seconds == function.duration_seconds
    assert function.duration_counts[1] == 38 and sum(function.duration_counts) == 40


def test_totals_of_the_past_are_not_changed_by_those_of_the_present() -> None:
    totals = FunctionTotals()
    totals.keep(load("f", 1))
    for _ in range(2):
        totals.with_current([load("f", 2)])
    assert totals.with_current([])[FunctionKey("f")].total_us == 1


def test_a_name_keeps_its_number_and_the_oldest_names_lose_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function_numbers, "NUMBERED_LIMIT", 2)
    numbers = FunctionNumbers()
    assert [numbers.number_of(name) for name in ("a", "b", "a", "c", "a", "b")] == [1, 2, 1, 3, 1, 4]
