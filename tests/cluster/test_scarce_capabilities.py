"""Real workers with a scarce capability are kept for the tasks that need it."""

from __future__ import annotations

import time

from scaler import Client
from tests.support.commands import start_cluster, start_scheduler
from tests.support.ports import free_address
from tests.support.waiting import wait_until

PAUSE_SECONDS = 0.3
FLOOD = 200


def pause() -> float:
    time.sleep(PAUSE_SECONDS)
    return time.monotonic()


def test_tasks_that_need_a_capability_do_not_wait_behind_a_flood() -> None:
    """The flood has the higher priority, and the other worker could run all of it."""
    address = free_address()
    with (
        start_scheduler(address),
        start_cluster(address, "-n", 1, "--per-worker-capabilities", "gpu=1"),
        start_cluster(address, "-n", 1),
        Client(address) as client,
    ):
        wait_until(lambda: len(client.cluster_info().workers) == 2)
        flood = [client.submit_verbose(pause, priority=5) for _ in range(FLOOD)]
        wait_until(lambda: sum(future.done() for future in flood) >= 4)  # both workers run them
        started = time.monotonic()
        needing = [client.submit_verbose(pause, capabilities={"gpu": 1}) for _ in range(3)]
        last = max(future.result() for future in needing)
        assert last - started < 30 * PAUSE_SECONDS  # all of the flood takes more than three times as long
        assert not all(future.done() for future in flood)
        client.clear()
