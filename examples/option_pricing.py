"""Price a European call by Monte Carlo, and check it against the closed formula."""

from __future__ import annotations

import argparse
import math
import random
import statistics

from scaler import Client, SchedulerClusterCombo

SPOT, STRIKE, RATE, VOLATILITY, YEARS = 100.0, 105.0, 0.03, 0.2, 1.0


def simulate(seed: int, paths: int) -> float:
    """Mean discounted payoff over ``paths`` drawn from ``seed``; each path also with its mirror image."""
    draw = random.Random(seed).gauss
    drift = (RATE - VOLATILITY**2 / 2) * YEARS
    spread = VOLATILITY * math.sqrt(YEARS)
    total = 0.0
    for _ in range(paths):
        shock = spread * draw(0, 1)
        for signed in (shock, -shock):
            total += max(0.0, SPOT * math.exp(drift + signed) - STRIKE)
    return math.exp(-RATE * YEARS) * total / (2 * paths)


def black_scholes() -> float:
    """The call's price in closed form (Black and Scholes, 1973)."""
    spread = VOLATILITY * math.sqrt(YEARS)
    first = (math.log(SPOT / STRIKE) + (RATE + VOLATILITY**2 / 2) * YEARS) / spread
    normal = statistics.NormalDist().cdf
    return SPOT * normal(first) - STRIKE * math.exp(-RATE * YEARS) * normal(first - spread)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=400)
    parser.add_argument("--paths", type=int, default=5_000, help="paths a task")
    arguments = parser.parse_args()
    with SchedulerClusterCombo(n_workers=2) as cluster, Client(cluster.get_address()) as client:
        estimates = client.starmap(simulate, [(seed, arguments.paths) for seed in range(arguments.tasks)])
    price = statistics.mean(estimates)
    error = statistics.stdev(estimates) / math.sqrt(len(estimates))
    exact = black_scholes()
    print(f"simulated {price:.4f} +- {error:.4f}, exact {exact:.4f}, off by {abs(price - exact) / error:.1f} errors")


if __name__ == "__main__":
    main()
