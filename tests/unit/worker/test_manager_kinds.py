"""The table of kinds of worker managers, and the loop that calls their functions."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Sequence

import pytest

from scaler_protocol.command.log_tail import log_tail
from scaler_worker.manager.backend import ListError
from scaler_worker.manager.cli import chosen_kind, main
from scaler_worker.manager.config import ManagerSettings
from scaler_worker.manager.core.jobs import Job, JobState
from scaler_worker.manager.core.manager import ManagerCore
from scaler_worker.manager.kinds import KINDS
from scaler_worker.manager.shell.connection import ManagerConnection
from scaler_worker.manager.shell.loop import ManagerLoop


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_settings_derived_from_those_of_all(kind: str) -> None:
    assert issubclass(KINDS[kind].load_settings_class(), ManagerSettings)
    assert hasattr(KINDS[kind], "backend") and KINDS[kind].summary


def test_the_first_argument_chooses_the_kind() -> None:
    assert chosen_kind(["local", "tcp://127.0.0.1:1"], {}) == "local"
    assert chosen_kind(["--help"], {}) is None
    assert chosen_kind(["--name", "a"], {"SCALER_MANAGER_KIND": "local"}) == "local"
    assert chosen_kind(["elsewhere"], {}) is None


def test_the_help_names_the_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    words = " ".join(capsys.readouterr().out.split())
    for kind, each in KINDS.items():
        assert f"{kind}: {each.summary}" in words


class BlockingBackend:
    """Its functions block as commands of a batch system do; its first answer is that it cannot list the jobs."""

    def __init__(self) -> None:
        self.threads: set[int] = set()
        self.jobs: list[Job] = []
        self.calls = 0

    def start(self, n: int, capabilities: Sequence[str]) -> Sequence[Job]:
        self.jobs = [Job("1", n, JobState.RUNNING)]
        os.kill(os.getpid(), signal.SIGTERM)
        return self.jobs

    def stop(self, ids: Sequence[str]) -> None:
        self.jobs = []

    def list(self) -> Sequence[Job]:
        self.threads.add(threading.get_ident())
        self.calls += 1
        if self.calls == 1:
            raise ListError("Cannot list the jobs: it is busy. Wait.")
        return self.jobs

    def close(self) -> None:
        """Nothing is open."""

    def why_not(self) -> Sequence[str]:
        return ()


def test_a_backend_that_blocks_has_one_thread_and_a_signal_stops_its_jobs() -> None:
    backend = BlockingBackend()
    settings = ManagerSettings(kind="local", address="tcp://127.0.0.1:1")
    with log_tail() as tail:
        connection = ManagerConnection(settings.address, tail)
        asyncio.run(ManagerLoop(ManagerCore(2), backend, settings, "here", connection).run())
    assert backend.jobs == [] and backend.calls >= 3
    assert len(backend.threads) == 1 and threading.get_ident() not in backend.threads
