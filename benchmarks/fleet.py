"""``python -m benchmarks fleet``: one scheduler, up to 1,000 agents with ten workers each, and 100 clients.

The scheduler, its clients and the agents are on hosts of their own (see ``hosts``). The agents' cores and connections
are real, their worker processes simulated (see ``fleet_agents``). Needs root.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil

from benchmarks.environments import ROOT
from benchmarks.hosts import Host, environment, lab
from scaler_protocol.address import default_monitor_address

PROCESSES = 10
"""The agents run in this many processes; losing one is losing a tenth of the agents."""

IDLE_SECONDS = 10.0
SETTLE_SECONDS = 3.0
JOIN_SECONDS = 120.0
WATCHERS = 2
HOLD_SECONDS = 1.0
BEFORE_LOSS_SECONDS = 0.4
_PORT = 2345

_WATCHER = """
import sys, time, zmq
from scaler_protocol.monitor.subscription import Subscription
context = zmq.Context()
watcher = Subscription(context, sys.argv[1], events=True)
poller = zmq.Poller()
poller.register(watcher.socket, zmq.POLLIN)
while True:
    poller.poll(1000)
    while watcher.receive() is not None:
        pass
"""


class Fleet:
    """``agents`` on a host, in ``PROCESSES`` processes."""

    def __init__(self, host: Host, address: str, agents: int, workers: int, settings: dict[str, str]) -> None:
        count = min(PROCESSES, agents)
        shares = [agents // count + (index < agents % count) for index in range(count)]
        command = [sys.executable, "-m", "benchmarks.fleet_agents", address]
        self.processes = [
            _piped(host, [*command, str(share), str(workers)], settings, stdin=subprocess.DEVNULL) for share in shares
        ]

    def joined_at(self) -> float:
        """Return when the last agent had been welcomed; waits for it."""
        return max(float(_line(process, JOIN_SECONDS).split()[1]) for process in self.processes)

    def lose_one_process(self) -> float:
        """Returns when."""
        lost = self.processes.pop()
        lost.send_signal(signal.SIGKILL)
        return time.monotonic()

    def end(self) -> None:
        for process in self.processes:
            process.kill()


class FleetScheduler:
    def __init__(self, host: Host, address: str, settings: dict[str, str], options: tuple[str, ...]) -> None:
        command = [Path(sys.executable).parent / "scaler_scheduler", address, "--logging-level", "ERROR", *options]
        self._host, self._command, self._settings = host, [str(each) for each in command], settings
        self.start()

    def start(self) -> None:
        self._started = self._host.popen(*self._command, cwd=ROOT, env=environment(self._settings))
        self.process = psutil.Process(self._started.pid)

    def restart(self) -> float:
        """After SIGKILL; returns when."""
        self._started.kill()
        self._started.wait()
        self.start()
        return time.monotonic()

    def cpu_seconds(self) -> float:
        """Return the processor time of the scheduler itself, without its publisher."""
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def publisher_seconds(self) -> float:
        return sum(sum(child.cpu_times()[:2]) for child in self.process.children())

    def rss_mib(self) -> float:
        return float(self.process.memory_info().rss / 2**20)

    def end(self) -> None:
        self._started.terminate()
        try:
            self._started.wait(15)
        except subprocess.TimeoutExpired:
            self._started.kill()


def _piped(host: Host, command: list[str], settings: dict[str, str], stdin: int) -> subprocess.Popen[str]:
    streams = {"stdin": stdin, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    return host.popen(*command, cwd=ROOT, env=environment(settings), **streams)


def _line(process: subprocess.Popen[str], seconds: float = 300.0) -> str:
    assert process.stdout is not None
    line: str = process.stdout.readline()
    if not line:
        raise RuntimeError(f"Cannot go on: {process.args!r} has ended.")
    return line.strip()


def _ask(process: subprocess.Popen[str], words: str) -> dict[str, float]:
    assert process.stdin is not None
    process.stdin.write(words + "\n")
    process.stdin.flush()
    answer = _line(process)
    return json.loads(answer) if answer.startswith("{") else {}


@contextmanager
def watched(address: str, host: Host) -> Iterator[None]:
    """Run with open monitors on the scheduler's host."""
    watchers = [host.popen(sys.executable, "-c", _WATCHER, address, cwd=ROOT) for _ in range(WATCHERS)]
    try:
        yield
    finally:
        for watcher in watchers:
            watcher.kill()


