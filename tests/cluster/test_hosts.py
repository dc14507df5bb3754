"""Two hosts: network namespaces with addresses of their own, and so with object stores of their own."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.support.commands import Command, command_line
from tests.support.namespaces import Pair, on, received_bytes, run, two_hosts
from tests.support.ports import free_port
from tests.support.waiting import wait_until

ADDRESSES = ("10.231.9.1", "10.231.9.2")
CAPABLE = ("-n", "2", "--per-worker-capabilities", "b")

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

    def script(self, host: int, text: str, *arguments: str) -> None:
        with self.begin(host, text, *arguments) as script:
            assert script.wait(50) == 0, script.output

    def begin(self, host: int, text: str, *arguments: str) -> Command:
        return Command([*on(self.names[host]), sys.executable, "-c", SCRIPT + text, self.address, *arguments])

    def slow_down(self) -> None:
        """What the first host sends: 32 MB take three seconds."""
        bucket = ("tbf", "rate", "80mbit", "burst", "1mb", "latency", "50ms")
        run("tc", "-n", self.names[0], "qdisc", "add", "dev", self.names[0], "root", *bucket)

    def cut_stores(self) -> None:
        """Reset the connections between the hosts at both ends, except for those to the scheduler."""
        self._refuse_all("-A")
        wait_until(lambda: not self._store_connections())
        self._refuse_all("-D")

    def _refuse_all(self, action: str) -> None:
        for chain, end in (("INPUT", "-s"), ("OUTPUT", "-d")):
            rule = (end, ADDRESSES[0], "-p", "tcp", "-m", "multiport", "!", "--ports", self.port, "-j", "REJECT")
            run(*on(self.names[1]), "iptables", action, chain, *rule, "--reject-with", "tcp-reset")

    def _store_connections(self) -> list[str]:
        """Those that are established between the hosts, except for those to the scheduler."""
        found = run(*on(self.names[1]), "ss", "-Htn", "state", "established", "dst", ADDRESSES[0]).splitlines()
        return [line for line in found if f":{self.port}" not in line]

    @property
    def port(self) -> str:
        """The scheduler's."""
        return self.address.rpartition(":")[2]

    def wait_for_bytes(self, count: int) -> None:
        """Until the second host has received so many."""
        before = received_bytes(self.names[1])
        wait_until(lambda: received_bytes(self.names[1]) >= before + count)

    def store(self, host: int) -> psutil.Process:
        own = os.stat(f"/proc/{self.agents[host].pid}/ns/net").st_ino
        return next(
            each
            for each in psutil.process_iter(["cmdline"])
            if "scaler_protocol.objects.store" in (each.info["cmdline"] or ())
            and os.stat(f"/proc/{each.pid}/ns/net").st_ino == own
        )


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
            wait_until(lambda: scheduler.output.count("joined with") == 2)
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


RESULTS = """
for host in "abab":
    future = on(host, make, COUNT)
    result = future.result(timeout=40)
    result += 1
    assert total(result) == EXPECTED + COUNT and future.result() is result
assert [total(each) for each in client.map(make, [COUNT] * 6)] == [EXPECTED] * 6
sent = [message.name for message in client.cluster_info().snapshot.sent]
assert ("ObjectChunk" in sent) == (sys.argv[2] == "relayed"), sent
assert client.submit(total, make(COUNT)).result(timeout=40) == EXPECTED
"""


def test_results_come_from_the_store_that_has_them(hosts: Hosts) -> None:
    """Whether the client's host has workers or not."""
    hosts.script(1, RESULTS, "direct")
    hosts.agents[1].terminate()
    hosts.script(1, RESULTS.replace("abab", "aa"), "direct")


def test_results_of_a_host_that_cannot_be_reached_come_by_the_scheduler(hosts: Hosts) -> None:
    """Of all the ports there, that of the scheduler can be reached."""
    hosts.agents[1].terminate()
    rule = ("ip", "-n", hosts.names[1], "rule", "add")
    run(*rule, "pref", "100", "ipproto", "tcp", "dport", hosts.address.rpartition(":")[2], "lookup", "main")
    run(*rule, "pref", "200", "ipproto", "tcp", "to", ADDRESSES[0], "prohibit")
    hosts.script(1, RESULTS.replace("abab", "aa"), "relayed")


