"""Commands that are started by a process that ignores and blocks every signal, and has set an alarm, work as any."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil
import pytest

from scaler import Client
from tests.support.commands import Command, command_line, run_python, wait_until_bound
from tests.support.ports import free_address
from tests.support.waiting import wait_until

IGNORES_EVERYTHING = """\
import os, signal, sys
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
signal.setitimer(signal.ITIMER_REAL, 2.0)
os.execv(sys.argv[1], sys.argv[1:])
"""

MAY_STAY_IGNORED = {
    signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGPIPE,
    signal.SIGXFSZ, signal.SIGUSR1, signal.SIGUSR2,
}  # fmt: skip


def start(name: str, *arguments: object) -> Command:
    return Command([sys.executable, "-c", IGNORES_EVERYTHING, *command_line(name, *arguments)])


class Started(NamedTuple):
    address: str
    scheduler: Command
    cluster: Command


@pytest.fixture(scope="module")
def cluster() -> Iterator[Started]:
    address = free_address()
    with start("scaler_scheduler", address) as scheduler:
        wait_until_bound(address, scheduler)
        with start("scaler_cluster", "-n", 2, address) as agent:
            yield Started(address, scheduler, agent)


class Signals(NamedTuple):
    ignored: set[int]
    blocked: set[int]


def signals_of(pid: int) -> Signals:
    with open(f"/proc/{pid}/status") as file:
        masks = {key: int(value, 16) for key, value in (line.split(":\t") for line in file if line.startswith("Sig"))
                 if key in ("SigIgn", "SigBlk")}  # fmt: skip
    return Signals(*({bit + 1 for bit in range(64) if masks[key] >> bit & 1} for key in ("SigIgn", "SigBlk")))


def own_signals() -> tuple[set[int], set[int]]:
    return tuple(signals_of(os.getpid()))  # type: ignore[return-value]


def wait_long(folder: str) -> None:
    """Leaves a trace when it starts, and when it is interrupted; none when its process is killed."""
    import time

    os.mkdir(os.path.join(folder, "started"))
    try:
        time.sleep(600)
    finally:
        os.mkdir(os.path.join(folder, "interrupted"))


def test_tasks_run_and_see_ordinary_signals(cluster: Started) -> None:
    with Client(cluster.address) as client:
        assert client.map(len, ["a"] * 100) == [1] * 100
        ignored, blocked = client.submit(own_signals).result()
        assert ignored <= MAY_STAY_IGNORED and not blocked


def test_a_running_task_is_interrupted(cluster: Started, tmp_path: Path) -> None:
    with Client(cluster.address) as client:
        future = client.submit(wait_long, str(tmp_path))
        wait_until((tmp_path / "started").exists)
        future.cancel()
        wait_until((tmp_path / "interrupted").exists)


def test_every_process_handles_signals_as_a_new_one_does(cluster: Started) -> None:
    with Client(cluster.address) as client:
        assert client.submit(np.zeros, 1_000_000).result().sum() == 0  # there is an object store now
        stores = [each for each in psutil.process_iter(["cmdline", "ppid"]) if is_store_of(each, cluster)]
        family = [*cluster.scheduler.family(), *cluster.cluster.family(), *stores]
        family += [psutil.Process(cluster.scheduler.pid), psutil.Process(cluster.cluster.pid)]
        assert len(stores) == 1 and len(family) >= 2 + 3 + 1 + 1
        for process in family:
            ignored, blocked = signals_of(process.pid)
            assert ignored <= MAY_STAY_IGNORED and not blocked, (process.cmdline(), ignored, blocked)


def is_store_of(process: psutil.Process, cluster: Started) -> bool:
    """Stores are nobody's children; their environment says whose they are."""
    try:
        is_store = "scaler_protocol.objects.store" in (process.info["cmdline"] or ())
        return is_store and process.environ().get("SCALER_HOME") == os.environ["SCALER_HOME"]
    except psutil.Error:
        return False


def test_they_end_when_they_are_told_to(cluster: Started) -> None:
    assert cluster.cluster.terminate() == 0
    assert cluster.scheduler.terminate() == 0


def test_a_program_that_ignores_its_children_has_a_cluster() -> None:
    source = """
import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
import numpy
from scaler import Client, SchedulerClusterCombo
with SchedulerClusterCombo(2) as combo, Client(combo.get_address()) as client:
    assert client.submit(numpy.ones, 1_000_000).result().sum() == 1_000_000
print("done")
"""
    result = run_python(source)
    assert result.returncode == 0 and result.stdout.endswith("done\n"), result
