"""Collections of Dask whose values the application waits for, gathers or computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import dask

from scaler.client.future import ScalerFuture
from scaler.integrations.dask_graphs import mapping_of


def values_of(get: Callable[..., Any], collections: Sequence[Any]) -> list[Any]:
    """Compute the collections with the scheduler ``get``."""
    return for_each(partial(dask.compute, traverse=False, scheduler=get), collections)


def compute(get: Callable[..., Any], collections: Sequence[Any], optimize_graph: bool) -> list[Any]:
    """Return what ``get``, a scheduler that does not wait, gives for the whole value of each collection."""

    def futures_of_values(graph: Any, keys: Sequence[Any], **_: Any) -> Any:
        if isinstance(graph, Mapping):
            raise NotImplementedError(
                f"Cannot compute without waiting: dask {dask.__version__} assembles values in the application. Update "
                "dask, or call compute() of the collection."
            )
        return get(graph, list(keys))

    schedule = partial(dask.compute, traverse=False, optimize_graph=optimize_graph, scheduler=futures_of_values)
    return for_each(schedule, collections)


def for_each(function: Callable[..., Sequence[Any]], collections: Sequence[Any]) -> list[Any]:
    """Call ``function`` once, and return its results in the order of the collections. Dask 2026.8 mixes up the results
    if collections of one kind do not follow one another; those of data frames are of one kind."""
    kinds = [hasattr(kind, "expr") or kind for kind in map(type, collections)]
    places = sorted(range(len(kinds)), key=lambda place: kinds.index(kinds[place]))
    results = dict(zip(places, function(*[collections[place] for place in places]), strict=True))
    return [results[place] for place in range(len(kinds))]


def futures_of(*collections: Any) -> list[ScalerFuture[Any]]:
    """Return the futures of persisted collections, and of those that were made from them, each once."""
    nodes = [node for each in collections if dask.is_dask_collection(each) for node in mapping_of(each).values()]
    values = [getattr(node, "value", node) for node in nodes]
    return list(dict.fromkeys(value for value in values if isinstance(value, ScalerFuture)))
