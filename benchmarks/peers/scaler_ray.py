"""scaler.compat.ray: the same calls as ray."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.functions import noop
from benchmarks.peers.ray import RayEngine


@contextmanager
def open_engine(workers: int) -> Iterator[RayEngine]:
    from scaler.compat import ray

    with ray.init(num_cpus=workers):
        engine = RayEngine(ray)
        engine.map(noop, range(20 * workers))
        yield engine
