"""Graphs whose calls are submitted one by one: those that use futures, whose values stay as futures, or whose calls
have options of their own.

A graph that is sent as a whole (``scaler.client.graphs``) costs less per call, but is complete when it is sent, and its
values end with it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from scaler.client.calls import shape_of
from scaler.client.client_pool import ClientParts
from scaler.client.fronts import FutureFront, argument_of
from scaler.client.future import ScalerFuture
from scaler.client.graphs import SLOTS_LIMIT, analysis_for, finished_future, results_of
from scaler.client.inputs import InputCalls
from scaler.client.shims import call_with_packs, pack
from scaler.core.runs import Function
from scaler.graph import CallGraph, group_calls, split_wide
from scaler_protocol.messages import TaskOptions

Future = ScalerFuture[Any]


class SubmittedCalls:
    """The calls of one graph. ``targets``: a future per target. The others are kept only while they run, because a
    value may go when no call needs it any more."""

    def __init__(self) -> None:
        self.targets: list[Future] = []
        self._all: weakref.WeakSet[Future] = weakref.WeakSet()

    def add(self, future: Future) -> None:
        self._all.add(future)

    def results(self) -> list[Any]:
        """The values of the targets. An exception, which is that of the first target that failed, ends all calls."""
        try:
            return results_of(self.targets)
        except BaseException:
            self.cancel()
            raise

    def cancel(self) -> None:
        for future in list(self._all):
            future.cancel()


def submit_calls(parts: ClientParts, graph: CallGraph, options_of: Callable[[Any], TaskOptions]) -> SubmittedCalls:
    """Submit the calls of a graph, whose data may be futures. ``options_of``: the options of a call, by its name."""
    graph = split_wide(graph, SLOTS_LIMIT, pack, call_with_packs)
    functions = _functions_of(parts, graph)
    _mark_inputs(graph, functions)
    groups, _ = group_calls(graph, functions)
    futures: dict[int, Future] = {}
    submitted = SubmittedCalls()
    calls = InputCalls(parts.arguments, parts.functions, parts.client_io)
    try:
        for call in analysis_for(len(graph))(graph, groups).order:
            values = [futures[slot] if slot >= 0 else graph.data[~slot] for slot in graph.arguments(call)]
            options = options_of(graph.names[call])
            shape = shape_of(functions[call], len(values), graph.keywords.get(call, ()), options)
            future = futures[call] = ScalerFuture(parts.client_io)
            submitted.add(future)
            calls.send(graph.functions[call], shape, values, future)
        submitted.targets += [_target(parts, graph, futures, target) for target in graph.targets]
    except BaseException:
        submitted.cancel()
        raise
    return submitted


def has_futures(graph: CallGraph) -> bool:
    """Some data of the graph are the results of other calls."""
    return any(isinstance(value, (ScalerFuture, FutureFront)) for value in graph.data)


def _target(parts: ClientParts, graph: CallGraph, futures: dict[int, Future], target: int) -> Future:
    if target >= 0:
        return futures[target]
    value = argument_of(graph.data[~target])
    return value if isinstance(value, ScalerFuture) else finished_future(parts.client_io, value)


def _functions_of(parts: ClientParts, graph: CallGraph) -> list[Function]:
    """Return the functions by call. Each function object is serialized once."""
    distinct = {id(function): function for function in graph.functions}
    found = {identity: parts.functions.find(function) for identity, function in distinct.items()}
    return [found[id(function)] for function in graph.functions]


def _mark_inputs(graph: CallGraph, functions: list[Function]) -> None:
    """Results that other calls need are never sent here before they are passed on."""
    for slot in graph.slots:
        if slot >= 0:
            functions[slot].is_input = True
