"""dask.distributed: one thread a worker process, no dashboard."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.functions import noop


class DaskEngine:
    def __init__(self, client: Any) -> None:
        self._client = client

    def submit(self, function: Any, *arguments: Any, **keywords: Any) -> Any:
        return self._client.submit(function, *arguments, pure=False, **keywords)

    def map(self, function: Any, items: Any) -> list[Any]:
        return self._client.gather(self._client.map(function, items, pure=False))

    def get(self, graph: dict[str, Any], key: str) -> Any:
        return self._client.get(graph, key)

    def send(self, value: Any) -> Any:
        return self._client.scatter(value, broadcast=True)

    def compute(self, collection: Any) -> Any:
        return self._client.compute(collection).result()

    def gather(self, futures: Any) -> list[Any]:
        return self._client.gather(list(futures))


@contextmanager
def open_engine(workers: int) -> Iterator[DaskEngine]:
    from distributed import Client, LocalCluster

    settings = {"threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with LocalCluster(n_workers=workers, **settings) as cluster, Client(cluster) as client:
        client.gather(client.map(noop, range(20 * workers), pure=False))
        yield DaskEngine(client)
