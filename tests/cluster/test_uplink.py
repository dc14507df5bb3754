"""A client on a slow uplink: a large argument does not hold back small tasks of other threads."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.support.commands import Command, command_line
from tests.support.namespaces import on, run, two_hosts
from tests.support.ports import free_port

ADDRESSES = ("10.231.19.1", "10.231.19.2")
RATE = "8mbit"
"""The argument takes 16 seconds."""

SCRIPT = """
import sys, threading
from pathlib import Path
from scaler import Client

def sent_bytes():
    return int(Path(f"/sys/class/net/{sys.argv[2]}/statistics/tx_bytes").read_text())

client = Client(sys.argv[1])
client.submit(abs, -1).result(timeout=60)
large = []
thread = threading.Thread(target=lambda: large.append(client.submit(len, bytes(16_000_000))))
thread.start()
thread.join()
for number in range(10):
    assert client.submit(abs, -number).result(timeout=60) == number
assert client.map(abs, range(100)) == list(range(100))
assert sent_bytes() < 12_000_000, "the argument was sent first"
assert not large[0].done()
assert large[0].cancel()
assert client.submit(len, bytes(1_000_000)).result(timeout=60) == 1_000_000
captured = bytes(1_000_000)
assert client.submit(lambda: len(captured)).result(timeout=60) == 1_000_000
client.disconnect()
"""


@pytest.fixture
def remote_host() -> Iterator[tuple[str, str]]:
    """Where a client finds no object store and sends slowly, and the address of a scheduler elsewhere."""
    with two_hosts(ADDRESSES) as (servers, remote):
        bucket = ("tbf", "rate", RATE, "burst", "32kb", "latency", "2s")
        run("tc", "-n", remote, "qdisc", "add", "dev", remote, "root", *bucket)
        address = f"tcp://{ADDRESSES[0]}:{free_port()}"
        with Command([*on(servers), *command_line("scaler_scheduler", address, "--insecure")]) as scheduler:
            scheduler.wait_for_output("monitor address is")
            with Command([*on(servers), *command_line("scaler_cluster", "-n", "2", address)]) as cluster:
                cluster.wait_for_output(r"Worker\[1\] started")
                yield remote, address
                cluster.remember_family()
            scheduler.remember_family()


def test_small_tasks_end_while_a_large_argument_is_sent(remote_host: tuple[str, str]) -> None:
    name, address = remote_host
    with Command([*on(name), sys.executable, "-c", SCRIPT, address, name]) as script:
        assert script.wait(120) == 0, script.output
