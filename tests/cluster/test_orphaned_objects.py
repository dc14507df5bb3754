"""Objects of clients that are away, or have left: what stores keep, and what they drop."""

from __future__ import annotations

import signal
import subprocess
import sys

import numpy

from scaler import Client
from tests.support.commands import child_environment, start_cluster, start_scheduler
from tests.support.ports import free_address
from tests.support.waiting import wait_until

COUNT = 100_000


def make(count: int) -> numpy.ndarray:
    return numpy.zeros(count)


def total(array: numpy.ndarray) -> float:
    return float(array.sum())


SENDING = """
import numpy, sys
from scaler import Client
from tests.cluster.test_orphaned_objects import COUNT, make, total
with Client(sys.argv[1]) as client:
    sent = client.send_object(numpy.ones(COUNT))
    made = client.submit(make, COUNT)
    print(client.submit(total, sent).result(), client.submit(total, made).result(), flush=True)
    sys.stdin.readline()
    print(client.submit(total, sent).result(), client.submit(total, made).result(), flush=True)
"""


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


def test_what_a_stopped_client_has_sent_outlives_the_scheduler() -> None:
    """The client cannot say in time that it is still there: what is in the store is dropped, but not what it has put
    there itself."""
    address = free_address()
    with start_scheduler(address) as scheduler, start_cluster(address, "-n", "1"), Client(address) as other:
        sending = subprocess.Popen(
            [sys.executable, "-c", SENDING, address],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=child_environment(),
        )  # fmt: skip
        with sending:
            try:
                assert sending.stdin is not None and sending.stdout is not None
                assert sending.stdout.readline() == f"{COUNT}.0 0.0\n"
                wait_until(lambda: objects(other) == 2)
                sending.send_signal(signal.SIGSTOP)
                scheduler.kill()
                with start_scheduler(address):
                    wait_until(lambda: objects(other) == 1)
                    sending.send_signal(signal.SIGCONT)
                    sending.stdin.write("go on\n")
                    sending.stdin.flush()
                    assert sending.stdout.readline() == f"{COUNT}.0 0.0\n"
                    assert sending.wait(30) == 0
                    wait_until(lambda: objects(other) == 0)
            finally:
                sending.kill()
