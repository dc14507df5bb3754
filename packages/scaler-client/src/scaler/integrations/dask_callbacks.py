"""Dask's callbacks while a cluster computes a graph: ``dask.callbacks``, and with it ``dask.diagnostics``.

They are called in the thread that waits for the graph, as by Dask's own schedulers, with the same state. A task counts
as running, and ``pretask`` is called, when its inputs are there; ``posttask`` when its result is known here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dask.callbacks import local_callbacks, unpack_callbacks

from scaler.client.graphs import results_of
from scaler.integrations.dask_graphs import Alias, DataNode, flatten, node_of

if TYPE_CHECKING:
    from scaler.client.future import ScalerFuture
    from scaler.graph import CallGraph

Callbacks = Sequence[Sequence[Callable[..., object] | None]]
"""Each has ``start``, ``start_state``, ``pretask``, ``posttask`` and ``finish``, or None in their places."""


@contextmanager
def callbacks_of(option: Any) -> Iterator[Callbacks]:
    """Yield the callbacks of a call: ``option``, or else the ones that are active, which calls within do not see."""
    with local_callbacks(option) as callbacks:
        yield [tuple(callback) for callback in callbacks]


class Observation:
    """One graph that is computed under the eyes of callbacks, which may change it before it is read."""

    def __init__(self, callbacks: Callbacks, graph: Mapping[Any, Any], keys: Any) -> None:
        self._graph = {key: node_of(graph, key) for key in graph}
        self._callbacks = callbacks
        self._started: list[Sequence[Any]] = []
        self._wanted = dict.fromkeys(flatten(keys))
        self._pretask, self._posttask = unpack_callbacks(callbacks)[2:4]
        self._state: dict[str, Any] = {}
        self._early: dict[Any, Any] = {}  # results of calls whose inputs have not been seen to end

    def get(
        self, read: Callable[[Mapping[Any, Any]], CallGraph], send: Callable[[CallGraph], list[ScalerFuture]]
    ) -> list[Any]:
        """The values of the targets of what ``read`` gives; ``send`` gives a future for each target of a graph."""
        failed = True
        try:
            self._start()
            graph = read(self._graph)
            self._note_start()
            calls = len(graph)
            graph.targets[:0] = range(calls)  # so that the end of each is known here
            results = self._run(send(graph), graph.names[:calls])
            failed = False
            return results
        finally:
            for callback in self._started:
                if callback[4]:
                    callback[4](self._graph, self._state, failed)

    def _start(self) -> None:
        for callback in self._callbacks:
            if callback[0]:
                callback[0](self._graph)
            self._started.append(callback)
        self._graph = {key: node_of(self._graph, key) for key in self._graph}

    def _note_start(self) -> None:
        self._state = self._first_state()
        for callback in self._callbacks:
            if callback[1]:
                callback[1](self._graph, self._state)

    def _run(self, futures: list[ScalerFuture], names: Sequence[Any]) -> list[Any]:
        """``names``: of the first futures; the others are wanted. Raises what the first that fails has raised."""
        wanted = futures[len(names) :]
        keys: dict[Any, Any] = dict(zip(futures, names, strict=False))
        del futures
        future = None
        try:
            self._end_all(self._begin())
            for future in as_completed(list(keys)):
                error = future.exception()
                if error is not None:
                    raise error
                self._end(keys.pop(future), future.result() if self._posttask else None)
            return results_of(wanted)
        except BaseException:
            for future in (*wanted, *keys):
                future.cancel()
            raise
        finally:
            del wanted, keys, future  # an exception refers to this frame

    # ---- the state that Dask's schedulers have -----------------------------------------------------------------------

    def _first_state(self) -> dict[str, Any]:
        needed = self._needed()
        data = {key for key in needed if isinstance(self._graph[key], DataNode)}
        dependencies = {key: set(self._graph[key].dependencies) for key in needed}
        dependents: dict[Any, set[Any]] = {key: set() for key in needed}
        for key, names in dependencies.items():
            for name in names:
                dependents[name].add(key)
        waiting = {key: names - data for key, names in dependencies.items() if names - data}
        return {
            "dependencies": dependencies,
            "dependents": dependents,
            "waiting": waiting,
            "waiting_data": {key: set(names) for key, names in dependents.items()},
            "cache": {key: self._graph[key].value for key in data},
            "ready": [key for key in needed if key not in data and key not in waiting],
            "running": set(),
            "finished": set(),
            "released": set(),
        }

    def _needed(self) -> dict[Any, None]:
        needed = dict(self._wanted)
        waiting = deque(needed)
        while waiting:
            for name in self._graph[waiting.popleft()].dependencies:
                if name not in needed:
                    needed[name] = None
                    waiting.append(name)
        return needed

    def _begin(self) -> list[Any]:
        """The inputs of all that are ready are there. Gives those that have ended already: aliases, of which nothing
        runs, and calls whose results were read before those of their inputs."""
        state, ended = self._state, []
        while state["ready"]:
            key = state["ready"].pop()
            state["running"].add(key)
            for pretask in self._pretask:
                pretask(key, self._graph, state)
            if key in self._early or isinstance(self._graph[key], Alias):
                ended.append(key)
        return ended

    def _end(self, key: Any, value: Any) -> None:
        self._early[key] = value
        if key in self._state["running"]:
            self._end_all([key])

    def _end_all(self, ended: list[Any]) -> None:
        """These, and whatever has ended behind them."""
        state = self._state
        while ended:
            key = ended.pop()
            node = self._graph[key]
            value = state["cache"][node.target] if isinstance(node, Alias) else self._early.pop(key)
            state["cache"][key] = value
            self._note_end(key)
            for posttask in self._posttask:
                posttask(key, value, self._graph, state, None)
            ended.extend(self._begin())

    def _note_end(self, key: Any) -> None:
        state = self._state
        for dependent in state["dependents"][key]:
            inputs = state["waiting"][dependent]
            inputs.remove(key)
            if not inputs:
                del state["waiting"][dependent]
                state["ready"].append(dependent)
        self._release_inputs(key)
        state["running"].remove(key)
        state["finished"].add(key)

    def _release_inputs(self, key: Any) -> None:
        state = self._state
        for name in state["dependencies"][key]:
            users = state["waiting_data"][name]
            users.discard(key)
            if not users and name not in self._wanted:
                del state["waiting_data"][name]
                state["released"].add(name)
                state["cache"].pop(name, None)
