"""The cost of monitors: processor time per task of a map of no-ops, with and without three watchers of everything, or
the three screens."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from benchmarks.functions import noop
from benchmarks.screens import screens

TASKS = 1_000_000
PAIRS = 12
SCREEN_ROUNDS = 3
MAPS_IN_ROUND = 4
WATCHERS = 3
SETTLE_SECONDS = 1.0
SCREEN_SECONDS = 10.0
"""Seconds until all screens have started, and show what was before."""

_WATCHER = """
import sys, zmq
from scaler_protocol.monitor.subscription import Subscription
context, watcher = zmq.Context(), None
poller = zmq.Poller()
poller.register(sys.stdin, zmq.POLLIN)
while True:
    if sys.stdin.fileno() in dict(poller.poll()):
        if not (line := sys.stdin.readline()):
            break
        if watcher is not None:
            poller.unregister(watcher.socket)
            watcher.close()
            watcher = None
        if line == "watch\\n":
            watcher = Subscription(context, sys.argv[1], events=True)
            poller.register(watcher.socket, zmq.POLLIN)
    while watcher is not None and watcher.receive() is not None:
        pass
"""
"""Reads lines: after "watch" it watches, after any other it does not."""


def watched_map() -> dict[str, float]:
    """Maps in turn without and with watchers, so that a machine that is busy otherwise harms both alike. The watchers'
    processes are there all the time: only what they ask for changes."""
    from scaler import Client, SchedulerClusterCombo

    plain: list[float] = []
    watched: list[float] = []
    publisher: list[float] = []
    with SchedulerClusterCombo(2, logging_level="WARNING") as combo, Client(combo.get_address()) as client:
        client.map(noop, range(TASKS))
        publisher_pid = _publisher()
        scheduler_pid = psutil.Process(publisher_pid).ppid()
        with _watchers(combo.get_address()) as watchers:
            for pair in range(2 * PAIRS):
                is_watched = pair % 4 in (1, 2)  # each comes first as often as the other
                _tell(watchers, "watch" if is_watched else "rest")
                before = _nanoseconds(publisher_pid)
                (watched if is_watched else plain).append(_cost(client, scheduler_pid))
                if is_watched:
                    publisher.append((_nanoseconds(publisher_pid) - before) / TASKS)
    ratios = [one / other for one, other in zip(watched, plain, strict=True)]
    return {
        "watched_to_unwatched": statistics.median(watched) / statistics.median(plain),
        "watched_to_unwatched_in_pairs": statistics.median(ratios),
        "lower_quartile_of_pairs": statistics.quantiles(ratios, n=4)[0],
        "upper_quartile_of_pairs": statistics.quantiles(ratios, n=4)[2],
        "scheduler_ns_unwatched": statistics.median(plain),
        "scheduler_ns_watched": statistics.median(watched),
        "publisher_ns": statistics.median(publisher),
    }


def map_on_screens() -> dict[str, float]:
    """The same with the real screens, their task streams open; what each of them spends, in nanoseconds per task."""
    from scaler import Client, SchedulerClusterCombo
    from scaler_protocol.address import default_monitor_address

    plain: list[float] = []
    watched: list[float] = []
    spent: dict[str, list[float]] = {}
    with SchedulerClusterCombo(2, logging_level="WARNING") as combo, Client(combo.get_address()) as client:
        client.map(noop, range(TASKS))
        scheduler_pid = psutil.Process(_publisher()).ppid()
        for _ in range(SCREEN_ROUNDS):
            plain += _costs(client, scheduler_pid)
            with screens(str(default_monitor_address(combo.get_address()))) as pids:
                time.sleep(SCREEN_SECONDS)
                before = {name: _seconds(pid) for name, pid in pids.items()}
                watched += _costs(client, scheduler_pid)
                for name, pid in pids.items():
                    seconds = _seconds(pid) - before[name]
                    spent.setdefault(name, []).append(seconds / MAPS_IN_ROUND / TASKS * 1e9)
    return {
        "watched_to_unwatched": statistics.median(watched) / statistics.median(plain),
        "scheduler_ns_unwatched": statistics.median(plain),
        "scheduler_ns_watched": statistics.median(watched),
        **{f"{name}_ns": statistics.median(each) for name, each in spent.items()},
    }


def _costs(client: object, pid: int) -> list[float]:
    costs = []
    for _ in range(MAPS_IN_ROUND):
        time.sleep(SETTLE_SECONDS)
        costs.append(_cost(client, pid))
    return costs


def _seconds(pid: int) -> float:
    """Processor time of a process and of all that it has started."""
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    return sum(sum(each.cpu_times()[:2]) for each in family)


def _publisher() -> int:
    children = psutil.Process().children(recursive=True)
    return next(each.pid for each in children if any("publisher_process" in part for part in each.cmdline()))


def _cost(client: object, pid: int) -> float:
    before = _nanoseconds(pid)
    client.map(noop, range(TASKS))  # type: ignore[attr-defined]
    return (_nanoseconds(pid) - before) / TASKS


def _nanoseconds(pid: int) -> int:
    """Processor time of all threads."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat"))


@contextmanager
def _watchers(address: str) -> Iterator[list[subprocess.Popen[str]]]:
    from scaler_protocol.address import default_monitor_address

    command = [sys.executable, "-c", _WATCHER, str(default_monitor_address(address))]
    watchers = [subprocess.Popen(command, stdin=subprocess.PIPE, text=True) for _ in range(WATCHERS)]
    try:
        yield watchers
    finally:
        for watcher in watchers:
            watcher.communicate()


def _tell(watchers: list[subprocess.Popen[str]], word: str) -> None:
    for watcher in watchers:
        assert watcher.stdin is not None
        watcher.stdin.write(f"{word}\n")
        watcher.stdin.flush()
    time.sleep(SETTLE_SECONDS)
