"""The cost of outstanding and finished tasks in memory. For this Scaler only: it looks into its processes."""

from __future__ import annotations

import os
from typing import Any

import psutil

from benchmarks.functions import noop

MIB = 1024 * 1024


def _resident_mib(pattern: str) -> float:
    """Private and shared resident memory of our descendants whose command line contains ``pattern``, in MiB."""
    total = 0
    for process in psutil.Process().children(recursive=True):
        if pattern in " ".join(process.cmdline()):
            total += process.memory_info().rss
    return total / MIB


def _own_mib() -> float:
    return psutil.Process(os.getpid()).memory_info().rss / MIB


def outstanding(engine: Any, count: int) -> dict[str, float]:
    """``count`` submits that were not awaited yet, behind tasks that hold every worker."""
    import time

    from benchmarks.functions import sleep

    holders = [engine.submit(sleep, 3.0) for _ in range(2)]
    client_before, scheduler_before = _own_mib(), _resident_mib("scaler_scheduler")
    futures = [engine.submit(noop, index) for index in range(count)]
    time.sleep(1.0)  # the scheduler takes them in; the holders still run
    per = 100_000 / count
    figures = {
        "client_mib_per_100k": (_own_mib() - client_before) * per,
        "scheduler_mib_per_100k": (_resident_mib("scaler_scheduler") - scheduler_before) * per,
    }
    engine.gather(holders + futures)
    return figures


def flat(engine: Any, count: int) -> dict[str, float]:
    """``count`` tasks through imap: how much every process grew between the first tenth and the end."""
    samples = {}
    for index, _ in enumerate(engine.client.imap(noop, range(count))):
        if index == count // 10:
            samples = {"client": _own_mib(), "servers": _resident_mib("scaler_")}
    return {
        "client_growth_mib": _own_mib() - samples["client"],
        "servers_growth_mib": _resident_mib("scaler_") - samples["servers"],
    }
