"""Scenarios that worker managers of all batch systems must pass. A manager is started by a function of its address and
flags."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import pytest

from scaler import Client, ScalerFuture
from tests.support.commands import Command, alive, start_scheduler
from tests.support.waiting import wait_until

StartManager = Callable[..., Command]


class Site(Protocol):
    def jobs(self) -> Mapping[str, str]:
        """Return the state of each job that has not ended."""


def end_with_the_scheduler(start_manager: StartManager, address: str) -> None:
    """The jobs end, and then the manager, when the scheduler is shut down."""
    with start_scheduler(address, "--protected=False"), start_manager(address, "-n=1") as command:
        with Client(address) as client:
            assert client.submit(abs, -1).result() == 1
            client.shutdown()
        assert command.wait() == 0


_LOAD = 24


def load_until(client: Client, condition: Callable[[], bool]) -> None:
    """Keep the cluster loaded until the condition holds, however long the workers for this load need to start, and wait
    for the results. The first worker alone would soon have done a fixed number of tasks."""
    unfinished: list[ScalerFuture[None]] = []

    def is_reached() -> bool:
        unfinished[:] = [future for future in unfinished if not future.done()]
        unfinished.extend(client.submit(time.sleep, 0.5) for _ in range(_LOAD - len(unfinished)))
        return condition()

    wait_until(is_reached)
    for future in unfinished:
        future.result()


def follow_the_load(start_manager: StartManager, address: str, site: Site, running: str) -> None:
    """There are as many jobs as the tasks need, and none without tasks. ``running``: the state of a job that runs."""
    scaling = ("--maximum-workers=3", "--target-seconds=1", "--cool-down-seconds=0.1")
    with start_manager(address, *scaling) as command, Client(address) as client:
        try:
            load_until(client, lambda: list(site.jobs().values()) == [running] * 3)
        except AssertionError as error:
            raise AssertionError(f"{error}: {site.jobs()}, {client.cluster_info()}, {command.output}") from None
        wait_until(lambda: not site.jobs())
        assert client.submit(abs, -1).result() == 1
        assert command.terminate() == 0


def adopt_a_running_job(start_manager: StartManager, address: str, site: Site) -> str:
    """The next manager of the same name has the job of a killed one, and ends it. Returns the job."""
    with Client(address) as client:
        with start_manager(address, "-n=1", "--name=night") as command:
            agent = client.submit(os.getppid).result()
            command.kill()
        (job,) = site.jobs()
        with start_manager(address, "-n=1", "--name=night") as command:
            command.wait_for_output("logging to")
            assert client.submit(os.getppid).result() == agent
            assert list(site.jobs()) == [job]
            assert command.terminate() == 0
    return job


def adopt_waiting_jobs(start_manager: StartManager, address: str, site: Site, reason: str) -> None:
    """The next manager of the same name has the jobs that a killed one has just submitted, and removes them.
    ``reason``: why they wait, in its own words."""
    with start_manager(address, "-n=2", "--workers-per-job=1", "--name=night") as command:
        wait_until(lambda: len(site.jobs()) == 2)
        command.kill()
    jobs = site.jobs()
    with start_manager(address, "-n=2", "--workers-per-job=1", "--name=night") as command:
        command.wait_for_output(f"2 workers wait in the queue of {reason}")
        assert site.jobs().keys() == jobs.keys()
        assert command.terminate() == 0


def leave_no_late_job(
    start_manager: StartManager, address: str, site: Site, program: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A manager is killed while ``program`` submits its job, and the job appears when the next manager has started one
    of its own. That manager keeps as many as it needs, and leaves none."""
    submits, may_submit = folder / "submits", folder / "may-submit"
    held = _held(program, folder, submits, may_submit)
    try:
        with monkeypatch.context() as changed:
            changed.setenv("PATH", str(held.parent), prepend=os.pathsep)
            killed = start_manager(address, "-n=1", "--name=night")
        with killed:
            wait_until(lambda: submits.exists() and submits.read_text().endswith("\n"))
            killed.kill()
            with start_manager(address, "-n=1", "--name=night") as command, Client(address) as client:
                assert client.submit(abs, -1).result() == 1
                may_submit.touch()
                wait_until(lambda: not alive(int(submits.read_text())))
                wait_until(lambda: len(site.jobs()) == 1)
                assert client.submit(abs, -2).result() == 2
                assert command.terminate() == 0
    finally:
        may_submit.touch()
    assert not site.jobs()


