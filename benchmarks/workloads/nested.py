"""Tasks that submit tasks, and how soon a cancelled task's worker is free. For this Scaler only."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.functions import noop


def fibonacci(client: Any, number: int) -> int:
    if number < 2:
        return number
    first = client.submit(fibonacci, client, number - 1)
    second = client.submit(fibonacci, client, number - 2)
    return first.result() + second.result()


def spin() -> None:
    while True:
        pass


def fibonacci_numbers(engine: Any, count: int) -> dict[str, float]:
    """Seconds for fibonacci(8) and (12), after a first one that warms up spare worker processes."""
    client = engine.client
    client.submit(fibonacci, client, 6).result()
    figures = {}
    for number in (8, 12):
        started = time.perf_counter()
        client.submit(fibonacci, client, number).result()
        figures[f"fibonacci_{number}_s"] = time.perf_counter() - started
    return figures


def cancel_loop(engine: Any, count: int) -> dict[str, float]:
    """Seconds from cancelling endless loops on all workers to the first result of a task behind them."""
    loops = [engine.submit(spin) for _ in range(count)]
    behind = engine.submit(noop, 0)
    time.sleep(0.3)  # they run
    started = time.perf_counter()
    for loop in loops:
        loop.cancel()
    behind.result()
    return {"free_again_s": time.perf_counter() - started}
