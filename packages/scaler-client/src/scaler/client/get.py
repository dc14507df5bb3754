"""``Client.get``, for graphs in the plain dialect and in Dask's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from scaler.client.client_pool import ClientParts
from scaler.client.graphs import values_of
from scaler.client.options import capabilities_of
from scaler.graph import read_plain
from scaler.utility.private_apis import loaded_dask_task_spec
from scaler_protocol.messages import TaskOptions


def get(
    parts: ClientParts,
    options: TaskOptions,
    graph: Any,
    keys: Any,
    block: bool,
    capabilities: Mapping[str, float] | Sequence[str] | None,
    dask_options: Mapping[str, Any],
) -> Any:
    """Compute ``keys`` of a graph, in the dialect in which ``graph`` and ``keys`` are written. ``options`` are those of
    the client."""
    parts.client_io.check_usable()
    if not isinstance(keys, (str, bytes, tuple, list)) and hasattr(keys, "__iter__"):
        keys = list(keys)
    if not is_plain(graph, keys):
        return _get_dask(parts, options, graph, keys, block, capabilities, dask_options)
    if dask_options:
        raise TypeError(f"get() got an unexpected keyword argument {next(iter(dask_options))!r}")
    names = list(keys)
    read = read_plain(graph, names)
    values = values_of(parts, replace(options, capabilities=capabilities_of(capabilities)), read, block)
    return dict(zip(names, values, strict=True))


def is_plain(graph: Any, keys: Any) -> bool:
    """Whether this is the plain dialect: a dict with string keys, without task objects of Dask, and a flat list of
    keys."""
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
) -> Any:
    """Callbacks of Dask observe a graph only if the caller waits for it."""
    from scaler.integrations import dask

    mapping = dask.mapping_of(graph)
    shared = replace(options, capabilities=capabilities_of(capabilities), shares_values=True)
    if not block:
        return dask.nest(keys, iter(values_of(parts, shared, dask.read(mapping, keys), False)))
    from scaler.integrations.dask_callbacks import Observation, callbacks_of

    with callbacks_of(dask_options.get("callbacks")) as callbacks:
        if not callbacks:
            return dask.nest(keys, iter(values_of(parts, shared, dask.read(mapping, keys), True)))
        observation = Observation(callbacks, mapping, keys)
        send = partial(values_of, parts, shared, block=False)
        return dask.nest(keys, iter(observation.get(lambda changed: dask.read(changed, keys), send)))
