"""Every screen at once, with real sockets and processes: hostile publishers, killed ones, and screens that stop."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from scaler import Client
from scaler_protocol.address import default_monitor_address
from tests.support import functions
from tests.support.commands import (
    Command,
    alive,
    child_environment,
    command_line,
    descendants,
    start_cluster,
    start_scheduler,
)
from tests.support.ports import free_address
from tests.support.tmux import EXIT_MARK, Tmux
from tests.support.waiting import wait_until

PUBLISHED = 600
MEMORY_LIMIT = 700 * 1024 * 1024
"""Of any screen: the desktop's libraries take a good part of it."""

HOSTILE = """
import os, sys, zmq
from scaler_protocol.monitor.feed import encode, kind_of
from tests.support.hostile import Hostile
publisher = zmq.Context().socket(zmq.XPUB)
publisher.setsockopt(zmq.LINGER, 0)
publisher.setsockopt(zmq.SNDHWM, 100)
publisher.setsockopt(zmq.XPUB_VERBOSE, 1)
publisher.bind(sys.argv[1])
print("ready", flush=True)
wanted, watchers = int(sys.argv[2]), 0
while watchers < wanted:
    watchers += publisher.recv() == b"\\x01snapshot"
publisher.setsockopt(zmq.XPUB_NODROP, 1)
publisher.setsockopt(zmq.SNDTIMEO, 200)
hostile = Hostile(int(sys.argv[3]))
for number in range(int(sys.argv[4])):
    message = hostile.message()
    frames = [kind_of(message), encode(message, number)]
    if number % 10 == 0:
        frames[1] = os.urandom(hostile.chance.randrange(100_000))
    try:
        publisher.send_multipart(frames)
    except zmq.Again:
        pass
print("done", flush=True)
while True:
    publisher.recv()
"""


@contextmanager
def screens(address: str, folder: Path) -> Iterator[dict[str, psutil.Process]]:
    """All that there are on this machine, by name."""
    with ExitStack() as stack:
        found = {}
        if shutil.which("tmux"):
            terminal = stack.enter_context(Tmux(command_line("scaler_top", address, "--page", "workers"), 120, 40))
            found["top"] = wait_until(lambda: child_of(terminal.pane_pid, "scaler_top"))
        ui = stack.enter_context(Command(command_line("scaler_ui", address, "--port", 0), child_environment()))
        found["ui"] = psutil.Process(ui.pid)
        figures = stack.enter_context(Figures(address))
        found["figures"] = psutil.Process(figures.pid)
        environment = child_environment(XDG_CONFIG_HOME=str(folder), QT_QPA_PLATFORM="offscreen")
        gui = stack.enter_context(Command(command_line("scaler_gui", address), environment))
        found["gui"] = psutil.Process(gui.pid)
        ui.wait_for_output("open http")
        yield found


class Figures(Command):
    """The process that Prometheus scrapes, without a scheduler."""

    def __init__(self, address: str) -> None:
        source = (
            "import socket, sys; from scaler_scheduler.metrics.process import main; ours, theirs = socket.socketpair();"
            "sys.exit(main([str(theirs.detach()), '127.0.0.1', '0', sys.argv[1]]))"
        )
        super().__init__([sys.executable, "-c", source, address], child_environment())


def child_of(pid: int, name: str) -> psutil.Process | None:
    for child in [psutil.Process(pid), *descendants(pid)]:
        if alive(child.pid) and name in " ".join(child.cmdline()) and "sh" not in child.name():
            return child
    return None


@pytest.mark.parametrize("seed", [1, 2])
def test_no_screen_ends_or_grows_however_hostile_its_publisher_is(tmp_path: Path, seed: int) -> None:
    address = f"ipc://{tmp_path}/monitor"
    command = [sys.executable, "-c", HOSTILE, address]
    with screens(address, tmp_path) as found:
        with subprocess.Popen(
            [*command, str(len(found)), str(seed), str(PUBLISHED)],
            env=child_environment(), stdout=subprocess.PIPE, text=True,
        ) as publisher:  # fmt: skip
            try:
                assert publisher.stdout is not None
                assert [publisher.stdout.readline() for _ in range(2)] == ["ready\n", "done\n"]
                for name, process in found.items():
                    assert alive(process.pid), name
                    assert process.memory_info().rss < MEMORY_LIMIT, name
            finally:
                publisher.kill()


