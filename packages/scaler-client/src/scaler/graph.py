"""Graphs of calls, as columns, and the analysis of a whole graph before its first task is sent.

No function here is recursive, and only numbers are kept per node: a graph may be a chain of a million nodes.
"""

from __future__ import annotations

import operator
from array import array
from collections.abc import Callable, Mapping, Sequence
from graphlib import CycleError
from itertools import chain, islice, repeat
from operator import itemgetter
from typing import Any, NamedTuple

_NEW, _OPEN, _DONE = 0, 1, 2


class CallGraph:
    """The calls and the data that some targets need.

    Call ``c`` is ``functions[c]``, called ``names[c]`` in the graph it was read from. Its arguments are
    ``slots[ends[c - 1]:ends[c]]``: a number that is not negative is the result of that call, any other one is
    ``data[~number]``. The last ``len(keywords[c])`` of them are passed by name. ``targets``: what was asked for, as
    numbers of the same kind."""

    __slots__ = ("names", "functions", "slots", "ends", "data", "keywords", "targets")

    def __init__(self) -> None:
        self.names: list[Any] = []
        self.functions: list[Callable[..., Any]] = []
        self.slots = array("q")
        self.ends = array("q")
        self.data: list[Any] = []
        self.keywords: dict[int, tuple[str, ...]] = {}
        self.targets: list[int] = []

    def __len__(self) -> int:
        """The number of calls."""
        return len(self.ends)

    def arguments(self, call: int) -> array[int]:
        return self.slots[self.ends[call - 1] if call else 0 : self.ends[call]]


class Analysis(NamedTuple):
    """``order``: calls, each after those it needs. Within a level, calls with the longest way to the end of the graph
    come first, and calls of one group stand together. ``levels``: by call, the number of calls on the longest way that
    leads to it; ``heights``: on the longest way that leads on from it. -1: no target needs the call."""

    order: Sequence[int]
    levels: Sequence[int]
    heights: Sequence[int]


# ---- the plain dialect ---------------------------------------------------------------------------------------------


def read_plain(graph: Mapping[str, Any], keys: Sequence[str]) -> CallGraph:
    """Read what ``keys`` need, and nothing else. Raises KeyError for a duplicate or unknown key and for an undefined
    name, and TypeError for an argument that is not a name."""
    _check_keys(graph, keys)
    numbers = _Numbers(graph)
    result, number_of = numbers.result, numbers.__getitem__
    result.targets.extend(map(number_of, keys))
    slots, ends = result.slots, result.ends
    try:
        for node in numbers.calls:  # grows meanwhile
            slots.extend(map(number_of, islice(node, 1, None)))
            ends.append(len(slots))
    except TypeError:
        raise _not_a_name(result.names[len(ends)], numbers.calls[len(ends)]) from None
    except KeyError as error:
        raise KeyError(f"{result.names[len(ends)]!r} needs {error.args[0]!r}, which is not in the graph.") from None
    result.functions.extend(map(itemgetter(0), numbers.calls))
    return result