def keep_names_of_another_case_apart(start_manager: StartManager, address: str, site: Site, running: str) -> None:
    """Managers whose names differ in case only have jobs of their own. ``running``: the state of a job that runs."""
    with start_manager(address, "-n=1", "--name=gpu") as first, start_manager(address, "-n=1", "--name=GPU") as second:
        wait_until(lambda: list(site.jobs().values()) == [running] * 2)
        with Client(address) as client:
            wait_until(lambda: len(client.cluster_info().workers) == 2)
            assert first.terminate() == 0
            assert list(site.jobs().values()) == [running]
            assert client.submit(abs, -1).result() == 1
        assert second.terminate() == 0


def leave_no_job_without_scheduler(start_manager: StartManager, address: str, site: Site) -> None:
    """The jobs of a killed manager, which no other one adopts, end when their scheduler has ended."""
    with start_scheduler(address, "--protected=False") as scheduler, Client(address) as client:
        with start_manager(address, "-n=1", "--death-timeout-seconds=1", "--name=night") as command:
            assert client.submit(abs, -1).result() == 1
            command.kill()
        assert len(site.jobs()) == 1
        scheduler.kill()
        wait_until(lambda: not site.jobs())


_PROGRAM = """
import json, scaler, sys
name, address, options = sys.argv[1:4]
cluster = getattr(scaler, name)(1, address or None, death_timeout_seconds=2, **json.loads(options))
with scaler.Client(cluster.get_address()) as client:
    assert client.submit(abs, -1).result() == 1
print("works", flush=True)
"""

_START_SECONDS = 150.0
"""The bound of a program that starts a cluster, whose jobs start when the batch system looks at them again."""

_FOREVER = "import threading; threading.Event().wait()"

_NONE: Mapping[str, str] = {}


def end_with_the_program(
    cluster: str, address: str, site: Site, is_killed: bool = True, options: Mapping[str, str] = _NONE
) -> None:
    """The program of a cluster ends without a word, or is killed. ``address``: of a scheduler that stays; empty: the
    cluster has its own. ``options``: others of the cluster."""
    program = [sys.executable, "-c", _PROGRAM + (_FOREVER if is_killed else ""), cluster, address, json.dumps(options)]
    with Command(program) as command:
        command.wait_for_output("works", _START_SECONDS)
        family = command.family()
        if is_killed:
            command.kill()
        else:
            assert command.wait() == 0
        wait_until(lambda: not site.jobs())
        wait_until(lambda: not any(alive(process.pid) for process in family))


def start_a_killed_program_again(
    cluster: str, address: str, site: Site, canceller: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program of a cluster with a name is killed, and started again while ``canceller`` is ending its job."""
    cancels, may_cancel = folder / "cancels", folder / "may-cancel"
    held = _held(canceller, folder, cancels, may_cancel)
    program = [sys.executable, "-c", _PROGRAM + _FOREVER, cluster, address, json.dumps({"name": "night"})]
    try:
        with monkeypatch.context() as changed:
            changed.setenv("PATH", str(held.parent), prepend=os.pathsep)
            killed = Command(program)
        with killed:
            killed.wait_for_output("works", _START_SECONDS)
            (job,) = site.jobs()
            killed.remember_family()
            killed.kill()
            with Command(program) as again:
                again.wait_for_output("An earlier manager night is ending its jobs: waiting until it has ended")
                may_cancel.touch()
                again.wait_for_output("works", _START_SECONDS)
                assert job not in site.jobs()
                again.remember_family()
                again.kill()
                wait_until(lambda: not site.jobs())
    finally:
        may_cancel.touch()


def end_without_anything_of_their_program(cluster: str, site: Site) -> None:
    """The program of a cluster is killed with all its children, as with its host."""
    with Command([sys.executable, "-c", _PROGRAM + _FOREVER, cluster, "", "{}"]) as command:
        command.wait_for_output("works", _START_SECONDS)
        assert len(site.jobs()) == 1
        command.signal(signal.SIGSTOP)  # it would start them again
        for process in command.family():
            process.kill()
        command.kill()
        wait_until(lambda: not site.jobs())


def _held(program: str, folder: Path, begun: Path, gate: Path) -> Path:
    """A program that writes its process id to ``begun``, and runs the real one when ``gate`` exists."""
    real = shutil.which(program)
    assert real is not None
    path = folder / "held" / program
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\necho $$ > {begun}\nwhile [ ! -e {gate} ]; do sleep 0.05; done\nexec {real} "$@"\n')
    path.chmod(0o755)
    return path