def test_killed_publishers_and_stopped_screens_cost_the_cluster_nothing(tmp_path: Path) -> None:
    """Tasks go on, the scheduler and its publisher stay small, and every screen is there afterwards."""
    address = free_address()
    with start_scheduler(address) as scheduler, start_cluster(address, "-n", 2), Client(address) as client:
        with screens(default_monitor_address(address), tmp_path) as found:
            wait_until(lambda: publisher_of(scheduler))
            for turn in range(3):
                stopped = list(found.values())[turn % len(found) :]
                for process in stopped:
                    process.send_signal(signal.SIGSTOP)
                for _ in range(3):
                    assert client.map(functions.square, range(20_000)) == [each * each for each in range(20_000)]
                publisher = wait_until(lambda: publisher_of(scheduler))
                assert publisher.memory_info().rss < 200 * 1024 * 1024
                publisher.kill()
                client.map(functions.square, range(20_000))
                for process in stopped:
                    process.send_signal(signal.SIGCONT)
                wait_until(lambda: publisher_of(scheduler))
            for name, process in found.items():
                assert alive(process.pid) and process.memory_info().rss < MEMORY_LIMIT, name
            assert psutil.Process(scheduler.pid).memory_info().rss < 200 * 1024 * 1024
            with Tmux(
                command_line("scaler_top", default_monitor_address(address), "--page", "workers"), 120, 40
            ) as late:
                wait_until(lambda: "240,000" in late.screen and EXIT_MARK not in late.screen)


def publisher_of(scheduler: Command) -> psutil.Process | None:
    try:
        return next(each for each in descendants(scheduler.pid) if "publisher_process" in " ".join(each.cmdline()))
    except (StopIteration, psutil.Error):
        return None


@pytest.mark.skipif(not os.path.exists("/proc/net/unix"), reason="this is not Linux")
def test_ten_thousand_watchers_do_not_slow_the_scheduler(tmp_path: Path) -> None:
    """Each connects, asks for everything, and is never read."""
    address = free_address()
    source = """
import socket, sys
greeting = b"\\xff" + bytes(7) + b"\\x01\\x7f" + b"\\x03\\x01" + b"NULL".ljust(20, b"\\0") + bytes(32)
ready = b"\\x04\\x19\\x05READY\\x0bSocket-Type\\x00\\x00\\x00\\x03SUB"
said = greeting + ready + b"\\x00\\x09\\x01snapshot\\x00\\x07\\x01events\\x00\\x19\\x01history.0123456789abcdef"
held = []
for number in range(10_000):
    made = socket.socket(socket.AF_UNIX)
    made.connect(sys.argv[1])
    try:
        made.sendall(said)
    except OSError:
        pass
    held.append(made)
    if len(held) > 900:
        held.pop(0).close()
print("done", flush=True)
sys.stdin.read()
"""
    with start_scheduler(address) as scheduler, start_cluster(address, "-n", 2), Client(address) as client:
        wait_until(lambda: publisher_of(scheduler))
        path = default_monitor_address(address).removeprefix("ipc://")
        with subprocess.Popen(
            [sys.executable, "-c", source, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as flood:
            assert flood.stdout is not None
            while flood.poll() is None and not _has_said(flood):
                assert len(client.map(functions.square, range(5000))) == 5000
            publisher = publisher_of(scheduler)
            assert publisher is not None and publisher.memory_info().rss < 300 * 1024 * 1024
            assert publisher.num_fds() < 300
            flood.kill()
        wait_until(lambda: psutil.Process(publisher.pid).num_fds() < 40)


def _has_said(process: subprocess.Popen[str]) -> bool:
    from select import select

    return bool(select([process.stdout], [], [], 0)[0])
