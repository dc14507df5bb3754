"""Objects of clients that are away, or have left: what stores keep, and what they drop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy

from scaler import Client
from tests.support.commands import child_environment, start_cluster, start_scheduler
from tests.support.ports import free_address
from tests.support.waiting import wait_until

COUNT = 100_000


def make(count: int) -> numpy.ndarray:
    return numpy.zeros(count)


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def add(self) -> int:
        self.count += 1
        return self.count


def noted(path: str) -> int:
    """Take longer than a restarted scheduler waits for clients that are not away. Each start and end is a line."""
    with open(path, "a") as file:
        file.write("start\n")
    time.sleep(2.5)
    with open(path, "a") as file:
        file.write("end\n")
    return os.getpid()


def total(array: numpy.ndarray) -> float:
    return float(array.sum())


SENDING = """
import numpy, sys
from scaler import Client
from tests.cluster.test_orphaned_objects import COUNT, Counter, make, noted, total
with Client(sys.argv[1]) as client:
    sent = client.send_object(numpy.ones(COUNT))
    made = client.submit(make, COUNT)
    counter = client.actor(Counter)
    counter.add().result()
    print(client.submit(total, sent).result(), client.submit(total, made).result(), flush=True)
    running = client.submit_verbose(noted, (sys.argv[2],), {}, rerun=False)
    sys.stdin.readline()
    print(client.submit(total, sent).result(), client.submit(total, made).result(), counter.add().result(), flush=True)
    running.result()
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


def test_what_a_stopped_client_has_outlives_the_scheduler(tmp_path: Path) -> None:
    """The client cannot say in time that it is still there. Its task, actor, result and objects are kept for it."""
    address, notes = free_address(), tmp_path / "notes"
    with start_scheduler(address) as scheduler, start_cluster(address, "-n", "2"), Client(address) as other:
        sending = subprocess.Popen(
            [sys.executable, "-c", SENDING, address, str(notes)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=child_environment(),
        )  # fmt: skip
        with sending:
            try:
                assert sending.stdin is not None and sending.stdout is not None
                assert sending.stdout.readline() == f"{COUNT}.0 0.0\n"
                wait_until(notes.exists)
                wait_until(lambda: objects(other) == 2)
                sending.send_signal(signal.SIGSTOP)
                scheduler.kill()
                with start_scheduler(address):
                    wait_until(lambda: notes.read_text() == "start\nend\n")
                    assert objects(other) == 2
                    sending.send_signal(signal.SIGCONT)
                    sending.stdin.write("go on\n")
                    sending.stdin.flush()
                    assert sending.stdout.readline() == f"{COUNT}.0 0.0 2\n"
                    assert sending.wait(30) == 0
                    assert notes.read_text() == "start\nend\n"
                    wait_until(lambda: objects(other) == 0)
            finally:
                sending.kill()
