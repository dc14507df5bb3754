"""Peers on the scheduler's machine, whose connections have no heartbeats: one is stopped, the child of one lives, one
is in a container, one has no descriptors left."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from scaler import Client, SchedulerClusterCombo
from tests.support import functions
from tests.support.commands import (
    Command,
    Stopwatch,
    child_environment,
    start_cluster,
    start_scheduler,
    wait_until_bound,
)
from tests.support.namespaces import apart
from tests.support.ports import free_address
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def quick_combo() -> Iterator[SchedulerClusterCombo]:
    with SchedulerClusterCombo(2, client_timeout_seconds=1) as running:
        yield running


def child(combo: SchedulerClusterCombo, code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, combo.get_address(), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=child_environment())


STOPPED = """
import os, signal, sys
from pathlib import Path
from scaler import Client

COUNT, SIZE = 4000, 20_000

def produce(number, folder):
    (Path(folder) / str(number)).touch()
    return number.to_bytes(4, "big") * (SIZE // 4)

with Client(sys.argv[1]) as client:
    futures = [client.submit(produce, number, sys.argv[2]) for number in range(COUNT)]
    print("submitted", flush=True)
    for number, future in enumerate(futures):
        assert future.result() == number.to_bytes(4, "big") * (SIZE // 4)
    print("complete", flush=True)
"""


def test_a_client_stopped_while_results_flow_goes_on(quick_combo: SchedulerClusterCombo, tmp_path: Path) -> None:
    """More of them than the scheduler sends without being told that they arrived; for longer than the timeout of
    clients that are gone: this one is not."""
    client = child(quick_combo, STOPPED, tmp_path)
    assert client.stdout is not None
    try:
        assert client.stdout.readline() == "submitted\n"
        client.send_signal(signal.SIGSTOP)
        with Client(quick_combo.get_address()) as other:  # others are served meanwhile
            wait_until(lambda: other.submit(len, "four").result(60) == 4 and len(os.listdir(tmp_path)) >= 1000)
            wait_until(stands_still(tmp_path))
        client.send_signal(signal.SIGCONT)
        assert client.communicate(timeout=40)[0] == "complete\n"
        assert client.returncode == 0
    finally:
        client.kill()
        client.communicate()


def stands_still(folder: Path) -> Callable[[], bool]:
    """Whether nothing has been added for two seconds."""
    seen = [0, 0]

    def look() -> bool:
        count = len(os.listdir(folder))
        seen[:] = [count, seen[1] + 1 if count == seen[0] else 0]
        return seen[1] > 400  # of the looks of ``wait_until``, 5 ms each

    return look


IMPATIENT = """
import sys
from scaler_protocol.transport import zmtp
zmtp.WAITING_LIMIT_BYTES = 2**20
from scaler_scheduler.cli import main
main(sys.argv[1:])
"""
SMALL = """
import sys, time
from scaler import Client

COUNT, SIZE = 8000, 1000

def produce(number):
    time.sleep(0.0003)
    return number.to_bytes(4, "big") * (SIZE // 4)

with Client(sys.argv[1]) as client:
    futures = [client.submit(produce, number) for number in range(COUNT)]
    print("submitted", flush=True)
    for number, future in enumerate(futures):
        assert future.result() == number.to_bytes(4, "big") * (SIZE // 4)
    print("complete", flush=True)
"""


def test_a_stopped_client_that_is_cut_off_goes_on() -> None:
    """For what waits in its scheduler, which bears less here: it connects again, and gets every result once."""
    address = free_address()
    with Command([sys.executable, "-c", IMPATIENT, address]) as scheduler:
        wait_until_bound(address, scheduler)
        with start_cluster(address, "-n", 1), Client(address) as other:
            client = subprocess.Popen(
                [sys.executable, "-c", SMALL, address], stdout=subprocess.PIPE, text=True, env=child_environment()
            )
            try:
                assert client.stdout is not None and client.stdout.readline() == "submitted\n"
                connected = psutil.Process(scheduler.pid).num_fds()
                client.send_signal(signal.SIGSTOP)
                wait_until(lambda: psutil.Process(scheduler.pid).num_fds() < connected)
                assert other.submit(len, "four").result(60) == 4
                client.send_signal(signal.SIGCONT)
                assert client.communicate(timeout=40)[0] == "complete\n"
            finally:
                client.kill()
                client.communicate()


KILLED = """
import os, signal, sys, time
from pathlib import Path
from scaler import Client

def linger(path):
    Path(path, "started").touch()
    try:
        time.sleep(60)
    finally:
        Path(path, "interrupted").touch()

client = Client(sys.argv[1])
future = client.submit(linger, sys.argv[2])
while not Path(sys.argv[2], "started").exists():
    time.sleep(0.005)
if os.fork():
    os.kill(os.getpid(), signal.SIGKILL)
print(os.getpid(), flush=True)
signal.pause()
"""


def test_tasks_of_a_killed_client_whose_child_lives(quick_combo: SchedulerClusterCombo, tmp_path: Path) -> None:
    """The child has inherited the connection, and keeps it open."""
    client = child(quick_combo, KILLED, tmp_path)
    assert client.stdout is not None
    grandchild = int(client.stdout.readline())
    try:
        wait_until(lambda: (tmp_path / "interrupted").exists())
        os.kill(grandchild, 0)
    finally:
        os.kill(grandchild, signal.SIGKILL)
        client.kill()
        client.communicate()


CONTAINED = """
import sys
from scaler import Client

with Client(sys.argv[1]) as client:
    large = client.send_object(bytes(1_000_000))
    print(client.submit(len, large).result(), len(client.submit(bytes, 1_000_000).result()), flush=True)
"""


def test_a_client_in_a_container_that_shares_the_network(quick_combo: SchedulerClusterCombo) -> None:
    command = [*apart("--mount-proc"), sys.executable, "-c", CONTAINED, quick_combo.get_address()]
    done = subprocess.run(command, capture_output=True, text=True, env=child_environment(), timeout=60)
    assert done.stdout == "1000000 1000000\n", done.stderr


def test_tasks_of_a_killed_client_in_a_container_whose_child_lives(
    quick_combo: SchedulerClusterCombo, tmp_path: Path
) -> None:
    """It does not see the process of the scheduler, so they speak over the port, where heartbeats tell."""
    code = [sys.executable, "-c", KILLED, quick_combo.get_address(), str(tmp_path)]
    command = [*apart("--mount-proc"), "sh", "-c", '"$@"; sleep 60', "sh", *code]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=child_environment())
    try:
        assert started.stdout is not None and int(started.stdout.readline())
        wait_until(lambda: (tmp_path / "interrupted").exists())
        assert len(psutil.Process(started.pid).children(recursive=True)) == 3  # sh, sleep, and the child
    finally:
        started.kill()
        started.communicate()


WITHOUT_DESCRIPTORS = """
import sys
from scaler import Client

with Client(sys.argv[1]) as client:
    print(client.submit(len, "four").result(), flush=True)
    sys.stdin.readline()
    print(client.submit(len, "five5").result(), flush=True)
"""
LACKING = "has no file descriptor left"


@contextmanager
def no_descriptors(pid: int) -> Iterator[None]:
    """The process can open nothing; what it has open it keeps."""
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (4, limits[1]))  # poll refuses more descriptors than that
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)


def assert_rests(process: psutil.Process, seconds: float = 1.0) -> None:
    """It does not spin."""
    before, watch = sum(process.cpu_times()[:2]), Stopwatch()
    wait_until(lambda: watch.seconds > seconds)
    assert sum(process.cpu_times()[:2]) - before < watch.seconds / 4


def test_a_client_without_descriptors_comes_back_when_it_has_some(tmp_path: Path) -> None:
    address, log = free_address(), tmp_path / "log"
    command = [sys.executable, "-c", WITHOUT_DESCRIPTORS, address]
    with start_scheduler(address) as first, start_cluster(address, "-n", 1), log.open("w") as errors:
        client = subprocess.Popen(
            command,
            text=True,
            env=child_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        try:
            assert client.stdout is not None and client.stdout.readline() == "4\n"
            with no_descriptors(client.pid):
                first.kill()
                wait_until(lambda: LACKING in log.read_text())
                second = start_scheduler(address)
                assert_rests(psutil.Process(client.pid))
            with second:
                assert client.communicate("go on\n", timeout=60)[0] == "5\n"
                assert log.read_text().count(LACKING) == 1
        finally:
            client.kill()
            client.communicate()


def test_an_agent_without_descriptors_comes_back_when_it_has_some() -> None:
    address = free_address()
    with start_scheduler(address) as first, start_cluster(address, "-n", 1) as agent, Client(address) as client:
        assert client.submit(functions.square, 3).result(timeout=60) == 9
        with no_descriptors(agent.pid):
            first.kill()
            wait_until(lambda: LACKING in agent.output)
            second = start_scheduler(address)
            assert_rests(psutil.Process(agent.pid))
        with second:
            assert client.submit(functions.square, 4).result(timeout=60) == 16
            assert agent.output.count(LACKING) == 1
