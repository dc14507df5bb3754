"""Scaler's commands as child processes, with what they print."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from tests.support.waiting import wait_until

FAMILY_LEAVES_SECONDS = 10.0
REPOSITORY = Path(__file__).resolve().parents[2]

MODULES = {
    "scaler": "scaler.command.cli",
    "scaler_scheduler": "scaler_scheduler.cli",
    "scaler_cluster": "scaler_worker.cli",
    "scaler_worker": "scaler_worker.cli",
    "scaler_worker_manager": "scaler_worker.manager.cli",
    "scaler_symphony_cluster": "scaler_worker.symphony.cli",
    "scaler_top": "scaler_scheduler.top",
    "scaler_gui": "scaler_gui",
    "scaler_ui": "scaler_scheduler.web",
}


def command_line(name: str, *arguments: object) -> list[str]:
    """The installed command when there is one, otherwise its module."""
    installed = Path(sys.executable).parent / name
    start = [str(installed)] if installed.exists() else [sys.executable, "-m", MODULES[name]]
    return start + [str(argument) for argument in arguments]


def child_environment(**extra: str) -> dict[str, str]:
    """This environment, with the tests importable in the child."""
    path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **extra}


class Command:
    """A running command. Leaving the context kills it and every process it started."""

    def __init__(self, arguments: list[str], environment: dict[str, str] | None = None, cwd: str | None = None) -> None:
        self.arguments = arguments
        self._output = tempfile.NamedTemporaryFile(prefix="scaler-test-", suffix=".log", delete=False)
        self.process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env=environment or child_environment(),
            cwd=cwd,
            process_group=0,  # what a command does to its group must not end the tests, which could not even say so
        )
        self._family: dict[int, psutil.Process] = {}

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def output(self) -> str:
        return Path(self._output.name).read_text(errors="replace")

    def wait_for_output(self, pattern: str, timeout_seconds: float = 60.0) -> re.Match[str]:
        def found() -> re.Match[str] | None:
            match = re.search(pattern, self.output, re.MULTILINE)
            if match is None and self.process.poll() is not None:
                match = re.search(pattern, self.output, re.MULTILINE)
                assert match, f"{self.arguments} ended with {self.process.returncode}: {self.output}"
            return match

        try:
            return wait_until(found, timeout_seconds, pattern)
        except AssertionError as error:
            raise AssertionError(f"{error}; output of {self.arguments}:\n{self.output}") from None

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self, timeout_seconds: float = 60.0) -> int:
        """The exit code; AssertionError when it does not end in time."""
        try:
            return self.process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.arguments} still runs; output:\n{self.output}") from None

    def terminate(self, timeout_seconds: float = 60.0) -> int:
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        return self.wait(timeout_seconds)

    def kill(self) -> None:
        """SIGKILL to the command itself, not to its children."""
        self.process.kill()
        self.process.wait(10)

    def family(self) -> list[psutil.Process]:
        """The command's living descendants."""
        return descendants(self.pid)

    def remember_family(self) -> None:
        for process in self.family():
            self._family[process.pid] = process

    def __enter__(self) -> Command:
        return self

    def __exit__(self, *_: Any) -> None:
        self.remember_family()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        # They leave by themselves when the command is gone, and only then can they remove their socket files.
        _, staying = psutil.wait_procs(self._family.values(), timeout=FAMILY_LEAVES_SECONDS)
        for process in staying:
            kill_quietly(process)
        self._output.close()
        os.unlink(self._output.name)


def descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def kill_quietly(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        pass


def alive(pid: int) -> bool:
    """Whether the process runs; one that only waits to be reaped does not."""
    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


def io_threads(pid: int) -> int:
    """ZeroMQ's own name for these threads is ZMQbg/IO/n."""
    names = [Path(f"/proc/{pid}/task/{task}/comm").read_text() for task in os.listdir(f"/proc/{pid}/task")]
    return sum("/IO/" in name for name in names)


def start_scheduler(address: str, *flags: object, **environment: str) -> Command:
    """A scheduler that accepts connections."""
    command = Command(command_line("scaler_scheduler", address, *flags), child_environment(**environment))
    return when(command, lambda: wait_until_bound(address, command))


def start_cluster(address: str, *flags: object, **environment: str) -> Command:
    """An agent with its workers started."""
    command = Command(command_line("scaler_cluster", *flags, address), child_environment(**environment))
    return when(command, lambda: command.wait_for_output(r"Worker\[0\] started"))


def when(command: Command, is_ready: Callable[[], object]) -> Command:
    """The command, once that has returned; it is ended if that fails."""
    try:
        is_ready()
    except BaseException:
        command.__exit__()
        raise
    return command


def wait_until_bound(address: str, command: Command, timeout_seconds: float = 60.0) -> None:
    def bound() -> bool:
        assert command.process.poll() is None, f"{command.arguments} ended: {command.output}"
        return is_bound(address)

    wait_until(bound, timeout_seconds, f"{address} bound")


def is_bound(address: str) -> bool:
    """Whether something listens at the address."""
    if address.startswith("ipc://"):
        return os.path.exists(address.removeprefix("ipc://"))
    host, port = address.removeprefix("tcp://").rsplit(":", 1)
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((host, int(port))) == 0


def run_command(
    name: str, *arguments: object, timeout_seconds: float = 60.0, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        command_line(name, *arguments),
        env=child_environment(**environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
    )


def run_python(
    source: str, *, timeout_seconds: float = 60.0, cwd: str | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Pipe ``source`` into ``python -``, as a newcomer does."""
    return subprocess.run(
        [sys.executable, "-"],
        input=source,
        env=child_environment(**environment),
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
        cwd=cwd,
    )


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._start
