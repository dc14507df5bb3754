"""Peers that never authenticate, in numbers: the scheduler stays within its bounds, and others do not suffer."""

from __future__ import annotations

import math
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from scaler import Client
from scaler_protocol.address import default_monitor_address, parse_address
from tests.support.commands import Command, child_environment, command_line, start_cluster
from tests.support.ports import free_port
from tests.support.waiting import wait_until
from tests.support.zmtp import send_some

WAYS = ("tcp", "ipc", "keys")
LIMITED = 'ulimit -n "$0" && exec "$@"'
DESCRIPTORS = 96
ATTACKERS = 60
LIMIT_BYTES = 64 * 1024 * 1024
NULL, CURVE = (name.ljust(20, b"\0") + bytes(32) for name in (b"NULL", b"CURVE"))


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def address(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of a scheduler that nobody has started yet."""
    if way == "ipc":
        return f"ipc://{tmp_path}/scheduler"
    if way == "keys":
        folder = tmp_path / "keys"
        subprocess.run([sys.executable, "-m", "scaler_protocol.keygen", str(folder)], check=True, capture_output=True)
        monkeypatch.setenv("SCALER_KEYS", str(folder))
    return f"tcp://127.0.0.1:{free_port()}"


def connect(address: str) -> socket.socket | None:
    """None: nothing listens there."""
    parsed = parse_address(address)
    connection = socket.socket(socket.AF_UNIX if parsed.scheme == "ipc" else socket.AF_INET)
    connection.settimeout(5)
    try:
        connection.connect(parsed.path if parsed.scheme == "ipc" else (parsed.host, parsed.port))
    except OSError:
        connection.close()
        return None
    connection.setblocking(False)
    return connection


@contextmanager
def limited_scheduler(address: str) -> Iterator[Command]:
    arguments = ["sh", "-c", LIMITED, str(DESCRIPTORS), *command_line("scaler_scheduler", address)]
    with Command(arguments, child_environment()) as scheduler:
        yield scheduler


def expect_all_is_well(address: str) -> None:
    with start_cluster(address, "-n", 1), Client(address) as client:
        assert client.map(math.sqrt, [4.0, 9.0]) == [2.0, 3.0]


def test_a_scheduler_without_descriptors_goes_on(address: str) -> None:
    """More connections than it has descriptors, from the moment at which it listens, before its publisher does."""
    with limited_scheduler(address) as scheduler, ExitStack() as attackers:
        listens = wait_until(lambda: connect(address), 40)
        attackers.enter_context(listens)
        for _ in range(4 * DESCRIPTORS):
            attacker = connect(address)
            if attacker is not None:
                attackers.enter_context(attacker)
        wait_until(lambda: psutil.Process(scheduler.pid).num_fds() > DESCRIPTORS // 2)
        attackers.close()
        monitor = Path(parse_address(default_monitor_address(address)).path)
        wait_until(monitor.exists, 40, "the publisher")
        expect_all_is_well(address)
        assert scheduler.process.poll() is None, scheduler.output


def word_of(way: str) -> bytes:
    """As much as the other end may read of a message that never ends."""
    start = b"\xff" + bytes(8) + b"\x7f\x03\x01" + (CURVE if way == "keys" else NULL)
    ready = b"\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER"
    command = b"" if way == "keys" else bytes((4, len(ready))) + ready
    long = bytes((6 if way == "keys" else 2,)) + (4_000_000).to_bytes(8, "big")
    return start + command + long + bytes(3_900_000)


def test_what_others_send_is_not_kept(way: str, address: str) -> None:
    """Half messages of all together 234 MB, over connections that stay, and over others that end."""
    with (
        Command(command_line("scaler_scheduler", address), child_environment()) as scheduler,
        start_cluster(address, "-n", 1),
        Client(address) as client,
    ):
        assert client.submit(math.sqrt, 4.0).result() == 2.0
        process = psutil.Process(scheduler.pid)
        before, word = process.memory_info().rss, word_of(way)
        with ExitStack() as staying:
            for number in range(ATTACKERS):
                attacker = connect(address)
                assert attacker is not None
                staying.enter_context(attacker)
                send_all(attacker, word, client)
                assert process.memory_info().rss < before + LIMIT_BYTES, number
                if number % 2:
                    attacker.close()


def send_all(attacker: socket.socket, word: bytes, client: Client) -> None:
    """As long as the other end reads it. It serves the client meanwhile."""
    rest = memoryview(word)
    for _ in range(20):
        while rest and (sent := send_some(attacker, bytes(rest[:262_144]))):
            rest = rest[sent:]
        assert client.submit(math.sqrt, 9.0).result() == 3.0
