"""What monitors show of the processes that run nested tasks in the place of their parents' workers."""

from __future__ import annotations

from scaler import Client
from tests.cluster.conftest import Gate
from tests.support import functions
from tests.support.commands import start_cluster, start_scheduler
from tests.support.ports import free_address
from tests.support.waiting import wait_until

LARGE = 300_000_000


def hold_memory(started: str, gate: str) -> int:
    memory = bytearray(LARGE)
    memory[::4096] = b"x" * len(memory[::4096])
    functions.wait_at_gate(started, gate)
    return len(memory)


def parent(client: Client, started: str, gate: str) -> int:
    return client.submit(hold_memory, started, gate).result()


def test_the_memory_of_a_nested_task_counts_in_the_row_of_its_worker(gate: Gate) -> None:
    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 1, "-hi", 0.2), Client(address) as client:
        future = client.submit(parent, client, *gate.paths)
        wait_until(lambda: gate.waiting_pids)
        wait_until(lambda: client.cluster_info().workers[0].rss_bytes > LARGE)
        (worker,) = client.cluster_info().workers
        assert worker.pid not in gate.waiting_pids
        gate.open()
        assert future.result(timeout=60) == LARGE
        wait_until(lambda: client.cluster_info().workers[0].rss_bytes < LARGE)