def measure(agents: int, arguments: argparse.Namespace, settings: dict[str, str]) -> dict[str, float]:
    options = () if settings else ("--insecure",)
    with ExitStack() as stack:
        hosts = stack.enter_context(lab(3))
        address = f"tcp://{hosts[0].address}:{_PORT}"
        scheduler = FleetScheduler(hosts[0], address, settings, options)
        stack.callback(scheduler.end)
        began = time.monotonic()
        fleet = Fleet(hosts[1], address, agents, arguments.workers, settings)
        stack.callback(fleet.end)
        figures = {"join_seconds": fleet.joined_at() - began}
        began = scheduler.restart()
        figures["join_after_restart_seconds"] = fleet.joined_at() - began
        command = [sys.executable, "-m", "benchmarks.fleet_clients", address, str(arguments.clients)]
        clients = _piped(hosts[2], command, settings, stdin=subprocess.PIPE)
        stack.callback(clients.kill)
        _line(clients)
        figures["idle_unwatched_percent"] = _idle_percent(scheduler)
        stack.enter_context(watched(default_monitor_address(address), hosts[0]))
        time.sleep(SETTLE_SECONDS)
        publisher = scheduler.publisher_seconds()
        figures["idle_percent"] = _idle_percent(scheduler)
        figures["idle_publisher_percent"] = 100 * (scheduler.publisher_seconds() - publisher) / IDLE_SECONDS
        _add_work(figures, scheduler, clients)
        if agents >= 2 * PROCESSES:
            figures["loss_of_a_tenth_seconds"] = _lose(fleet, clients, agents * arguments.workers)
        return figures


def _idle_percent(scheduler: FleetScheduler) -> float:
    before = scheduler.cpu_seconds()
    time.sleep(IDLE_SECONDS)
    return 100 * (scheduler.cpu_seconds() - before) / IDLE_SECONDS


def _add_work(figures: dict[str, float], scheduler: FleetScheduler, clients: subprocess.Popen[str]) -> None:
    for word in ("map", "all"):
        before = scheduler.cpu_seconds()
        answer = _ask(clients, word)
        figures[f"{word}_tasks_per_second"] = answer["tasks_per_second"]
        figures[f"{word}_scheduler_us_per_task"] = (scheduler.cpu_seconds() - before) / answer["tasks"] * 1e6
    figures.update(_ask(clients, "latency"))
    figures["rss_mib"] = scheduler.rss_mib()


def _lose(fleet: Fleet, clients: subprocess.Popen[str], count: int) -> float:
    """Return how long the tasks of lost agents took to begin elsewhere."""
    _ask(clients, f"hold {count}")  # answers "begun"
    time.sleep(BEFORE_LOSS_SECONDS)
    lost_at = fleet.lose_one_process()
    ended_at: float = json.loads(_line(clients))["ended_at"]
    return ended_at - lost_at - HOLD_SECONDS


def main(given: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks fleet", description=__doc__)
    parser.add_argument("--agents", default="1,10,100,1000", help="comma separated numbers of agents")
    parser.add_argument("--workers", type=int, default=10, help="of each agent")
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--keys", action="store_true", help="encrypt")
    parser.add_argument("--json", type=Path, help="write all figures here")
    arguments = parser.parse_args(given)
    sizes = [int(each) for each in arguments.agents.split(",")]
    results: dict[int, list[dict[str, float]]] = {size: [] for size in sizes}
    with tempfile.TemporaryDirectory() as folder:
        settings: dict[str, Any] = {}
        if arguments.keys:
            subprocess.run([Path(sys.executable).parent / "scaler_keygen", folder], check=True, capture_output=True)
            settings["SCALER_KEYS"] = folder
        for _ in range(arguments.runs):
            for size in sizes:
                results[size].append(measure(size, arguments, settings))
    for figure in {figure: None for size in sizes for figure in results[size][-1]}:
        values = {size: [run[figure] for run in results[size] if figure in run] for size in sizes}
        shown = "".join(f"{statistics.median(each):14,.2f}" if each else " " * 14 for each in values.values())
        print(f"{figure:32}{shown}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
