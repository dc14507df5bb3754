"""What the daemons tell the service manager that started them, and the units that do so."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler import Client
from scaler_protocol.key_files import generate
from scaler_protocol.transport.curve_authentication import new_key_pair
from scaler_worker.termination_notice import STOPPED_CODE
from tests.support.commands import Command, child_environment, command_line, start_cluster, start_scheduler
from tests.support.ports import free_address, free_port

UNITS = sorted((Path(__file__).parents[2] / "deploy" / "systemd").glob("scaler-*"))


class ServiceManager:
    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.settimeout(30)

    def wait_for(self, line: str) -> list[str]:
        """Everything received up to this line."""
        lines: list[str] = []
        while line not in lines:
            lines += self.socket.recv(65536).decode().splitlines()
        return lines


@pytest.fixture
def service_manager(tmp_path: Path) -> Iterator[ServiceManager]:
    manager = ServiceManager(tmp_path / "notify")
    yield manager
    manager.socket.close()


def test_the_scheduler_reports_that_it_serves_and_that_it_stops(service_manager: ServiceManager) -> None:
    address = free_address()
    with start_scheduler(address, NOTIFY_SOCKET=service_manager.path) as scheduler:
        assert f"STATUS=Serving at {address}" in service_manager.wait_for("READY=1")
        scheduler.process.send_signal(signal.SIGTERM)
        service_manager.wait_for("STOPPING=1")


def test_the_agent_is_ready_when_its_workers_have_started(service_manager: ServiceManager) -> None:
    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 2, NOTIFY_SOCKET=service_manager.path) as cluster:
        assert "STATUS=2 of 2 workers have started" in service_manager.wait_for("READY=1")
        cluster.process.send_signal(signal.SIGTERM)
        service_manager.wait_for("STOPPING=1")


def test_a_manager_is_ready_although_workers_are_missing(service_manager: ServiceManager) -> None:
    address = free_address()
    line = command_line("scaler_worker_manager", "local", address, "--num-of-workers=2")
    with start_scheduler(address), Command(line, child_environment(NOTIFY_SOCKET=service_manager.path)) as manager:
        assert "READY=1" in service_manager.wait_for("STATUS=0 workers are running, 2 are starting")
        service_manager.wait_for("STATUS=2 workers are running, 0 are starting")
        manager.process.send_signal(signal.SIGTERM)
        assert "READY=1" not in service_manager.wait_for("STOPPING=1")
        assert manager.wait() == 0


def test_the_web_monitor_is_ready_when_it_serves(service_manager: ServiceManager) -> None:
    pytest.importorskip("aiohttp")
    address, port = free_address(), free_port()
    line = command_line("scaler_ui", address, f"--port={port}")
    with start_scheduler(address), Command(line, child_environment(NOTIFY_SOCKET=service_manager.path)) as monitor:
        assert "READY=1" in service_manager.wait_for(f"STATUS=Serving at 127.0.0.1:{port}")
        monitor.process.send_signal(signal.SIGTERM)
        service_manager.wait_for("STOPPING=1")
        assert monitor.wait() == 0


@pytest.mark.skipif(shutil.which("systemd-socket-activate") is None, reason="systemd-socket-activate is not installed")
@pytest.mark.parametrize("has_keys", [False, True])
def test_a_connection_starts_the_scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_keys: bool) -> None:
    """It listens on the socket that systemd has bound, whose connections waited. Its children do not get it."""
    if has_keys:
        generate(tmp_path / "keys", new_key_pair)
        monkeypatch.setenv("SCALER_KEYS", str(tmp_path / "keys"))
    address = free_address()
    place = address.removeprefix("tcp://")
    line = ["systemd-socket-activate", *_passed_on(), "-l", place, *command_line("scaler_scheduler", address)]
    with Command(line, child_environment()) as activator:
        activator.wait_for_output(r"Listening on")
        with start_cluster(address, "-n", 1), Client(address) as client:
            assert client.submit(abs, -1).result() == 1
            assert not client.submit(sorted, [name for name in os.environ if name.startswith("LISTEN_")]).result()


def _passed_on() -> list[str]:
    """systemd-socket-activate passes on no other variables."""
    names = ("HOME", "PATH", "PYTHONPATH", "SCALER_HOME", "SCALER_KEYS")
    return [f"-E{name}" for name in names if name in child_environment()]


@pytest.mark.parametrize("name", ["worker", "manager"])
def test_workers_are_not_started_again_on_a_machine_that_is_taken_back(name: str) -> None:
    (unit,) = [each for each in UNITS if each.name == f"scaler-{name}.service"]
    assert {"Restart=always", f"RestartPreventExitStatus={STOPPED_CODE}"} <= set(unit.read_text().splitlines())


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_accepts_the_unit(unit: Path, tmp_path: Path) -> None:
    for each in UNITS:
        (tmp_path / each.name).write_text(each.read_text().replace("/opt/scaler/bin/scaler_", "/bin/true scaler_"))
    units = {unit.name, unit.with_suffix(".service").name}  # a socket starts the service of its name
    done = subprocess.run(
        ["systemd-analyze", "verify", *sorted(units)], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
