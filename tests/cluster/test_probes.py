"""The probes of the containers in ``deploy/kubernetes``, asked about real processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pytest

from tests.support.commands import REPOSITORY, Command, child_environment, command_line, start_cluster, start_scheduler
from tests.support.namespaces import apart
from tests.support.ports import free_address, free_port
from tests.support.waiting import wait_until

yaml = pytest.importorskip("yaml")

FOLDER = REPOSITORY / "deploy" / "kubernetes"


def probe(file: str, name: str, kind: str, **replaced: str) -> list[str]:
    """The command of the probe, with other texts in the place of those that hold in the container."""
    documents = yaml.safe_load_all((FOLDER / file).read_text())
    (container,) = (
        each
        for document in documents
        if document["kind"] == "Deployment"
        for each in document["spec"]["template"]["spec"]["containers"]
        if each["name"] == name
    )
    program, *arguments = container[kind]["exec"]["command"]
    assert program == "python"
    for text, other in replaced.items():
        arguments = [each.replace(text, other) for each in arguments]
    return [sys.executable, *arguments]


def passes(command: Sequence[str]) -> bool:
    return subprocess.run(command, capture_output=True, timeout=60).returncode == 0


def test_workers_are_ready_when_a_worker_process_runs() -> None:
    command = probe("workers.yaml", "worker", "readinessProbe")
    assert not passes([*apart("--mount-proc"), *command])
    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 1):
        wait_until(lambda: passes(command))


@pytest.mark.parametrize("kind", ["readinessProbe", "livenessProbe"])
def test_the_monitor_is_asked_for_its_page(kind: str) -> None:
    pytest.importorskip("aiohttp")
    address, port = free_address(), free_port()
    command = probe("scheduler.yaml", "monitor", kind, **{"50001": str(port)})
    assert not passes(command)
    line = command_line("scaler_ui", address, f"--port={port}")
    with start_scheduler(address), Command(line, child_environment()) as monitor:
        monitor.wait_for_output("scaler_ui: open")
        assert passes(command)


def test_the_manager_is_ready_when_it_reaches_the_scheduler() -> None:
    host, port = (address := free_address()).removeprefix("tcp://").split(":")
    command = probe("manager.yaml", "manager", "readinessProbe", **{"scaler-scheduler": host, "2345": port})
    assert not passes(command)
    with start_scheduler(address):
        assert passes(command)
