"""What the daemons tell the service manager that started them, and the units that do so."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.commands import free_address, start_cluster, start_scheduler

UNITS = sorted((Path(__file__).parents[2] / "deploy" / "systemd").glob("*.service"))


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


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_accepts_the_unit(unit: Path, tmp_path: Path) -> None:
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace("/opt/scaler/bin/scaler_", "/bin/true scaler_"))
    done = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