def _check_keys(graph: Mapping[str, Any], keys: Sequence[str]) -> None:
    for key in keys:
        if key not in graph:
            raise KeyError(f"{key!r} is not in the graph.")
    if len(set(keys)) != len(keys):
        seen: set[str] = set()
        twice = next(key for key in keys if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise KeyError(f"{twice!r} is requested twice.")


class _Numbers(dict[str, int]):
    """The numbers of names, given as the names are met."""

    def __init__(self, graph: Mapping[str, Any]) -> None:
        self.graph = graph
        self.calls: list[tuple[Any, ...]] = []
        self.result = CallGraph()

    def __missing__(self, name: str) -> int:
        if not isinstance(name, str):
            raise TypeError
        node = self.graph[name]
        if isinstance(node, tuple) and node and callable(node[0]):
            number = len(self.calls)
            self.calls.append(node)
            self.result.names.append(name)
        else:
            number = ~len(self.result.data)
            self.result.data.append(node)
        self[name] = number
        return number


def _not_a_name(owner: str, node: tuple[Any, ...]) -> TypeError:
    wrong = next((item for item in node[1:] if not isinstance(item, str)), None)
    text = f"{owner!r} has an argument of type {type(wrong).__name__}: arguments of a call are names of nodes."
    return TypeError(text)


# ---- analysis ------------------------------------------------------------------------------------------------------

Analyse = Callable[[CallGraph, Sequence[int]], Analysis]
"""``groups`` has a small number for each call: equal ones stand together where the order allows it. Raises
CycleError."""


def analyse(graph: CallGraph, groups: Sequence[int]) -> Analysis:
    """Analyse in plain Python, in time proportional to the graph."""
    calls = _behind_their_needs(graph)
    levels = _levels(graph, calls)
    heights = _heights(graph, calls)
    return Analysis(_arranged(levels, heights, groups), levels, heights)


def _behind_their_needs(graph: CallGraph) -> array[int]:
    """The calls that targets need, in depth-first order: each after those it needs."""
    slots, ends = graph.slots, graph.ends
    states = bytearray(len(graph))
    done = array("q")
    for target in graph.targets:
        stack = [target] if target >= 0 and not states[target] else []
        while stack:
            call = stack[-1]
            if states[call] != _NEW:
                stack.pop()
                if states[call] == _OPEN:
                    states[call] = _DONE
                    done.append(call)
                continue
            states[call] = _OPEN
            for needed in slots[ends[call - 1] if call else 0 : ends[call]]:
                if needed >= 0 and states[needed] != _DONE:
                    if states[needed] == _OPEN:
                        raise cycle_error(graph, _open_path(stack, states, needed))
                    stack.append(needed)
    return done


def _open_path(stack: Sequence[int], states: bytearray, first: int) -> list[int]:
    """The calls on the way from ``first`` to the top of the stack."""
    path: dict[int, None] = {}
    for call in stack:
        if states[call] == _OPEN:
            path.pop(call, None)  # the last copy of a call is the one that was opened
            path[call] = None
    calls = list(path)
    return calls[calls.index(first) :]


def cycle_error(graph: CallGraph, path: Sequence[int]) -> CycleError:
    """``path``: each call needs the next, and the last the first."""
    names = [graph.names[call] for call in path]
    return CycleError("nodes are in a cycle", [names[0], *reversed(names)])


def _levels(graph: CallGraph, calls: Sequence[int]) -> array[int]:
    slots, ends = graph.slots, graph.ends
    levels = array("q", [-1]) * len(graph)
    for call in calls:
        level = 0
        for needed in slots[ends[call - 1] if call else 0 : ends[call]]:
            if needed >= 0 and levels[needed] >= level:
                level = levels[needed] + 1
        levels[call] = level
    return levels


def _heights(graph: CallGraph, calls: Sequence[int]) -> array[int]:
    slots, ends = graph.slots, graph.ends
    heights = array("q", [-1]) * len(graph)
    for call in reversed(calls):
        height = heights[call]
        if height < 0:
            height = heights[call] = 0
        for needed in slots[ends[call - 1] if call else 0 : ends[call]]:
            if needed >= 0 and heights[needed] <= height:
                heights[needed] = height + 1
    return heights


def _arranged(levels: Sequence[int], heights: Sequence[int], groups: Sequence[int]) -> list[int]:
    kept = [call for call, level in enumerate(levels) if level >= 0]
    top, width = max(heights, default=0) + 1, max(groups, default=0) + 1
    places = [
        (level * top - height) * width + group for level, height, group in zip(levels, heights, groups, strict=True)
    ]
    kept.sort(key=places.__getitem__)
    return kept


class CallShape(NamedTuple):
    """The properties that the calls of one group have in common."""

    kind: Any
    arity: int
    keywords: tuple[str, ...]
    is_target: bool


def group_calls(graph: CallGraph, kinds: Sequence[Any]) -> tuple[list[int], list[CallShape]]:
    """A small number for each call, equal for those that may share a run, and the shapes that these numbers stand for.
    ``kinds``: by call, an object that is the same for calls of the same function."""
    arities = list(map(operator.sub, graph.ends, chain((0,), graph.ends)))
    numbers = _Groups()
    groups = list(map(numbers.__getitem__, zip(map(id, kinds), arities, repeat(()), repeat(False))))
    targets = {target for target in graph.targets if target >= 0}
    for call in targets.union(graph.keywords):
        groups[call] = numbers[id(kinds[call]), arities[call], graph.keywords.get(call, ()), call in targets]
    by_id = {id(kind): kind for kind in kinds}
    return groups, [CallShape(by_id[kind], *rest) for kind, *rest in numbers]


class _Groups(dict[Any, int]):
    """Numbers the keys in the order in which they are first used."""

    def __missing__(self, shape: Any) -> int:
        number = self[shape] = len(self)
        return number


# ---- calls with very many arguments --------------------------------------------------------------------------------


def split_wide(
    graph: CallGraph, limit: int, pack: Callable[..., Any], call_with_packs: Callable[..., Any]
) -> CallGraph:
    """The same graph, in which no call has more than about ``limit`` arguments: those of a wider one are collected by
    calls of ``pack``."""
    starts = [0, *graph.ends[:-1]]
    wide = [call for call, (start, end) in enumerate(zip(starts, graph.ends, strict=False)) if end - start > limit]
    if not wide:
        return graph
    return _Splitter(graph, limit, pack, call_with_packs).split(wide)


class _Splitter:
    def __init__(
        self, graph: CallGraph, limit: int, pack: Callable[..., Any], call_with_packs: Callable[..., Any]
    ) -> None:
        self._graph = graph
        self._limit = limit
        self._pack = pack
        self._call_with_packs = call_with_packs
        self._packs: list[array[int]] = []

    def split(self, wide: Sequence[int]) -> CallGraph:
        graph, result = self._graph, CallGraph()
        result.names, result.functions = list(graph.names), list(graph.functions)
        result.data, result.targets = list(graph.data), graph.targets
        result.keywords = dict(graph.keywords)
        replaced = {call: self._replace(result, call) for call in wide}
        for call in range(len(graph)):
            result.slots.extend(replaced[call] if call in replaced else graph.arguments(call))
            result.ends.append(len(result.slots))
        for slots in self._packs:
            result.slots.extend(slots)
            result.ends.append(len(result.slots))
        return result

    def _replace(self, result: CallGraph, call: int) -> array[int]:
        """The arguments of the call that stands for ``call``."""
        parts = self._packed(result, self._graph.arguments(call), result.names[call])
        fixed = (result.functions[call], result.keywords.pop(call, ()))
        result.functions[call] = self._call_with_packs
        result.data.extend(fixed)
        return array("q", [~(len(result.data) - 2), ~(len(result.data) - 1), *parts])

    def _packed(self, result: CallGraph, slots: array[int], name: Any) -> list[int]:
        """Calls of ``pack`` that have all of ``slots`` as their arguments."""
        numbers = []
        for start in range(0, len(slots), self._limit):
            numbers.append(len(result.functions))
            result.functions.append(self._pack)
            result.names.append(name)
            self._packs.append(slots[start : start + self._limit])
        return numbers
