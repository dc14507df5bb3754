"""``python -m benchmarks.fleet_clients ADDRESS CLIENTS``: the clients of ``benchmarks.fleet``, in one process.

Reads a word per line: "map", "latency", "all" or "hold"; prints its figures as JSON. After "hold", a line with
"begun" comes first.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import ExitStack
from typing import Any

from benchmarks.functions import noop
from scaler import Client

MAP_TASKS = 200_000
LATENCY_TASKS = 1000
TASKS_OF_EACH = 1000
MAPS = 3


def hold(value: int) -> None:
    """The simulated workers end it after a while."""


def run_map(clients: list[Any]) -> dict[str, float]:
    best = 0.0
    for _ in range(MAPS):
        started = time.perf_counter()
        clients[0].map(noop, range(MAP_TASKS))
        best = max(best, MAP_TASKS / (time.perf_counter() - started))
    return {"tasks_per_second": best, "tasks": MAPS * MAP_TASKS}


def run_latency(clients: list[Any]) -> dict[str, float]:
    samples = []
    for index in range(LATENCY_TASKS):
        started = time.perf_counter()
        clients[0].submit(noop, index).result()
        samples.append((time.perf_counter() - started) * 1e6)
    samples.sort()
    return {"p50_us": samples[LATENCY_TASKS // 2], "p99_us": samples[LATENCY_TASKS * 99 // 100]}


def run_all(clients: list[Any]) -> dict[str, float]:
    """Every client submits; all tasks are outstanding together."""
    started = time.perf_counter()
    futures = [client.submit(noop, index) for client in clients for index in range(TASKS_OF_EACH)]
    for future in futures:
        future.result()
    count = len(futures)
    return {"tasks_per_second": count / (time.perf_counter() - started), "tasks": count}


def run_hold(clients: list[Any], count: int) -> dict[str, float]:
    futures = [clients[0].submit(hold, index) for index in range(count)]
    print("begun", flush=True)
    for future in futures:
        future.result()
    return {"ended_at": time.monotonic()}


def main(arguments: list[str]) -> None:
    address, count = arguments
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(address)) for _ in range(int(count))]
        clients[0].map(noop, range(MAP_TASKS))
        print("ready", flush=True)
        for line in sys.stdin:
            word, _, number = line.strip().partition(" ")
            if word == "hold":
                figures = run_hold(clients, int(number))
            else:
                figures = {"map": run_map, "latency": run_latency, "all": run_all}[word](clients)
            print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
