"""Objects that no agent knows of leave the stores with their owners."""

from __future__ import annotations

import numpy

from scaler import Client
from tests.support.commands import start_cluster, start_scheduler
from tests.support.ports import free_address
from tests.support.waiting import wait_until

COUNT = 100_000


def make(count: int) -> numpy.ndarray:
    return numpy.zeros(count)


def objects(client: Client) -> int:
    return sum(store.objects for store in client.cluster_info().stores)


def sessions(client: Client) -> int:
    return len(client.cluster_info().clients)


def test_a_client_leaves_while_no_agent_is_there() -> None:
    address = free_address()
    with start_scheduler(address), Client(address) as staying:
        with start_cluster(address, "-n", "1") as agent:
            kept = staying.submit(make, COUNT).result()  # the client keeps the store
            leaving = Client(address)
            made = leaving.submit(make, COUNT)
            wait_until(made.done)
            agent.kill()
            wait_until(lambda: not staying.cluster_info().workers)
            leaving.disconnect()
            wait_until(lambda: sessions(staying) == 1)
        with start_cluster(address, "-n", "1"):
            also_kept = staying.submit(make, COUNT).result()  # with this, the agent connects to the store
            wait_until(lambda: staying.cluster_info().stores)
            wait_until(lambda: objects(staying) == 0)
            assert len(kept) == len(also_kept) == COUNT
