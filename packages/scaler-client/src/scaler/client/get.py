"""``Client.get``, for graphs in the plain dialect and in Dask's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from scaler.client.client_pool import ClientParts
from scaler.client.graph_calls import has_futures, submit_calls
from scaler.client.graphs import FutureInData, results_of, values_of
from scaler.client.options import capabilities_of
from scaler.client.representations import future_rows, table
from scaler.graph import CallGraph, read_plain
from scaler.utility.private_apis import loaded_dask_task_spec
from scaler_protocol.messages import TaskOptions

if TYPE_CHECKING:
    from scaler.client.future import ScalerFuture

BarOf: TypeAlias = "Callable[[list[ScalerFuture[Any]]], AbstractContextManager[None]]"
"""Shows how many of these calls have ended, until the context is left."""


def get(
    parts: ClientParts,
    options: TaskOptions,
    graph: Any,
    keys: Any,
    block: bool,
    capabilities: Mapping[str, float] | Sequence[str] | None,
    dask_options: Mapping[str, Any],
    bar_of: BarOf | None,
) -> Any:
    """Compute ``keys`` of a graph, in the dialect in which ``graph`` and ``keys`` are written. ``options`` are those of
    the client. ``bar_of`` shows the progress of calls that the caller waits for."""
    parts.client_io.check_usable()
    if not isinstance(keys, (str, bytes, tuple, list)) and hasattr(keys, "__iter__"):
        keys = list(keys)
    if not is_plain(graph, keys):
        return _get_dask(parts, options, graph, keys, block, capabilities, dask_options, bar_of)
    if dask_options:
        raise TypeError(f"get() got an unexpected keyword argument {next(iter(dask_options))!r}")
    names = list(keys)
    read = read_plain(graph, names)
    send = partial(_send, parts, replace(options, capabilities=capabilities_of(capabilities)), None)
    values = _send_and_show(bar_of, send, read) if bar_of is not None and block else send(read, block)
    results = zip(names, values, strict=True)
    return dict(results) if block else GraphFutures(results)


class GraphFutures(dict[str, Any]):
    """The futures of the wanted keys of a graph."""

    def __repr__(self) -> str:
        ended = sum(future.done() for future in self.values())
        return f"<futures of a graph, {ended} of {len(self)} ended: {dict.__repr__(self)}>"

    def _repr_html_(self) -> str:
        """Return what notebooks show."""
        return table(f"Futures of a graph ({len(self)})", future_rows(self))


def is_plain(graph: Any, keys: Any) -> bool:
    """Return whether this is the plain dialect: a dict with string keys, without task objects of Dask, and a flat list
    of keys."""
    if not isinstance(graph, dict) or not isinstance(keys, (list, tuple)):
        return False
    if any(isinstance(key, list) for key in keys) or not all(isinstance(key, str) for key in graph):
        return False
    module = loaded_dask_task_spec()
    return module is None or not any(isinstance(node, module.GraphNode) for node in graph.values())


def _get_dask(
    parts: ClientParts,
    options: TaskOptions,
    graph: Any,
    keys: Any,
    block: bool,
    capabilities: Mapping[str, float] | Sequence[str] | None,
    dask_options: Mapping[str, Any],
    bar_of: BarOf | None,
) -> Any:
    """Callbacks of Dask observe a graph only if the caller waits for it."""
    from scaler.integrations import dask_graphs as dask
    from scaler.integrations.dask_persistence import options_by_key

    mapping = dask.mapping_of(graph)
    shared = replace(options, capabilities=capabilities_of(capabilities), shares_values=True)
    send = partial(_send, parts, shared, options_by_key(shared, graph))
    if not block:
        return dask.nest(keys, iter(send(dask.read(mapping, keys), block=False)))
    from scaler.integrations.dask_callbacks import Observation, callbacks_of

    with callbacks_of(dask_options.get("callbacks")) as callbacks:
        if not callbacks:
            read = dask.read(mapping, keys)
            values = send(read, block=True) if bar_of is None else _send_and_show(bar_of, send, read)
            return dask.nest(keys, iter(values))
        observation = Observation(callbacks, mapping, keys)
        return dask.nest(
            keys, iter(observation.get(lambda changed: dask.read(changed, keys), partial(send, block=False)))
        )


def _send(
    parts: ClientParts,
    options: TaskOptions,
    options_of: Callable[[Any], TaskOptions] | None,
    graph: CallGraph,
    block: bool,
) -> list[Any]:
    """One result, or future, per target. ``options_of``: those of calls with annotations."""
    if options_of is None and not has_futures(graph):
        try:
            return values_of(parts, options, graph, block)
        except FutureInData:  # inside other data, or in a task that Dask has fused
            pass
    submitted = submit_calls(parts, graph, options_of or (lambda key: options))
    return submitted.results() if block else list(submitted.targets)


def _send_and_show(bar_of: BarOf, send: Callable[[CallGraph, bool], list[Any]], graph: CallGraph) -> list[Any]:
    """The results of the targets, and a progress bar until they are there. Each call becomes a target in addition: so
    its end is known here."""
    calls = len(graph)
    graph.targets[:0] = range(calls)
    futures = send(graph, False)
    try:
        with bar_of(futures[:calls]):
            return results_of(futures[calls:])
    except BaseException:
        for future in futures:
            future.cancel()
        raise
