"""Two hosts: network namespaces with addresses of their own, and so with stores of their own for one cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.support.namespaces import Pair, on, received_bytes, run, two_hosts
from tests.support.waiting import wait_until
from tests.unit.objects.programs import Program

ADDRESSES = ("10.231.7.1", "10.231.7.2")
AGENT = """
from scaler_protocol.messages import StoreSettings, StoreStatus
from scaler_protocol.objects.agent_connection import AgentConnection
from scaler_protocol.objects.polling import wait_readable
host = os.environ["OBJECTS_HOST"]
agent = AgentConnection.open(cluster, StoreSettings(0, "", host))

def answers():
    while not (found := agent.on_readable()):
        assert not agent.lost and wait_readable(agent.fd, 60)
    return found

agent.ask_status()
say(answers()[0].endpoint)
while words := hear().split():
    if words[0] == "put":
        store.put(key(int(words[1])), bytes([int(words[1])]) * int(words[2]))
        say("put")
    elif words[0] == "fetch":
        agent.fetch(key(int(words[1])), int(words[2]), words[3:])
        say(type(answers()[0]).__name__)
    elif words[0] == "check":
        view = store.get(key(int(words[1])), 30)
        say(bytes(view) == bytes([int(words[1])]) * int(words[2]))
    elif words[0] == "received":
        agent.ask_status()
        say(next(each for each in answers() if isinstance(each, StoreStatus)).received_bytes)
    elif words[0] == "answer":
        say(type(answers()[0]).__name__)
"""


@dataclass
class Hosts:
    names: Pair
    programs: tuple[Program, Program]
    endpoints: tuple[str, str]

    def ask(self, host: int, words: str) -> str:
        self.programs[host].say(words)
        return self.programs[host].hear()

    def connect(self, up: bool) -> None:
        run("ip", "-n", self.names[0], "link", "set", self.names[0], "up" if up else "down")

    def cut_while_fetching(self, size: int) -> None:
        """The second host asks the first for an object, over a slow wire that is cut when some of it has come."""
        source = self.names[0]
        run("tc", "-n", source, "qdisc", "add", "dev", source, "root", "tbf", "rate", "400mbit", "burst", "1mb",
            "latency", "50ms")  # fmt: skip
        self.programs[1].say(f"fetch 1 {size} {self.endpoints[0]}")
        wait_until(lambda: received_bytes(self.names[1]) > 5_000_000)
        self.connect(False)


@pytest.fixture
def hosts(cluster: bytes) -> Iterator[Hosts]:
    with two_hosts(ADDRESSES) as names:
        programs: list[Program] = []
        try:
            for name, address in zip(names, ADDRESSES, strict=True):
                programs.append(Program(cluster, AGENT, (*on(name), "env", f"OBJECTS_HOST={address}")))
            endpoints = (programs[0].hear(), programs[1].hear())
            yield Hosts(names, (programs[0], programs[1]), endpoints)
        finally:
            for program in programs:
                program.kill()
                program.process.communicate()


def test_objects_travel_between_hosts(hosts: Hosts) -> None:
    assert hosts.endpoints[0].startswith("tcp://10.231.7.1:")
    for number, size in enumerate([0, 1, 100_000, 40_000_000], 1):
        assert hosts.ask(0, f"put {number} {size}") == "put"
        assert hosts.ask(1, f"fetch {number} {size} {hosts.endpoints[0]}") == "StoreFound"
        assert hosts.ask(1, f"check {number} {size}") == "True"


def test_each_host_has_its_own_store(hosts: Hosts) -> None:
    assert hosts.ask(0, "put 1 1000") == "put"
    hosts.programs[1].say("check 1 1000")
    assert hosts.programs[1].hear() == "", "the object of another host is here"


def test_a_host_that_vanishes_in_the_middle_is_said(hosts: Hosts) -> None:
    size = 400_000_000
    assert hosts.ask(0, f"put 1 {size}") == "put"
    hosts.cut_while_fetching(size)
    assert hosts.programs[1].hear() == "StoreRefused"


def test_a_short_cut_is_survived(hosts: Hosts) -> None:
    size = 100_000_000
    assert hosts.ask(0, f"put 1 {size}") == "put"
    hosts.cut_while_fetching(size)
    hosts.connect(True)
    assert hosts.programs[1].hear() == "StoreFound"
    assert hosts.ask(1, f"check 1 {size}") == "True"
