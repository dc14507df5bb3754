"""Installations of packages as child processes of an agent."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

import pytest

from scaler_protocol.command.guarded_loop import GuardedLoop
from scaler_protocol.command.turn_guard import TurnGuard
from scaler_worker.shell import packages
from scaler_worker.shell.packages import INSTALLATIONS_LIMIT, HostPackages

COUNT = INSTALLATIONS_LIMIT + 3


class Events:
    def __init__(self) -> None:
        self.failed: list[tuple[str, ...]] = []

    def packages_installed(self, requirements: tuple[str, ...]) -> None:
        raise AssertionError("nothing is installed here")

    def packages_failed(self, requirements: tuple[str, ...], text: str) -> None:
        self.failed.append(requirements)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Installers leave a line in ``log``, then wait until there is a file ``gate``, and fail."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    script = f"echo begun >> {tmp_path}/log; while [ ! -e {tmp_path}/gate ]; do sleep 0.01; done; echo it failed"
    monkeypatch.setattr(packages, "module_command", lambda *_: (["sh", "-c", script], dict(os.environ)))
    return tmp_path


def begun(folder: Path) -> int:
    log = folder / "log"
    return len(log.read_text().splitlines()) if log.exists() else 0


async def until_begun(folder: Path, number: int) -> None:
    while begun(folder) < number:
        await asyncio.sleep(0.01)


def test_few_packages_are_installed_at_a_time(folder: Path) -> None:
    async def run() -> None:
        events = Events()
        host = HostPackages(GuardedLoop(asyncio.get_running_loop(), TurnGuard("Test")), events, 0)
        for number in range(COUNT):
            host.install((f"package{number}",))
            host.install((f"package{number}",))
        await until_begun(folder, INSTALLATIONS_LIMIT)
        assert len(host._installations) == INSTALLATIONS_LIMIT
        host.release((f"package{COUNT - 1}",))
        host.release(("package0",))  # the next one begins
        await until_begun(folder, INSTALLATIONS_LIMIT + 1)
        (folder / "gate").touch()
        while len(events.failed) < COUNT - 2:
            await asyncio.sleep(0.01)
        assert sorted(events.failed) == [(f"package{number}",) for number in range(1, COUNT - 1)]
        assert begun(folder) == COUNT - 1
        host.close()

    asyncio.run(asyncio.wait_for(run(), 60))


def test_what_waits_is_not_begun_after_the_end(folder: Path) -> None:
    async def run() -> None:
        host = HostPackages(GuardedLoop(asyncio.get_running_loop(), TurnGuard("Test")), Events(), 0)
        for number in range(COUNT):
            host.install((f"package{number}",))
        await until_begun(folder, INSTALLATIONS_LIMIT)
        host.close()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not host._installations and begun(folder) == INSTALLATIONS_LIMIT

    asyncio.run(asyncio.wait_for(run(), 60))


def test_packages_that_are_released_at_once_are_not_installed(folder: Path) -> None:
    async def run() -> None:
        host = HostPackages(GuardedLoop(asyncio.get_running_loop(), TurnGuard("Test")), Events(), 0)
        for _ in range(2):
            host.install(("package",))
            host.release(("package",))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not host._installations and begun(folder) == 0
        host.close()

    asyncio.run(asyncio.wait_for(run(), 60))
