"""What monitors cost: processor time per task of a map of no-ops, with and without three watchers of everything."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

import psutil

from benchmarks.functions import noop

TASKS = 1_000_000
PAIRS = 5
WATCHERS = 3
SETTLE_SECONDS = 1.5
_WATCHER = """
import sys, zmq
from scaler_protocol.monitor.subscription import Subscription
watcher = Subscription(zmq.Context(), sys.argv[1], events=True)
while True:
    watcher.socket.poll()
    while watcher.receive() is not None:
        pass
"""


def watched_map() -> dict[str, float]:
    """Maps in turn without and with watchers, so that a machine that is busy otherwise harms both alike."""
    from scaler import Client, SchedulerClusterCombo

    plain: list[float] = []
    watched: list[float] = []
    publisher: list[float] = []
    with SchedulerClusterCombo(2, logging_level="WARNING") as combo, Client(combo.get_address()) as client:
        client.map(noop, range(TASKS // 10))
        time.sleep(SETTLE_SECONDS)
        processes = {each.pid: " ".join(each.cmdline()) for each in psutil.Process().children(recursive=True)}
        publisher_pid = next(pid for pid, command in processes.items() if "publisher_process" in command)
        scheduler_pid = psutil.Process(publisher_pid).ppid()
        for _ in range(PAIRS):
            plain.append(_cost(client, scheduler_pid))
            watchers = _start_watchers(combo.get_address())
            before = _nanoseconds(publisher_pid)
            watched.append(_cost(client, scheduler_pid))
            publisher.append((_nanoseconds(publisher_pid) - before) / TASKS)
            _end(watchers)
    return {
        "watched_to_unwatched": statistics.median(one / other for one, other in zip(watched, plain, strict=True)),
        "scheduler_ns_unwatched": statistics.median(plain),
        "scheduler_ns_watched": statistics.median(watched),
        "publisher_ns": statistics.median(publisher),
    }


def _cost(client: object, pid: int) -> float:
    before = _nanoseconds(pid)
    client.map(noop, range(TASKS))  # type: ignore[attr-defined]
    return (_nanoseconds(pid) - before) / TASKS


def _nanoseconds(pid: int) -> int:
    """Processor time of all threads."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat"))


def _start_watchers(address: str) -> list[subprocess.Popen[bytes]]:
    from scaler_protocol.address import default_monitor_address

    command = [sys.executable, "-c", _WATCHER, str(default_monitor_address(address))]
    watchers = [subprocess.Popen(command) for _ in range(WATCHERS)]
    time.sleep(SETTLE_SECONDS)
    return watchers


def _end(watchers: list[subprocess.Popen[bytes]]) -> None:
    for watcher in watchers:
        watcher.kill()
        watcher.wait()
    time.sleep(SETTLE_SECONDS / 3)
