"""Programs that do not wait in ``result()``: callbacks, and coroutines. For this Scaler only."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from typing import Any

from benchmarks.functions import noop

_ROUNDS = 5
_CALLS_ONE_BY_ONE = 500


def callbacks(engine: Any, count: int) -> dict[str, float]:
    """``count`` submits with a callback each, until the last callback."""
    rates = [_with_callbacks(engine, count) for _ in range(_ROUNDS)]
    return {"tasks_per_second": max(rates)}


def _with_callbacks(engine: Any, count: int) -> float:
    is_over, left = threading.Event(), count

    def count_down(future: Future[int]) -> None:
        nonlocal left
        left -= 1
        if not left:
            is_over.set()

    started = time.perf_counter()
    for index in range(count):
        engine.submit(noop, index).add_done_callback(count_down)
    is_over.wait()
    return count / (time.perf_counter() - started)


def gather(engine: Any, count: int) -> dict[str, float]:
    """``asyncio.gather`` over ``count`` submits, then submits that are awaited one by one."""
    return asyncio.run(_gather(engine.client.address, count))


async def _gather(address: str, count: int) -> dict[str, float]:
    from scaler import AsyncClient

    async with AsyncClient(address) as client:
        rates = []
        for _ in range(_ROUNDS):
            started = time.perf_counter()
            await asyncio.gather(*[client.submit(noop, index) for index in range(count)])
            rates.append(count / (time.perf_counter() - started))
        started = time.perf_counter()
        for index in range(_CALLS_ONE_BY_ONE):
            await client.submit(noop, index)
        one_by_one = (time.perf_counter() - started) / _CALLS_ONE_BY_ONE
    return {"tasks_per_second": max(rates), "one_by_one_us": one_by_one * 1e6}
