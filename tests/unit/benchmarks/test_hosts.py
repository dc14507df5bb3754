"""The hosts of benchmarks: they reach one another, their links are limited, and nothing is left of them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from benchmarks.hosts import ROOT, Host, Links, lab

_ANSWER = "import socket, sys; c, _ = socket.create_server((sys.argv[1], 5000)).accept(); c.sendall(c.recv(1))"
_ASK = """
import socket, sys, time
while True:
    try:
        c = socket.create_connection((sys.argv[1], 5000), 5)
        break
    except ConnectionRefusedError:
        time.sleep(0.01)
began = time.monotonic(); c.sendall(b"x"); c.recv(1); print(time.monotonic() - began)
"""
_LAB_THAT_IS_KILLED = """
import os, signal
from benchmarks.hosts import lab
with lab(2) as hosts:
    hosts[0].popen("sleep", "60")
    print(hosts[0].name, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@contextmanager
def made(links: Links) -> Iterator[list[Host]]:
    if os.getuid() != 0:
        pytest.skip("only root can make hosts")
    try:
        with lab(2, links) as hosts:
            yield hosts
    except OSError as error:
        pytest.skip(f"no hosts can be made here: {error}")


def round_trip_seconds(hosts: list[Host]) -> float:
    server = hosts[0].popen(sys.executable, "-c", _ANSWER, hosts[0].address)
    try:
        return float(hosts[1].run(sys.executable, "-c", _ASK, hosts[0].address, timeout=30).stdout)
    finally:
        server.kill()
        server.wait()


def names() -> str:
    return subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout


def test_hosts_reach_one_another_and_nothing_is_left() -> None:
    with made(Links()) as hosts:
        assert round_trip_seconds(hosts) < 1
        name = hosts[0].name
        assert name in names()
    assert name not in names()


def test_packets_are_delayed_in_both_directions() -> None:
    with made(Links(delay_seconds=0.1)) as hosts:
        assert 0.2 <= round_trip_seconds(hosts) < 1


def test_nothing_is_left_of_a_benchmark_that_was_killed() -> None:
    if os.getuid() != 0 or not shutil.which("ip"):
        pytest.skip("only root can make hosts")
    finished = subprocess.run(
        [sys.executable, "-c", _LAB_THAT_IS_KILLED], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    if finished.returncode != -signal.SIGKILL:
        pytest.skip(f"no hosts can be made here: {finished.stderr}")
    until = time.monotonic() + 30
    while finished.stdout.strip() in names() and time.monotonic() < until:
        time.sleep(0.1)
    assert finished.stdout.strip() not in names()
