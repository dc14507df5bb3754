"""``python -m benchmarks.actors``: calls of an actor compared with tasks, interleaved, medians of rounds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from scaler import Client, ScalerFuture, SchedulerClusterCombo

ROUNDS = 9
ROUND_TRIPS = 300
PIPELINED = 30_000


class Adder:
    """As little work as possible."""

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


def main() -> None:
    with SchedulerClusterCombo(1) as combo, Client(combo.get_address()) as client:
        figures: dict[str, list[float]] = {name: [] for name in ("task us", "call us", "tasks/s", "calls/s", "mixed/s")}
        for _ in range(ROUNDS):
            figures["task us"].append(round_trip_us(lambda: client.submit(double, 1)))
            figures["tasks/s"].append(rate(lambda: client.submit(double, 1)))
            adder = client.actor(Adder)
            adder.get().result()
            figures["call us"].append(round_trip_us(lambda: adder.add(1)))
            figures["calls/s"].append(rate(lambda: adder.add(1)))
            turns = iter(range(2 * PIPELINED))
            figures["mixed/s"].append(rate(lambda: adder.get() if next(turns) % 2 else adder.add(1)))
            adder.kill()
        for name, values in figures.items():
            print(f"{name:8} {statistics.median(values):10,.0f}   ({min(values):,.0f} to {max(values):,.0f})")


if __name__ == "__main__":
    main()
