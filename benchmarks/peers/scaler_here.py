"""This Scaler."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.functions import noop
from benchmarks.peers import gather_in_order


class ScalerEngine:
    def __init__(self, client: Any) -> None:
        self.client = client
        self.submit = client.submit
        self.send = client.send_object

    def map(self, function: Any, items: Any) -> list[Any]:
        return self.client.map(function, items)

    def get(self, graph: dict[str, Any], key: str) -> Any:
        return self.client.get(graph, [key])[key]

    def compute(self, collection: Any) -> Any:
        return collection.compute(scheduler=self.client.get)

    def gather_at_once(self, futures: Any) -> list[Any]:
        return self.client.gather(futures)

    gather = staticmethod(gather_in_order)


@contextmanager
def open_engine(workers: int) -> Iterator[ScalerEngine]:
    from scaler import Client, SchedulerClusterCombo

    with (
        SchedulerClusterCombo(n_workers=workers, logging_level="ERROR") as combo,
        Client(combo.get_address()) as client,
    ):
        client.map(noop, range(100 * workers))
        yield ScalerEngine(client)
