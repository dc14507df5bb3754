"""Dask's collections whose values stay in the cluster, and annotations of their tasks.

Dask asks the scheduler for the values of keys. To persist, it gets nodes with futures in their places; a graph that
contains such futures is submitted call by call, and each value moves from where it was made to where it is needed."""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import dask
from dask.base import normalize_token

from scaler.client.client_pool import ClientParts
from scaler.client.future import ScalerFuture
from scaler.client.graph_calls import submit_calls
from scaler.client.options import PRIORITY_LIMIT, RETRIES_LIMIT, capabilities_of, whole_number
from scaler.integrations.dask_collections import for_each
from scaler.integrations.dask_graphs import DataNode, mapping_of, read
from scaler.utility.warning import warn_program
from scaler_protocol.messages import TaskOptions

_IGNORED = ("workers", "allow_other_workers")


def persist(
    parts: ClientParts, options: TaskOptions, collections: Sequence[Any], optimize_graph: bool, **dask_options: Any
) -> list[Any]:
    """The collections, with futures for their values. Dask itself makes them, with a scheduler that gives nodes."""

    def nodes_of(graph: Any, keys: Sequence[Any], **_: Any) -> list[Any]:
        options_of = options_by_key(options, graph) or (lambda key: options)
        futures = submit_calls(parts, read(mapping_of(graph), list(keys)), options_of).targets
        return list(map(PersistedNode, keys, futures))

    options_of_dask = {"traverse": False, "optimize_graph": optimize_graph, "scheduler": nodes_of, **dask_options}
    return for_each(partial(dask.persist, **options_of_dask), collections)


class PersistedNode(DataNode):
    """A node whose value stays in the cluster: ``value`` is its future. A scheduler of Dask that computes with it gets
    the value."""

    __slots__ = ()

    def __call__(self, values: Any = ()) -> Any:
        return self.value.result()

    def copy(self) -> PersistedNode:
        return self

    def substitute(self, subs: Any, key: Any = None) -> PersistedNode:
        return self if key is None or key == self.key else PersistedNode(key, self.value)


# ---- annotations -----------------------------------------------------------------------------------------------------


def annotations_of(graph: Any) -> Mapping[str, Mapping[Any, Any]]:
    """Return the annotations of ``dask.annotate`` for the keys of a graph, by name and key."""
    find = getattr(graph, "__dask_annotations__", None)
    return find() if find is not None else {}


def options_by_key(options: TaskOptions, graph: Any) -> Callable[[Any], TaskOptions] | None:
    """A function from keys to the options of their tasks: ``options``, changed by annotations. ``priority`` and
    ``retries`` are those of Scaler, ``resources`` are capabilities. None: nothing is annotated."""
    annotations = annotations_of(graph)
    if any(annotations.get(name) for name in _IGNORED):
        text = "Dask's annotation 'workers' has no effect: Scaler chooses the workers. Annotate resources instead."
        warn_program(text, "dask")
    if not any(annotations.get(name) for name in ("priority", "retries", "resources")):
        return None
    return partial(_options_of, options, annotations, {})


def _options_of(
    options: TaskOptions, annotations: Mapping[str, Mapping[Any, Any]], known: dict[Any, TaskOptions], key: Any
) -> TaskOptions:
    """Equal annotations give the same object, so that tasks join one run."""
    priority, retries, resources = (annotations.get(name, {}).get(key) for name in ("priority", "retries", "resources"))
    names = None if resources is None else tuple(sorted(resources.items()))
    found = known.get((priority, retries, names))
    if found is None:
        found = known[priority, retries, names] = _changed(options, priority, retries, resources)
    return found


def _changed(options: TaskOptions, priority: Any, retries: Any, resources: Any) -> TaskOptions:
    if priority is not None:
        options = replace(options, priority=whole_number("priority", priority, -PRIORITY_LIMIT, PRIORITY_LIMIT))
    if retries is not None:
        options = replace(options, retries=whole_number("retries", retries, 0, RETRIES_LIMIT))
    if resources is not None:
        options = replace(options, capabilities=capabilities_of(resources))
    return options


# ---- futures in collections ------------------------------------------------------------------------------------------

_tokens: weakref.WeakKeyDictionary[ScalerFuture[Any], str] = weakref.WeakKeyDictionary()


def _token_of(future: ScalerFuture[Any]) -> tuple[str, str]:
    """Dask names what it makes of a collection by what is in it."""
    return "scaler.ScalerFuture", _tokens.setdefault(future, uuid.uuid4().hex)


normalize_token.register(ScalerFuture, _token_of)
