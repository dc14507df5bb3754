"""Large NumPy arrays as arguments, results and between the calls of a graph: written once, mapped by the readers."""

from __future__ import annotations

import time

import numpy

from scaler import Client, SchedulerClusterCombo


def noise(seed: int, count: int) -> numpy.ndarray:
    return numpy.random.default_rng(seed).standard_normal(count)


def smooth(signal: numpy.ndarray) -> numpy.ndarray:
    signal[1:-1] = (signal[:-2] + signal[1:-1] + signal[2:]) / 3  # its own copy: other tasks do not see this
    return signal


def spread(signal: numpy.ndarray) -> float:
    return float(signal.std())


def main() -> None:
    count = 5_000_000
    with SchedulerClusterCombo(n_workers=2) as cluster, Client(cluster.get_address()) as client:
        signal = noise(1, count)
        started = time.perf_counter()
        smoothed = client.submit(smooth, signal).result()
        print(f"{signal.nbytes / 1e6:.0f} MB there and back in {time.perf_counter() - started:.2f} s")
        print(f"spread {signal.std():.2f}, smoothed {smoothed.std():.2f}")

        graph = {"count": count}
        for seed in range(4):
            graph |= {f"seed-{seed}": seed, f"signal-{seed}": (noise, f"seed-{seed}", "count")}
            graph |= {f"smooth-{seed}": (smooth, f"signal-{seed}"), f"spread-{seed}": (spread, f"smooth-{seed}")}
        spreads = client.get(graph, [f"spread-{seed}" for seed in range(4)])
        print("four more:", ", ".join(f"{value:.2f}" for value in spreads.values()))


if __name__ == "__main__":
    main()
