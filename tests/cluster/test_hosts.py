"""Two hosts: network namespaces with addresses of their own, and so with object stores of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.support.commands import Command, child_environment, command_line, free_port
from tests.support.namespaces import Pair, on, received_bytes, two_hosts
from tests.support.waiting import wait_until

ADDRESSES = ("10.231.9.1", "10.231.9.2")

SCRIPT = """
import sys, numpy
from scaler import Client

def make(count):
    return numpy.arange(count, dtype=numpy.float64)

def total(array):
    return float(array.sum())

def total_of_two(left, right):
    return total(left) + total(right)

COUNT = 4_000_000
EXPECTED = total(make(COUNT))
client = Client(sys.argv[1])

def on(host, function, *arguments):
    return client.submit_verbose(function, arguments, capabilities={host: 1})
"""


@dataclass
class Hosts:
    names: Pair
    address: str
    agents: tuple[Command, Command]

    def script(self, host: int, text: str) -> str:
        command = [*on(self.names[host]), sys.executable, "-c", SCRIPT + text, self.address]
        done = subprocess.run(command, env=child_environment(), capture_output=True, text=True, timeout=50)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def names() -> Iterator[Pair]:
    with two_hosts(ADDRESSES) as names:
        yield names


@pytest.fixture
def hosts(names: Pair) -> Iterator[Hosts]:
    address = f"tcp://{ADDRESSES[0]}:{free_port()}"
    with Command([*on(names[0]), *command_line("scaler_scheduler", address, "--insecure")]) as scheduler:
        scheduler.wait_for_output("monitor address is")
        first, second = (
            Command([*on(name), *command_line("scaler_cluster", "-n", "2", "--per-worker-capabilities", host, address)])
            for name, host in zip(names, "ab", strict=True)
        )
        with first, second:
            for agent in (first, second):
                agent.wait_for_output(r"Worker\[1\] started")
            wait_until(lambda: scheduler.output.count("joined with") == 2, 15)
            yield Hosts(names, address, (first, second))
            for agent in (first, second, scheduler):
                agent.remember_family()


def test_arguments_and_results_between_hosts(hosts: Hosts) -> None:
    hosts.script(
        0,
        """
array = make(COUNT)
assert on("a", total, array).result(timeout=40) == EXPECTED
assert on("b", total, array).result(timeout=40) == EXPECTED
assert total(on("a", make, COUNT).result(timeout=40)) == EXPECTED
assert total(on("b", make, COUNT).result(timeout=40)) == EXPECTED
""",
    )


def test_an_object_crosses_the_wire_once(hosts: Hosts) -> None:
    before = received_bytes(hosts.names[1])
    hosts.script(
        0,
        """
reference = client.send_object(make(COUNT))
assert [each.result(timeout=40) for each in [on("b", total, reference) for _ in range(20)]] == [EXPECTED] * 20
assert "ObjectChunk" not in [message.name for message in client.cluster_info().snapshot.sent], "not by the scheduler"
""",
    )
    assert 32_000_000 <= received_bytes(hosts.names[1]) - before < 45_000_000


def test_values_of_graphs_go_where_they_are_needed(hosts: Hosts) -> None:
    hosts.script(
        0,
        """
graph = {"count": COUNT}
for index in range(12):
    graph[f"made-{index}"] = (make, "count")
    graph[f"sum-{index}"] = (total, f"made-{index}")
    graph[f"pair-{index}"] = (total_of_two, f"made-{index}", f"made-{(index + 5) % 12}")
names = [f"{kind}-{index}" for kind in ("sum", "pair") for index in range(12)]
values = client.get(graph, names)
assert [values[name] for name in names] == [EXPECTED] * 12 + [2 * EXPECTED] * 12
""",
    )


def test_a_client_on_a_host_without_the_scheduler(hosts: Hosts) -> None:
    hosts.script(
        1,
        """
array = make(COUNT)
for host in "abab":
    assert on(host, total, array).result(timeout=40) == EXPECTED
    assert total(on(host, make, COUNT).result(timeout=40)) == EXPECTED
""",
    )
