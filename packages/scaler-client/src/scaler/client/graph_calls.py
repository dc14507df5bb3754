"""Graphs whose calls are submitted one by one: those that use futures, whose values stay as futures, or whose calls
have options of their own.

A graph that is sent as a whole (``scaler.client.graphs``) costs less per call, but is complete when it is sent, and its
values end with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from scaler.client.calls import shape_of
from scaler.client.client_pool import ClientParts
from scaler.client.computation_futures import ComputationFuture
from scaler.client.fronts import FutureFront, argument_of
from scaler.client.future import ScalerFuture, cancel_futures
from scaler.client.graphs import SLOTS_LIMIT, analysis_for, finished_future, results_of
from scaler.client.inputs import InputCalls
from scaler.client.shims import call_with_packs, pack
from scaler.core.runs import Function
from scaler.graph import CallGraph, group_calls, split_wide
from scaler_protocol.messages import TaskOptions

if TYPE_CHECKING:
    from scaler.shell.client_io import ClientIO

Future = ScalerFuture[Any]


class SubmittedCalls:
    """The calls of one graph. ``targets``: a future per target. ``futures``: those of the calls, by call; others than
    those of targets are not kept, because a value may go when no call needs it any more."""

    def __init__(self, parts: ClientParts, graph: CallGraph, futures: Mapping[int, Future]) -> None:
        self.targets = [_target(parts, graph, futures, target) for target in graph.targets]
        self._client_io = parts.client_io
        self._own = [futures[target] for target in graph.targets if target >= 0]

    def results(self) -> list[Any]:
        """The values of the targets. An exception, which is that of the first target that failed, ends all calls."""
        try:
            return results_of(self.targets)
        except BaseException:
            cancel_futures(self._client_io, self._own)
            raise


def submit_calls(parts: ClientParts, graph: CallGraph, options_of: Callable[[Any], TaskOptions]) -> SubmittedCalls:
    """Submit the calls of a graph, whose data may be futures. ``options_of``: the options of a call, by its name."""
    graph = split_wide(graph, SLOTS_LIMIT, pack, call_with_packs)
    functions = _functions_of(parts, graph)
    _mark_inputs(graph, functions)
    groups, _ = group_calls(graph, functions)
    futures: dict[int, Future] = {}
    new_future = _futures_for(parts.client_io, graph)
    calls = InputCalls(parts.arguments, parts.functions, parts.client_io)

    def send(call: int) -> None:
        slots = graph.arguments(call)
        values = [futures[slot] if slot >= 0 else graph.data[~slot] for slot in slots]
        options = options_of(graph.names[call])
        shape = shape_of(functions[call], len(values), graph.keywords.get(call, ()), options)
        future = futures[call] = new_future(call, [futures[slot] for slot in slots if slot >= 0])
        calls.send(graph.functions[call], shape, values, future)

    try:
        for call in analysis_for(len(graph))(graph, groups).order:
            send(call)
        return SubmittedCalls(parts, graph, futures)
    except BaseException:
        cancel_futures(parts.client_io, futures.values())
        raise


def _futures_for(client_io: ClientIO, graph: CallGraph) -> Callable[[int, Sequence[Any]], Future]:
    """Return what makes the future of a call, from the futures of its inputs."""
    used, wanted = set(graph.slots), set(graph.targets)

    def new_future(call: int, inputs: Sequence[ComputationFuture]) -> Future:
        if inputs or call in used:
            return ComputationFuture(client_io, call in wanted, inputs)
        return ScalerFuture(client_io)

    return new_future


def has_futures(graph: CallGraph) -> bool:
    """Some data of the graph are the results of other calls."""
    return any(isinstance(value, (ScalerFuture, FutureFront)) for value in graph.data)


def _target(parts: ClientParts, graph: CallGraph, futures: Mapping[int, Future], target: int) -> Future:
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
