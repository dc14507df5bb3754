"""The engines, what to install for each, and how large a workload each can be given in a few seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Competitor:
    """``requirements`` empty: runs in the interpreter of the benchmark itself. ``rate`` is a rough number of tasks a
    second, used only to choose how many tasks to give it."""

    name: str
    title: str
    requirements: tuple[str, ...]
    rate: int


PEERS = {
    peer.name: peer
    for peer in (
        Competitor("scaler_here", "Scaler", (), 200_000),
        Competitor("process_pool", "ProcessPoolExecutor", (), 7_000),
        Competitor("multiprocessing_pool", "multiprocessing.Pool, chunk 1", (), 50_000),
        Competitor("multiprocessing_pool_chunked", "multiprocessing.Pool, automatic chunks", (), 1_000_000),
        Competitor("scaler_1", "scaler 1.9.9", ("scaler==1.9.9", "numpy", "pandas"), 400),
        Competitor("opengris", "opengris-scaler", ("opengris-scaler", "numpy", "pandas"), 250),
        Competitor("dask", "dask.distributed", ("dask[array,dataframe,distributed]", "pandas"), 600),
        Competitor("ray", "ray", ("ray", "numpy", "pandas"), 1_700),
        Competitor("scaler_ray", "scaler.compat.ray", (), 10_000),
    )
}

ALWAYS = ("scaler_here", "process_pool", "multiprocessing_pool")
