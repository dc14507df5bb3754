"""Graphs as columns, and both ways to analyse them."""

from __future__ import annotations

import graphlib
import importlib.util
import operator
import random
import sys
from typing import Any

import pytest

from scaler.client import graphs as graph_module
from scaler.client.graphs import analysis_for
from scaler.graph import Analysis, CallGraph, analyse, group_calls, read_plain, split_wide

needs_graphblas = pytest.mark.skipif(
    importlib.util.find_spec("graphblas") is None, reason="python-graphblas is not installed"
)


def total(*values: int) -> int:
    return sum(values)


def pack(*values: Any) -> tuple[Any, ...]:
    return values


def call_with_packs(function: Any, keywords: Any, *packs: Any) -> Any:
    values = [value for part in packs for value in part]
    keys = dict(zip(keywords, values[len(values) - len(keywords) :], strict=True))
    return function(*values[: len(values) - len(keywords)], **keys)


def columns(calls: list[list[int]], targets: list[int]) -> CallGraph:
    """A graph of calls given by what each needs; data are negative."""
    graph = CallGraph()
    for number, slots in enumerate(calls):
        graph.names.append(f"n{number}")
        graph.functions.append(total)
        graph.slots.extend(slots)
        graph.ends.append(len(graph.slots))
    graph.data = [0] * 10
    graph.targets = targets
    return graph


def random_calls(chance: random.Random, cyclic: bool) -> CallGraph:
    count = chance.randrange(1, 80)
    reach = chance.choice([2, 5, 80])
    calls: list[list[int]] = []
    for number in range(count):
        choices = range(-3, count) if cyclic else range(max(-3, number - reach), number)
        calls.append(chance.choices(choices, k=chance.randrange(5)))
    renamed = chance.sample(range(count), count)
    shuffled: list[list[int]] = [[] for _ in calls]
    for number, slots in enumerate(calls):
        shuffled[renamed[number]] = [renamed[slot] if slot >= 0 else slot for slot in slots]
    targets = chance.choices(range(-3, count), k=chance.randrange(6))
    return columns(shuffled, targets)


def compute(graph: CallGraph, order: Any) -> dict[int, Any]:
    values: dict[int, Any] = {}
    for call in order:
        arguments = [values[slot] if slot >= 0 else graph.data[~slot] for slot in graph.arguments(call)]
        names = graph.keywords.get(call, ())
        count = len(arguments) - len(names)
        values[call] = graph.functions[call](*arguments[:count], **dict(zip(names, arguments[count:], strict=True)))
    return values


def check(graph: CallGraph, groups: list[int], analysis: Analysis) -> None:
    """By definition, and slowly."""
    needed: set[int] = set()
    waiting = [target for target in graph.targets if target >= 0]
    while waiting:
        call = waiting.pop()
        if call not in needed:
            needed.add(call)
            waiting.extend(slot for slot in graph.arguments(call) if slot >= 0)
    order, levels, heights = analysis
    assert sorted(order) == sorted(needed)
    assert {call for call, level in enumerate(levels) if level >= 0} == needed
    assert {call for call, height in enumerate(heights) if height >= 0} == needed
    users: dict[int, list[int]] = {call: [] for call in needed}
    for call in needed:
        inner = [slot for slot in graph.arguments(call) if slot >= 0]
        assert levels[call] == max((levels[slot] + 1 for slot in inner), default=0)
        for slot in inner:
            users[slot].append(call)
    for call in needed:
        assert heights[call] == max((heights[user] + 1 for user in users[call]), default=0)
    assert list(order) == sorted(order, key=lambda call: (levels[call], -heights[call], groups[call], call))


@pytest.mark.parametrize("seed", range(60))
def test_analysis_is_what_it_says(seed: int) -> None:
    chance = random.Random(seed)
    graph = random_calls(chance, cyclic=False)
    groups = [chance.randrange(3) for _ in range(len(graph))]
    check(graph, groups, analyse(graph, groups))


@needs_graphblas
@pytest.mark.parametrize("seed", range(60))
def test_graphblas_gives_the_same_answers(seed: int) -> None:
    from scaler.integrations import graphblas

    chance = random.Random(seed)
    graph = random_calls(chance, cyclic=False)
    groups = [chance.randrange(3) for _ in range(len(graph))]
    expected, got = analyse(graph, groups), graphblas.analyse(graph, groups)
    assert [list(column) for column in got] == [list(column) for column in expected]
    assert {type(call) for call in got.order} <= {int}


