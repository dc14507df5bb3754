"""opengris-scaler from the package index, with the settings it comes with."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.functions import noop
from benchmarks.peers.scaler_1 import OldScalerEngine


@contextmanager
def open_engine(workers: int) -> Iterator[OldScalerEngine]:
    from scaler import Client, SchedulerClusterCombo

    logging.disable(logging.CRITICAL)
    combo = SchedulerClusterCombo(n_workers=workers)
    try:
        with Client(combo.get_address()) as client:
            client.map(noop, [(index,) for index in range(20 * workers)])
            yield OldScalerEngine(client)
    finally:
        combo.shutdown()
