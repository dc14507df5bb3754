"""All workloads by name: what runs, on whom, how large, and the figure that is compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.workloads import (
    awaiting,
    balance,
    core,
    dask_table,
    elastic,
    graphs,
    joblib_table,
    latency,
    memory,
    monitoring,
    nested,
    objects,
    sharing,
    spreading,
    startup,
    throughput,
)


@dataclass(frozen=True)
class Workload:
    """``size`` is the count at full size; ``seconds`` caps a peer's share: a peer gets at most rate x seconds tasks.
    ``kind``: "engine" is run on an open engine, "peer" opens its own, "here" is for this Scaler alone."""

    name: str
    title: str
    function: Callable[..., dict[str, float]]
    kind: str
    figure: str
    size: int = 0
    seconds: float = 4.0
    higher_is_better: bool = True
    only_here: bool = False


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("map", "map of 100,000 no-ops", throughput.map_noops, "engine", "tasks_per_second", 100_000),
        Workload("submit", "50,000 submits, results", throughput.submit_noops, "engine", "tasks_per_second", 50_000),
        Workload("mixed", "submits over 4 functions", throughput.submit_mixed, "engine", "tasks_per_second", 50_000),
        Workload(
            "callbacks", "20,000 submits, a callback each", awaiting.callbacks, "engine", "tasks_per_second", 20_000,
            4.0, True, True,
        ),
        Workload(
            "gather", "asyncio.gather, 20,000 submits", awaiting.gather, "engine", "tasks_per_second", 20_000, 4.0,
            True, True,
        ),
        Workload("latency", "submit and wait", latency.submit_and_wait, "engine", "p50_us", 2_000, 2.0, False),
        Workload(
            "during_bulk", "small tasks while 50 MB travel", latency.submit_during_bulk, "engine", "delay_p50_ms",
            50_000_000, 1e9, False,
        ),
        Workload("makespan", "uneven sleeps", balance.makespan, "engine", "slow_first_ratio", -1, 0, False),
        Workload("ideal_share", "share of the ideal time", balance.ideal_share, "engine", "1ms_map", -1, 0),
        Workload("startup", "first result", startup.first_result, "peer", "seconds", 0, 0, False),
        Workload(
            "clusters", "uneven sleeps, two clusters", elastic.two_clusters_makespan, "here", "slow_first_ratio", 0, 0,
            False, True,
        ),
        Workload(
            "join", "seven workers join", elastic.seven_join, "here", "all_busy_after_first_joined_s", 0, 0, False, True
        ),
        Workload(
            "core", "core alone, 1 to 1,500 agents", core.scheduler_alone, "here", "dearest_to_cheapest", 0, 0, False,
            True,
        ),
        Workload(
            "outstanding", "200,000 outstanding", memory.outstanding, "engine", "client_mib_per_100k", 200_000, 60.0,
            False, True,
        ),
        Workload("tree", "tree reduction of 4,096 leaves", graphs.tree_reduction, "engine", "nodes_per_second", 4_096),
        Workload("layers", "20 layers of 200 nodes", graphs.layered, "engine", "nodes_per_second", 200, 1.0),
        Workload("chain", "chain of 1,000 nodes", graphs.long_chain, "engine", "nodes_per_second", 1_000),
        Workload(
            "future_chain", "chain of 1,000 futures", graphs.chain_of_futures, "engine", "nodes_per_second", 1_000
        ),
        Workload(
            "future_layers", "20 layers of 200 futures, 3 inputs", graphs.layers_of_futures, "engine",
            "nodes_per_second", 200, 1.0,
        ),
        Workload(
            "fibonacci", "nested fibonacci", nested.fibonacci_numbers, "engine", "fibonacci_12_s", -1, 0, False, True
        ),
        Workload("cancel", "cancel endless loops", nested.cancel_loop, "engine", "free_again_s", -1, 0, False, True),
        Workload(
            "array_argument", "100 MB array there, its sum back", objects.array_argument, "engine", "mb_per_second",
            objects.ARRAY_BYTES, 1e9,
        ),
        Workload(
            "array_result", "100 MB array as a result", objects.array_result, "engine", "mb_per_second",
            objects.ARRAY_BYTES, 1e9,
        ),
        Workload("send_object", "100 MB sent, 100 tasks", objects.send_object, "engine", "seconds", 100, 10.0, False),
        Workload(
            "shared_dict", "dict of 1,000,000 sent, 40 tasks", objects.shared_dict, "engine", "seconds", 40, 30.0, False
        ),
        Workload(
            "around_inline_limit", "maps over bytes of 31 kB to 1 MB", objects.around_inline_limit, "engine",
            "33k_arguments_per_second", 4_000, 1e9,
        ),
        Workload(
            "broadcast_memory", "1 GB to 100 tasks", objects.broadcast_memory, "engine", "growth_gb", 100, 10.0, False
        ),
        Workload(
            "broadcast", "1 GB to every host", spreading.broadcast, "engine", "all_hosts_seconds",
            spreading.BROADCAST_BYTES, 1e9, False,
        ),
        Workload(
            "shuffle", "8 x 8 parts of 16 MB from all hosts to all", spreading.shuffle, "engine", "mb_per_second",
            spreading.SHUFFLE_BYTES, 1e9,
        ),
        Workload(
            "many_objects", "10,000 objects of 100 KB", objects.many_objects, "engine", "objects_per_second", 10_000,
            1e9,
        ),
        Workload(
            "gather_results", "client.gather of 2,000 results", objects.gather_results, "engine", "33k_per_second",
            2_000, 1e9, True, True,
        ),
        Workload(
            "data_frame", "DataFrame of 80 MB there, means of its groups back", objects.data_frame, "engine",
            "mb_per_second", objects.FRAME_ROWS, 1e9,
        ),
        Workload(
            "dask_array", "dask.array, small and large chunks", objects.dask_array, "engine", "small_chunks_s", 8_000,
            1e9, False,
        ),
        Workload(
            "dask_table", "ten computations of Dask", dask_table.dask_table, "engine", "tree_s", 100, 1e9, False,
        ),
        Workload(
            "joblib_table", "joblib and scikit-learn, and loky", joblib_table.joblib_table, "engine", "short_fits_s",
            100, 1e9, False, True,
        ),
        Workload(
            "records", "core alone, event records", core.records_alone, "here", "records_ns_500_rows", 0, 0, False,
            True,
        ),
        Workload(
            "monitoring", "a map with three watchers", monitoring.watched_map, "here", "watched_to_unwatched", 0, 0,
            False, True,
        ),
        Workload(
            "screens", "a map on three screens", monitoring.map_on_screens, "here", "watched_to_unwatched", 0, 0, False,
            True,
        ),
        Workload(
            "fairness", "ten tasks behind 100,000 of another client", sharing.fairness, "here", "ten_tasks_s", 0, 0,
            False, True,
        ),
        Workload("flat", "imap, memory", memory.flat, "engine", "servers_growth_mib", 10_000_000, 600.0, False, True),
    )
}  # fmt: skip

DEFAULT = ("map", "submit", "mixed", "latency", "makespan", "startup", "clusters", "join", "outstanding")


def run(workload: Workload, peer: str, size: int, workers: int) -> dict[str, float]:
    """Figures of one run, in this very process."""
    from benchmarks.peers import open_engine

    if workload.kind == "here":
        return workload.function()
    if workload.kind == "peer":
        return workload.function(peer, workers)
    with open_engine(peer, workers) as engine:
        arguments: Any = workers if workload.size < 0 else size
        return workload.function(engine, arguments)