ARGUMENTS = """
client.submit(abs, -1).result(timeout=40)
for _ in range(3):
    assert on("a", total, make(COUNT)).result(timeout=40) == EXPECTED
reference = client.send_object(make(COUNT))
assert [each.result(timeout=40) for each in [on("a", total, reference) for _ in range(5)]] == [EXPECTED] * 5
sent = [message.name for message in client.cluster_info().snapshot.sent]
assert ("ObjectChunk" in sent) == (sys.argv[2] == "relayed"), sent
"""
WARNING = "Let this host connect to all ports of the workers' hosts"


def test_arguments_of_a_host_without_workers_are_pushed(hosts: Hosts) -> None:
    hosts.agents[1].terminate()
    with hosts.begin(1, ARGUMENTS, "direct") as script:
        assert script.wait(50) == 0, script.output
        assert WARNING not in script.output


@pytest.mark.parametrize("target", ["DROP", "REJECT"])
def test_arguments_that_a_firewall_stops_come_by_the_scheduler(hosts: Hosts, target: str) -> None:
    """It lets pass nothing but connections to the scheduler, with or without an answer."""
    if not shutil.which("iptables"):
        pytest.skip("the firewall is made with iptables")
    hosts.agents[1].terminate()
    rule = ("-A", "INPUT", "-i", hosts.names[0], "-p", "tcp", "!", "--dport", hosts.port, "-j", target)
    run(*on(hosts.names[0]), "iptables", *rule)
    with hosts.begin(1, ARGUMENTS, "relayed") as script:
        assert script.wait(50) == 0, script.output
        assert script.output.count(WARNING) == 1


FETCH_RESULT = 'assert total(on("a", make, COUNT).result(timeout=60)) == EXPECTED'
USE_ARGUMENT = 'assert on("b", total, make(COUNT)).result(timeout=60) == EXPECTED'
USE_SENT = """
from scaler.utility.exceptions import MissingObjects
reference = client.send_object(make(COUNT))
try:
    assert on("b", total, reference).result(timeout=60) == EXPECTED
except MissingObjects:
    print("missing")
assert on("b", total, make(COUNT)).result(timeout=60) == EXPECTED
"""


def test_a_store_killed_while_it_sends_a_result(hosts: Hosts) -> None:
    """The result is made again."""
    hosts.slow_down()
    with hosts.begin(1, FETCH_RESULT) as script:
        hosts.wait_for_bytes(4_000_000)
        hosts.store(0).kill()
        assert script.wait(50) == 0, script.output


def test_a_store_killed_while_it_sends_an_object(hosts: Hosts) -> None:
    """There is no task to make that again; nothing hangs, and what comes next works."""
    hosts.slow_down()
    with hosts.begin(0, USE_SENT) as script:
        hosts.wait_for_bytes(4_000_000)
        hosts.store(0).kill()
        assert script.wait(50) == 0, script.output
        assert "missing" in script.output


FETCH_LATER = """
import os, time
from concurrent.futures import wait
future = on("b", make, COUNT)
wait([future])
print("made", flush=True)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.01)
assert total(future.result(timeout=60)) == EXPECTED
print("made again", flush=True)
"""


USE_LATER = "assert on('a', total, future).result(timeout=60) == EXPECTED"


def test_a_result_that_was_lost_with_its_host_is_made_again(hosts: Hosts, tmp_path: Path) -> None:
    """By whoever can: here the agent that takes the place of the one that was killed with its store."""
    with hosts.begin(0, FETCH_LATER, str(tmp_path / "lost")) as script:
        script.wait_for_output("made", 40)
        hosts.agents[1].remember_family()
        hosts.store(1).kill()
        hosts.agents[1].kill()
        with Command([*on(hosts.names[1]), *command_line("scaler_cluster", *CAPABLE, hosts.address)]) as another:
            (tmp_path / "lost").touch()
            assert script.wait(55) == 0, script.output
            assert "made again" in script.output
            another.remember_family()


