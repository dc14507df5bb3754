"""``python -m benchmarks.actors``: calls of an actor compared with tasks, interleaved, medians of rounds."""

from __future__ import annotations

import itertools
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from scaler import Client, ScalerFuture, SchedulerClusterCombo

ROUNDS = 9
ROUND_TRIPS = 300
PIPELINED = 30_000


class Adder:
    """An actor that does as little work as possible."""

    def __init__(self) -> None:
        self.value = 0

    def add(self, number: int) -> int:
        self.value += number
        return self.value

    def get(self) -> int:
        return self.value


def double(number: int) -> int:
    return 2 * number


def round_trip_us(submit: Callable[[], ScalerFuture[int]]) -> float:
    """The median."""
    times = []
    for _ in range(ROUND_TRIPS):
        start = time.perf_counter()
        submit().result()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def rate(submit: Callable[[], ScalerFuture[int]]) -> float:
    """Submitted at once, per second."""
    start = time.perf_counter()
    for future in [submit() for _ in range(PIPELINED)]:
        future.result()
    return PIPELINED / (time.perf_counter() - start)


def measure_tasks(client: Client, figures: dict[str, list[float]]) -> None:
    figures["task us"].append(round_trip_us(lambda: client.submit(double, 1)))
    figures["tasks/s"].append(rate(lambda: client.submit(double, 1)))


def measure_calls(client: Client, figures: dict[str, list[float]]) -> None:
    """``mixed/s``: of two methods in turn."""
    adder = client.actor(Adder)
    adder.get().result()
    figures["call us"].append(round_trip_us(lambda: adder.add(1)))
    figures["calls/s"].append(rate(lambda: adder.add(1)))
    methods: itertools.cycle[Callable[[], Any]] = itertools.cycle([lambda: adder.add(1), adder.get])
    figures["mixed/s"].append(rate(lambda: next(methods)()))
    adder.kill()


def measure_threads(client: Client, figures: dict[str, list[float]]) -> None:
    """``threads/s``: calls of an actor that runs 16 at a time."""
    adder = client.actor_verbose(Adder, max_concurrency=16)
    adder.get().result()
    figures["threads us"].append(round_trip_us(lambda: adder.get()))
    figures["threads/s"].append(rate(lambda: adder.get()))
    adder.kill()


def main() -> None:
    figures: dict[str, list[float]] = defaultdict(list)
    with SchedulerClusterCombo(1) as combo, Client(combo.get_address()) as client:
        for _ in range(ROUNDS):
            measure_tasks(client, figures)
            measure_calls(client, figures)
            measure_threads(client, figures)
    for name, values in figures.items():
        print(f"{name:10} {statistics.median(values):10,.0f}   ({min(values):,.0f} to {max(values):,.0f})")
    ratios = [call / task for call, task in zip(figures["call us"], figures["task us"], strict=True)]
    print(f"call/task  {statistics.median(ratios):10.2f}   ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
