"""Agents behind a link that delays and loses packets stay members of their cluster, and each task runs once."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.hosts import Host, Links
from tests.support import functions
from tests.support.commands import Command, command_line
from tests.unit.benchmarks.test_hosts import made

DELAY_SECONDS = 0.1
"""In each direction."""

LOST_OF = 20
"""One of so many packets is lost, and not by chance: a packet that is sent again arrives."""

LOST_PACKETS = 4
"""The program goes on until each host has lost so many."""

PORT = 2345

PROGRAM = """
import subprocess, sys, time
from scaler import Client
from tests.support import functions

def lost_packets(name):
    rules = subprocess.run(["ip", "netns", "exec", name, "iptables", "-vnxL", "INPUT"], capture_output=True, text=True)
    return int(rules.stdout.splitlines()[2].split()[0])

def work(number):
    functions.note(notes, str(number))
    time.sleep(0.2)
    return number

address, notes, least, *names = sys.argv[1:]
client = Client(address)
number = 0
while any(lost_packets(name) < int(least) for name in names):
    numbers = range(number, number + 8)
    assert client.map(work, numbers) == list(numbers)
    number += 8
client.disconnect()
"""


def lose_packets(host: Host) -> None:
    rule = ("-m", "statistic", "--mode", "nth", "--every", str(LOST_OF), "--packet", "0", "-j", "DROP")
    host.run("iptables", "-A", "INPUT", *rule)


def test_agents_behind_a_lossy_link_stay_members(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    with made(Links(delay_seconds=DELAY_SECONDS)) as hosts:
        near, far = hosts
        address = f"tcp://{near.address}:{PORT}"
        with Command([*near.on(), *command_line("scaler_scheduler", address, "--insecure")]) as scheduler:
            scheduler.wait_for_output("monitor address is")
            with Command([*far.on(), *command_line("scaler_cluster", "-n", "4", address)]) as cluster:
                cluster.wait_for_output(r"Worker\[3\] started")
                for host in hosts:
                    lose_packets(host)
                arguments = (address, notes, LOST_PACKETS, near.name, far.name)
                with Command([*near.on(), sys.executable, "-c", PROGRAM, *map(str, arguments)]) as program:
                    assert program.wait(150) == 0, program.output
                said = scheduler.output
                cluster.remember_family()
            scheduler.remember_family()
    numbers = sorted(map(int, functions.notes(notes)))
    assert numbers == list(range(len(numbers)))
    assert said.count(" joined with ") == 1
    assert "WARNING" not in said, said
