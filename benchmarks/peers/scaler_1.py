"""scaler 1.9.9 from the package index: the API is the one this project keeps, so the calls are the same."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.functions import noop
from benchmarks.peers import gather_in_order


class OldScalerEngine:
    def __init__(self, client: Any) -> None:
        self._client = client
        self.submit = client.submit
        self.send = client.send_object

    def map(self, function: Any, items: Any) -> list[Any]:
        return self._client.map(function, [(item,) for item in items])

    gather = staticmethod(gather_in_order)


@contextmanager
def open_engine(workers: int) -> Iterator[OldScalerEngine]:
    from scaler import Client, SchedulerClusterCombo

    logging.disable(logging.CRITICAL)
    combo = SchedulerClusterCombo(n_workers=workers, per_worker_queue_size=1000, logging_level="CRITICAL")
    try:
        with Client(combo.get_address()) as client:
            client.map(noop, [(index,) for index in range(20 * workers)])
            yield OldScalerEngine(client)
    finally:
        combo.shutdown()