def test_results_move_before_their_host_leaves(hosts: Hosts, tmp_path: Path) -> None:
    """No agent that stays could make them again."""
    before = received_bytes(hosts.names[0])
    with hosts.begin(0, FETCH_LATER + USE_LATER, str(tmp_path / "left")) as script:
        script.wait_for_output("made", 40)
        hosts.agents[1].terminate()
        assert received_bytes(hosts.names[0]) - before >= 32_000_000
        (tmp_path / "left").touch()
        assert script.wait(50) == 0, script.output


def test_results_move_before_scaling_removes_their_host(names: Pair, tmp_path: Path) -> None:
    address = f"tcp://{ADDRESSES[0]}:{free_port()}"
    scaling = ("--maximum-workers", 2, "--target-seconds", 1, "--cool-down-seconds", 0.1)
    commands = (
        command_line("scaler_scheduler", address, "--insecure"),
        command_line("scaler_cluster", "-n", 1, "--per-worker-capabilities", "a", address),
        command_line("scaler_worker_manager", "local", address, "--per-worker-capabilities", "b", *scaling),
    )
    scheduler, cluster, manager = (
        Command([*on(names[host]), *line]) for host, line in zip((0, 0, 1), commands, strict=True)
    )
    with scheduler, cluster, manager:
        before = received_bytes(names[0])
        host = Hosts(names, address, (cluster, manager))
        with host.begin(0, FETCH_LATER + USE_LATER, str(tmp_path / "left")) as script:
            script.wait_for_output("made", 40)
            wait_until(lambda: "joined" in scheduler.output and "other agents keep 1 values" in scheduler.output)
            wait_until(lambda: scheduler.output.count(" left") == 1)
            assert received_bytes(names[0]) - before >= 32_000_000
            (tmp_path / "left").touch()
            assert script.wait(50) == 0, script.output
        assert scheduler.output.count("joined with") == 2, "no worker has made it again"
        for each in (manager, cluster, scheduler):
            each.remember_family()


def test_a_store_killed_while_it_receives_the_values_of_an_agent_that_leaves(hosts: Hosts, tmp_path: Path) -> None:
    """Only the agent that leaves could make them again."""
    hosts.slow_down()
    with hosts.begin(0, FETCH_LATER.replace('"b"', '"a"'), str(tmp_path / "left")) as script:
        script.wait_for_output("made", 40)
        before = received_bytes(hosts.names[1])
        hosts.agents[0].signal(signal.SIGTERM)
        wait_until(lambda: received_bytes(hosts.names[1]) >= before + 4_000_000)
        hosts.store(1).kill()
        assert hosts.agents[0].wait() == 0
        (tmp_path / "left").touch()
        assert script.wait(50) == 0, script.output


def test_a_transfer_between_stores_that_is_cut_continues_where_it_stopped(hosts: Hosts) -> None:
    if not shutil.which("iptables"):
        pytest.skip("the connections are cut with iptables")
    hosts.slow_down()
    before = received_bytes(hosts.names[1])
    with hosts.begin(0, USE_ARGUMENT) as script:
        hosts.wait_for_bytes(20_000_000)
        hosts.cut_stores()
        assert script.wait(50) == 0, script.output
    assert 32_000_000 <= received_bytes(hosts.names[1]) - before < 40_000_000


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_store_killed_or_stopped_while_it_receives(hosts: Hosts, number: int) -> None:
    """The object comes in another way."""
    hosts.slow_down()
    with hosts.begin(0, USE_ARGUMENT) as script:
        hosts.wait_for_bytes(4_000_000)
        hosts.store(1).send_signal(number)
        assert script.wait(55) == 0, script.output


@pytest.mark.parametrize("host", [0, 1])
def test_an_agent_stopped_while_stores_send_and_receive(hosts: Hosts, host: int) -> None:
    """Agents take no part in that."""
    hosts.slow_down()
    with hosts.begin(0, USE_ARGUMENT) as script:
        hosts.wait_for_bytes(4_000_000)
        hosts.agents[host].signal(signal.SIGSTOP)
        hosts.wait_for_bytes(26_000_000)
        hosts.agents[host].signal(signal.SIGCONT)
        assert script.wait(50) == 0, script.output
