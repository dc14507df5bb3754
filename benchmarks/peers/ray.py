"""ray: remote functions with one processor each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.functions import noop


class RayFuture:
    def __init__(self, engine: RayEngine, reference: Any) -> None:
        self._engine = engine
        self.reference = reference

    def result(self) -> Any:
        return self._engine.ray.get(self.reference)


class RayEngine:
    def __init__(self, ray: Any) -> None:
        self.ray = ray
        self._remote: dict[Any, Any] = {}

    def _function(self, function: Any) -> Any:
        if function not in self._remote:
            self._remote[function] = self.ray.remote(function)
        return self._remote[function]

    def submit(self, function: Any, *arguments: Any, **keywords: Any) -> RayFuture:
        return RayFuture(self, self._function(function).remote(*arguments, **keywords))

    def send(self, value: Any) -> Any:
        return self.ray.put(value)

    def map(self, function: Any, items: Any) -> list[Any]:
        remote = self._function(function)
        return self.ray.get([remote.remote(item) for item in items])

    def get(self, graph: dict[str, Any], key: str) -> Any:
        """The graph's own order is one in which inputs come first."""
        made: dict[str, Any] = {}
        for name, node in graph.items():
            is_call = isinstance(node, tuple)
            made[name] = self._function(node[0]).remote(*(made[each] for each in node[1:])) if is_call else node
        return self.ray.get(made[key])

    def gather(self, futures: Any) -> list[Any]:
        return self.ray.get([future.reference for future in futures])


@contextmanager
def open_engine(workers: int) -> Iterator[RayEngine]:
    import ray

    ray.init(num_cpus=workers, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    try:
        engine = RayEngine(ray)
        engine.map(noop, range(20 * workers))
        yield engine
    finally:
        ray.shutdown()
