"""Two clients at once: how long the short work of one waits behind the flood of the other. For this Scaler only."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from benchmarks.functions import sleep, spin

FLOOD_TASKS = 100_000
SHORT_SECONDS = 0.01
TINY_SECONDS = 0.00005
PROBES = 5
PROBE_TASKS = 10
SHARED_SECONDS = 3.0


@contextmanager
def clients(count: int) -> Iterator[list[Any]]:
    """Clients of one cluster with two workers, whose functions have been measured."""
    from scaler import Client, SchedulerClusterCombo

    with ExitStack() as stack:
        combo = stack.enter_context(SchedulerClusterCombo(n_workers=2, logging_level="ERROR"))
        opened = [stack.enter_context(Client(combo.get_address())) for _ in range(count)]
        for client in opened:
            client.map(sleep, [SHORT_SECONDS] * 4)
            client.map(spin, [TINY_SECONDS] * 4)
        yield opened


def fairness() -> dict[str, float]:
    """Seconds for ten tasks of 10 ms behind 100,000 tasks of another client, the median of some; and the part that a
    client with long tasks gets when another one has short tasks."""
    return {
        "ten_tasks_s": _wait_behind("submit", sleep, SHORT_SECONDS),
        "ten_tasks_behind_maps_s": _wait_behind("map", spin, TINY_SECONDS),
        "part_of_long_tasks": _part_of_long_tasks(),
    }


def _wait_behind(how: str, function: Any, seconds: float) -> float:
    with clients(2) as (flooding, probing):
        stopped = threading.Event()
        flood = threading.Thread(target=_flood, args=(flooding, how, function, seconds, stopped))
        flood.start()
        time.sleep(1.0)
        waits = sorted(_probe(probing) for _ in range(PROBES))
        stopped.set()
        flooding.clear()
        flood.join()
        return waits[PROBES // 2]


def _flood(client: Any, how: str, function: Any, seconds: float, stopped: threading.Event) -> None:
    while not stopped.is_set():
        try:
            if how == "map":
                client.map(function, [seconds] * FLOOD_TASKS)
            else:
                for future in [client.submit(function, seconds) for _ in range(FLOOD_TASKS)]:
                    future.exception()
        except Exception:  # it was cleared
            return


def _probe(client: Any) -> float:
    started = time.perf_counter()
    for future in [client.submit(sleep, SHORT_SECONDS) for _ in range(PROBE_TASKS)]:
        future.result()
    return time.perf_counter() - started


def _part_of_long_tasks() -> float:
    """0.5 is fair: both clients have the same weight."""
    with clients(2) as (long, short):
        futures = {
            "long": [long.submit(sleep, 10 * SHORT_SECONDS) for _ in range(200)],
            "short": [short.submit(sleep, SHORT_SECONDS) for _ in range(2000)],
        }
        time.sleep(SHARED_SECONDS)
        done = {name: sum(future.done() for future in waiting) for name, waiting in futures.items()}
        long.clear()
        short.clear()
        return 10 * done["long"] / max(1, 10 * done["long"] + done["short"])
