"""Workers that come late, and workers on several clusters. For this Scaler only."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from benchmarks.functions import noop, sleep_span
from benchmarks.peers.scaler_here import ScalerEngine
from benchmarks.workloads.balance import makespan


@contextmanager
def separate_clusters(sizes: tuple[int, ...]) -> Iterator[tuple[ScalerEngine, ExitStack, str]]:
    """One scheduler with a cluster of each size; the stack takes further clusters."""
    from scaler import Client, Cluster, SchedulerClusterCombo

    with ExitStack() as stack:
        combo = stack.enter_context(SchedulerClusterCombo(n_workers=0, logging_level="ERROR"))
        for size in sizes:
            cluster = Cluster(combo.get_address(), size, logging_level="ERROR")
            cluster.start()
            stack.callback(cluster.terminate)
        client = stack.enter_context(Client(combo.get_address()))
        client.map(noop, range(100))
        yield ScalerEngine(client), stack, combo.get_address()


def two_clusters_makespan() -> dict[str, float]:
    with separate_clusters((1, 1)) as (engine, _, _):
        engine.map(noop, range(1000))
        return makespan(engine, 2)


def seven_join() -> dict[str, float]:
    """Eight tasks of 1 s on one worker; a cluster of seven joins: seconds from its first start to the last start there
    or, of the task that had been handed to the first worker, anywhere."""
    from scaler import Cluster

    with separate_clusters((1,)) as (engine, stack, address):
        futures = [engine.submit(sleep_span, 1.0) for _ in range(8)]
        cluster = Cluster(address, 7, logging_level="ERROR")
        cluster.start()
        stack.callback(cluster.terminate)
        launched = time.monotonic()
        starts = sorted(future.result() for future in futures)
        first_worker = starts[0][1]
        joined = min(start for start, worker in starts if worker != first_worker)
        return {
            "all_busy_after_first_joined_s": starts[-1][0] - joined,
            "all_busy_after_launch_s": starts[-1][0] - launched,
        }
