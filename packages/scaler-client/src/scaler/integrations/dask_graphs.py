"""Graphs as Dask hands them to a scheduler: ``dask.compute(x, scheduler=client)``.

Accepts Dask's expressions, high-level graphs, and mappings of keys to its task objects or to the older tuples. Tasks
that Dask has fused stay fused. Only what the keys need is read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError
from typing import Any

from scaler.client.shims import evaluate
from scaler.graph import CallGraph
from scaler.utility.private_apis import dask_task_spec

_task_spec: Any = dask_task_spec()
Alias, DataNode, GraphNode = _task_spec.Alias, _task_spec.DataNode, _task_spec.GraphNode
Task, TaskRef = _task_spec.Task, _task_spec.TaskRef
_convert_legacy_task = _task_spec.convert_legacy_task
_STORE = "load_store_chunk"
"""The function of the tasks of ``dask.array.store``."""


def read(graph: Any, keys: Any) -> CallGraph:
    """Read what ``keys``, a key or nested lists of keys, need. Raises KeyError for a key that is not in the graph."""
    reader = _Reader(mapping_of(graph))
    reader.result.targets.extend([reader.number_of(key) for key in flatten(keys)])
    for task in reader.tasks:  # grows meanwhile
        reader.add_call(task)
    return reader.result


def flatten(keys: Any) -> Iterator[Any]:
    if isinstance(keys, list):
        for key in keys:
            yield from flatten(key)
    else:
        yield keys


def nest(keys: Any, values: Iterator[Any]) -> Any:
    """``values``, one per key, nested as ``keys`` are."""
    if isinstance(keys, list):
        return Nested(nest(key, values) for key in keys)
    return next(values)


class Nested(tuple[Any, ...]):
    """Values of a list of keys: a tuple, as Dask's local schedulers give, that equals a list, as dask.distributed
    gives."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return tuple.__eq__(self, tuple(other) if isinstance(other, list) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (tuple(self),)  # workers have no scaler-client


def mapping_of(graph: Any) -> Mapping[Any, Any]:
    if not isinstance(graph, Mapping) and hasattr(graph, "__dask_graph__"):
        graph = graph.__dask_graph__()
    if hasattr(graph, "to_dict"):
        graph = graph.to_dict()
    if not isinstance(graph, Mapping):
        raise TypeError(f"A graph is a mapping or an object of Dask, not {type(graph).__name__}.")
    return graph


def node_of(graph: Mapping[Any, Any], key: Any) -> Any:
    """The node ``key`` of ``graph``, as an object of Dask."""
    node = graph[key]
    if not isinstance(node, GraphNode):
        node = _convert_legacy_task(key, node, graph)
    return node if isinstance(node, GraphNode) else DataNode(key, node)


class _Reader:
    """Numbers keys as they are met. Equal literals of one graph are the same datum."""

    def __init__(self, graph: Mapping[Any, Any]) -> None:
        self._graph = graph
        self._numbers: dict[Any, int] = {}
        self._literals: dict[int, int] = {}
        self.tasks: list[Any] = []
        self.result = CallGraph()

    def number_of(self, key: Any) -> int:
        number = self._numbers.get(key)
        return self._admit(key) if number is None else number

    def _admit(self, key: Any) -> int:
        names, node = self._resolve(key)
        number = self._numbers.get(names[-1])
        if number is None:
            number = self._literal(node.value) if isinstance(node, DataNode) else self._add_task(names[-1], node)
        for name in names:
            self._numbers[name] = number
        return number

    def _resolve(self, key: Any) -> tuple[list[Any], Any]:
        """Follow aliases. All names on the way, and the node at its end."""
        names = [key]
        node = self._node(key)
        while isinstance(node, Alias):
            if node.target in names:
                raise CycleError("nodes are in a cycle", [node.target, *reversed(names)])
            names.append(node.target)
            node = self._node(node.target)
        return names, node

    def _node(self, key: Any) -> Any:
        try:
            return node_of(self._graph, key)
        except KeyError:
            if key in self._graph:
                raise
            raise KeyError(f"{key!r} is not in the graph.") from None

    def _add_task(self, key: Any, task: Any) -> int:
        self.tasks.append(task)
        self.result.names.append(key)
        return len(self.tasks) - 1

    def _literal(self, value: Any) -> int:
        number = self._literals.get(id(value))
        if number is None:
            self.result.data.append(value)  # which also keeps its identity from being used again
            number = self._literals[id(value)] = ~(len(self.result.data) - 1)
        return number

    # ---- calls -----------------------------------------------------------------------------------------------------

    def add_call(self, task: Any) -> None:
        if _is_store(task.key):
            _check_target(task)
        result = self.result
        call = len(result.ends)
        if type(task) is Task and not any(map(_is_nested, (*task.args, *task.kwargs.values()))):
            result.functions.append(task.func)
            result.slots.extend([self._argument(value) for value in (*task.args, *task.kwargs.values())])
            if task.kwargs:
                result.keywords[call] = tuple(task.kwargs)
        else:
            self._add_evaluation(task)
        result.ends.append(len(result.slots))

    def _add_evaluation(self, task: Any) -> None:
        """A task with tasks inside: it is sent as it is, and evaluates them itself."""
        names = tuple(task.dependencies)
        self.result.functions.append(evaluate)
        self.result.slots.extend([self._literal(task), self._literal(names), *map(self.number_of, names)])

    def _argument(self, value: Any) -> int:
        if isinstance(value, TaskRef):
            return self.number_of(value.key)
        if isinstance(value, Alias):
            return self.number_of(value.target)
        return self._literal(value.value if isinstance(value, DataNode) else value)


# ---- targets of dask.array.store ------------------------------------------------------------------------------------


def _is_store(key: Any) -> bool:
    return type(key) is tuple and str(key[0]).startswith("store-map-")


def _check_target(task: Any) -> None:
    """Raise TypeError if the task would only change its own copy of an array."""
    numpy = sys.modules.get("numpy")
    target = _target_of(task)
    if numpy is not None and isinstance(target, numpy.ndarray):
        raise TypeError(
            f"Cannot store into a {type(target).__name__} of this process: tasks change copies of it in other "
            "processes. Call compute() for the values, store into what all hosts can write to (Zarr, HDF5), or compute "
            'with scheduler="threads".'
        )


def _target_of(task: Any) -> Any:
    """Return the target if it is known now and what the task returns does not contain its values."""
    store, inputs = task, {}
    if task.args and type(task.args[0]) is dict:  # Dask has fused it with what makes the values
        nodes, last, names, *values = task.args
        store, inputs = nodes[last], dict(zip(names, values, strict=False))
    if getattr(getattr(store, "func", None), "__name__", "") != _STORE or store.kwargs.get("return_stored"):
        return None
    target = store.args[1]
    target = inputs.get(target.key) if isinstance(target, TaskRef) else target
    return target.value if isinstance(target, DataNode) else target


def _is_nested(value: Any) -> bool:
    return isinstance(value, GraphNode) and not isinstance(value, (Alias, DataNode))