@needs_graphblas
@pytest.mark.parametrize("seed", range(40))
def test_graphblas_finds_the_same_cycles(seed: int) -> None:
    from scaler.integrations import graphblas

    graph = random_calls(random.Random(seed), cyclic=True)
    groups = [0] * len(graph)
    try:
        expected: Any = [list(column) for column in analyse(graph, groups)]
    except graphlib.CycleError as error:
        expected = error.args
    try:
        got: Any = [list(column) for column in graphblas.analyse(graph, groups)]
    except graphlib.CycleError as error:
        got = error.args
    assert got == expected


@needs_graphblas
def test_graphblas_leaves_deep_graphs_to_the_plain_path(monkeypatch: pytest.MonkeyPatch) -> None:
    from scaler.integrations import graphblas

    deep = columns([[number - 1] if number else [] for number in range(500)], [499])
    seen: list[int] = []
    monkeypatch.setattr(graphblas, "analyse_plainly", lambda graph, groups: seen.append(1) or analyse(graph, groups))
    analysis = graphblas.analyse(deep, [0] * 500)
    assert seen and analysis == analyse(deep, [0] * 500)


@needs_graphblas
def test_the_way_is_chosen_by_size(monkeypatch: pytest.MonkeyPatch) -> None:
    from scaler.integrations import graphblas

    assert analysis_for(graph_module.LOADED_FROM_CALLS - 1) is analyse
    assert analysis_for(graph_module.LOADED_FROM_CALLS) is graphblas.analyse
    monkeypatch.delitem(sys.modules, "graphblas")
    assert analysis_for(graph_module.LOADING_FROM_CALLS - 1) is analyse
    assert analysis_for(graph_module.LOADING_FROM_CALLS) is graphblas.analyse
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert analysis_for(10**9) is analyse


def test_cycles_are_named() -> None:
    graph = columns([[1], [2], [3, 0], []], [0])
    with pytest.raises(graphlib.CycleError) as info:
        analyse(graph, [0] * 4)
    assert info.value.args[1] == ["n0", "n2", "n1", "n0"]
    with pytest.raises(graphlib.CycleError) as info:
        analyse(columns([[0]], [0]), [0])
    assert info.value.args[1] == ["n0", "n0"]


def test_a_cycle_beside_the_way_is_not_looked_at() -> None:
    assert list(analyse(columns([[], [2], [1]], [0]), [0] * 3).order) == [0]


def test_the_empty_graph() -> None:
    assert [list(column) for column in analyse(CallGraph(), [])] == [[], [], []]


def test_reading_numbers_only_what_is_needed() -> None:
    graph = read_plain({"a": 1, "b": (total, "a", "a"), "c": (total, "b", "a"), "d": (total, "c")}, ["c", "a"])
    assert graph.names == ["c", "b"] and graph.data == [1] and graph.targets == [0, -1]
    assert list(graph.slots) == [1, -1, -1, -1] and list(graph.ends) == [2, 4]


def test_groups() -> None:
    calls = {"b": (total, "a"), "c": (total, "b"), "d": (total, "c"), "e": (operator.neg, "d")}
    graph = read_plain({"a": 1, **calls}, ["e"])
    groups, shapes = group_calls(graph, graph.functions)
    assert [graph.names[call] for call in range(4)] == ["e", "d", "c", "b"]
    assert [(shapes[group].kind, shapes[group].is_target) for group in groups] == [(operator.neg, True)] + [
        (total, False)
    ] * 3
    assert {shapes[group].arity for group in groups} == {1} and len(set(groups)) == 2


@pytest.mark.parametrize("seed", range(20))
def test_splitting_wide_calls_changes_no_value(seed: int) -> None:
    chance = random.Random(seed)
    graph = random_calls(chance, cyclic=False)
    graph.data = [chance.randrange(100) for _ in range(10)]
    wide = chance.randrange(len(graph))
    analysis = analyse(graph, [0] * len(graph))
    expected = compute(graph, analysis.order)
    split = split_wide(graph, 2, pack, call_with_packs)
    got = compute(split, analyse(split, [0] * len(split)).order)
    assert {call: got[call] for call in expected} == expected
    assert all(len(split.arguments(call)) <= 4 for call in range(len(split)))
    assert wide < len(split)


def test_keywords_of_wide_calls() -> None:
    graph = CallGraph()
    graph.names, graph.data = ["f"], [1, 2, 3, 4, 5]
    graph.functions = [lambda *values, extra, more: (values, extra, more)]
    graph.slots.extend([-1, -2, -3, -4, -5])
    graph.ends.append(5)
    graph.keywords[0] = ("extra", "more")
    graph.targets = [0]
    split = split_wide(graph, 2, pack, call_with_packs)
    assert compute(split, analyse(split, [0] * len(split)).order)[0] == ((1, 2, 3), 4, 5)
    assert len(split) == 4 and graph.keywords == {0: ("extra", "more")}
