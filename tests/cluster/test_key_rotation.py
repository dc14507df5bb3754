"""Keys are replaced while agents leave and while values move: the values still arrive."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from tests.cluster.test_hosts import ADDRESSES, FETCH_LATER, SCRIPT
from tests.cluster.test_keys import copy_keys, make_keys, replace_key, run_keygen
from tests.support.commands import Command, child_environment, command_line
from tests.support.namespaces import Pair, on, received_bytes, run, two_hosts
from tests.support.ports import free_port
from tests.support.waiting import wait_until

DIRECT = """
assert "ObjectChunk" not in [message.name for message in client.cluster_info().snapshot.sent], "not by the scheduler"
"""


SHUFFLES = """
import itertools, os

def make_parts(seed):
    return [numpy.full(125_000, float(4 * seed + part)) for part in range(4)]

def part_of(parts, index):
    return parts[index]

def combine(*parts):
    return float(sum(part[0] + part[-1] for part in parts))

def shuffle():
    '''Each part is made on one host and used on both.'''
    hosts = ("a", "b", "a", "b")
    sources = [on(host, make_parts, seed) for seed, host in enumerate(hosts)]
    parts = [[on(hosts[seed], part_of, source, index) for seed, source in enumerate(sources)] for index in range(4)]
    return client.gather([on(host, combine, *column) for host, column in zip(hosts, parts)])

for number in itertools.count(1):
    assert sum(shuffle()) == 2 * sum(range(16))
    print("shuffle", number, flush=True)
    if os.path.exists(sys.argv[2]):
        break
"""


class Site:
    """Two hosts, and a directory of keys for each role."""

    def __init__(self, names: Pair, folder: Path) -> None:
        self._names = names
        self._operator = make_keys(folder / "operator")
        self._folders = {
            role: copy_keys(self._operator, folder / role, role) for role in ("scheduler", "work", "submit")
        }

    def start(self, host: int, role: str, *line: str) -> Command:
        environment = child_environment(SCALER_KEYS=str(self._folders[role]))
        return Command([*on(self._names[host]), *line], environment)

    def slow_down(self, host: int, megabits_per_second: int) -> None:
        """What this host sends."""
        bucket = ("tbf", "rate", f"{megabits_per_second}mbit", "burst", "1mb", "latency", "50ms")
        run("tc", "-n", self._names[host], "qdisc", "add", "dev", self._names[host], "root", *bucket)

    def rotate(self) -> None:
        self.make_new_keys()
        self.distribute()

    def make_new_keys(self) -> None:
        """The operator has them then, and no host."""
        run_keygen(self._operator, "--rotate")

    def distribute(self) -> None:
        """All public keys go everywhere, then each secret key to its hosts."""
        for role, folder in self._folders.items():
            for path in (*sorted(self._operator.glob("*.pub")), self._operator / f"{role}.key"):
                replace_key(path, folder)


def test_values_move_from_an_agent_with_old_keys_to_its_replacement(tmp_path: Path) -> None:
    """The store of the agent that leaves has its keys as long as it runs; the other one has the new ones."""
    address = f"tcp://{ADDRESSES[0]}:{free_port()}"
    script = SCRIPT + FETCH_LATER.replace('"b"', '"a"') + DIRECT
    with two_hosts(ADDRESSES) as names:
        site, capable = Site(names, tmp_path), ("-n", "1", "--per-worker-capabilities", "a")
        with (
            site.start(0, "scheduler", *command_line("scaler_scheduler", address)) as scheduler,
            site.start(1, "work", *command_line("scaler_cluster", *capable, address)) as old,
            site.start(0, "submit", sys.executable, "-c", script, address, str(tmp_path / "left")) as client,
        ):
            client.wait_for_output("made", 40)
            site.rotate()
            with site.start(0, "work", *command_line("scaler_cluster", "-n", "1", address)) as new:
                scheduler.wait_for_output(r"joined with[\s\S]*joined with")
                before = received_bytes(names[0])
                assert old.terminate() == 0
                assert received_bytes(names[0]) - before >= 32_000_000, old.output
                (tmp_path / "left").touch()
                assert client.wait(50) == 0, client.output
                for each in (new, scheduler):
                    each.remember_family()


def test_keys_are_replaced_while_the_values_of_an_agent_that_leaves_are_moving(tmp_path: Path) -> None:
    address = f"tcp://{ADDRESSES[0]}:{free_port()}"
    script = SCRIPT + FETCH_LATER.replace('"b"', '"a"') + DIRECT
    with two_hosts(ADDRESSES) as names:
        site, capable = Site(names, tmp_path), ("-n", "1", "--per-worker-capabilities", "a")
        site.slow_down(1, 40)  # 32 MB take six seconds
        with (
            site.start(0, "scheduler", *command_line("scaler_scheduler", address)) as scheduler,
            site.start(1, "work", *command_line("scaler_cluster", *capable, address)) as leaving,
            site.start(0, "work", *command_line("scaler_cluster", "-n", "1", address)) as staying,
            site.start(0, "submit", sys.executable, "-c", script, address, str(tmp_path / "left")) as client,
        ):
            scheduler.wait_for_output(r"joined with[\s\S]*joined with")
            client.wait_for_output("made", 40)
            site.make_new_keys()
            before = received_bytes(names[0])
            leaving.signal(signal.SIGTERM)
            wait_until(lambda: received_bytes(names[0]) - before >= 4_000_000)
            site.distribute()
            assert received_bytes(names[0]) - before < 32_000_000
            assert leaving.wait() == 0
            assert received_bytes(names[0]) - before >= 32_000_000, leaving.output
            (tmp_path / "left").touch()
            assert client.wait(50) == 0, client.output
            for each in (staying, scheduler):
                each.remember_family()


def test_keys_are_replaced_while_values_are_shuffled(tmp_path: Path) -> None:
    """An agent with the new keys joins, and replaces one with the old keys on its host."""
    address = f"tcp://{ADDRESSES[0]}:{free_port()}"
    with two_hosts(ADDRESSES) as names:
        site = Site(names, tmp_path)
        for host in (0, 1):
            site.slow_down(host, 80)

        def agent(host: int) -> Command:
            line = command_line("scaler_cluster", "-n", "1", "--per-worker-capabilities", "ab"[host], address)
            return site.start(host, "work", *line)

        with (
            site.start(0, "scheduler", *command_line("scaler_scheduler", address)) as scheduler,
            agent(0) as first,
            agent(1) as second,
            site.start(0, "submit", sys.executable, "-c", SCRIPT + SHUFFLES, address, str(tmp_path / "end")) as client,
        ):
            client.wait_for_output("shuffle 1", 40)
            site.rotate()
            _wait_for_shuffles(client, 2)
            with agent(1) as third:
                scheduler.wait_for_output(r"(joined with[\s\S]*){3}")
                _wait_for_shuffles(client, 2)
                assert second.terminate() == 0, second.output
                _wait_for_shuffles(client, 2)
                (tmp_path / "end").touch()
                assert client.wait(50) == 0, client.output
                for each in (first, third, scheduler):
                    each.remember_family()


def _wait_for_shuffles(client: Command, count: int) -> None:
    """Wait for this many further ones."""
    done = client.output.count("shuffle")
    client.wait_for_output(f"shuffle {done + count}$", 40)
