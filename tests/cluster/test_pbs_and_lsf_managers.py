"""``scaler_worker_manager pbs`` and ``lsf``: stand-ins for the commands of both, real jobs and workers."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from scaler import Client, LSFCluster, PBSCluster
from tests.cluster.conftest import Gate
from tests.support.batch_programs import BatchPrograms
from tests.support.commands import Command, child_environment, command_line, run_command, start_scheduler
from tests.support.functions import wait_at_gate
from tests.support.manager_scenarios import (
    end_with_the_program,
    end_with_the_scheduler,
    follow_the_load,
    keep_names_of_another_case_apart,
    leave_no_late_job,
)
from tests.support.ports import free_port
from tests.support.slurm_site import network_address
from tests.support.waiting import wait_until

OPTIONS = {
    "pbs": (
        "--queue=long", "--account=physics", "--project=cold", "--resources=ngpus=1:model=fast", "--output=out",
        "--memory-per-worker=1GiB", "--time-limit-seconds=1h", "--cpus-per-worker=2",
        "--qsub-options=-l place=excl -p 3",
    ),
    "lsf": (
        "--queue=long", "--project=cold", "--output=out", "--memory-per-worker=1GiB", "--time-limit-seconds=1h",
        "--cpus-per-worker=2", "--bsub-options=-G group -R 'select[fast]' -gpu num=1",
    ),
}  # fmt: skip

CLUSTERS: dict[str, Callable[..., PBSCluster | LSFCluster]] = {"pbs": PBSCluster, "lsf": LSFCluster}


@pytest.fixture(params=["pbs", "lsf"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def site(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchPrograms]:
    """No test leaves a job."""
    programs = BatchPrograms(kind, tmp_path / "site")
    monkeypatch.setenv("PATH", str(programs.path), prepend=os.pathsep)
    monkeypatch.setenv(programs.variable, str(programs.folder))
    monkeypatch.chdir(tmp_path)
    yield programs
    left = programs.jobs()
    programs.kill_all()
    assert not left


@pytest.fixture
def address(site: BatchPrograms, keys: Path) -> Iterator[str]:
    found = f"tcp://{network_address()}:{free_port()}"
    with start_scheduler(found, "--protected=False"):
        yield found


def manager(kind: str, address: str, *flags: object) -> Command:
    return Command(command_line("scaler_worker_manager", kind, address, *flags), child_environment())


def test_tasks_run_in_jobs_with_every_option(kind: str, site: BatchPrograms, address: str) -> None:
    with manager(kind, address, "-n=3", "--workers-per-job=1", *OPTIONS[kind]) as command, Client(address) as client:
        assert client.map(abs, [-1, -2, -3]) == [1, 2, 3]
        wait_until(lambda: len(site.jobs()) == 3)
        assert command.terminate() == 0
    assert not site.jobs()


def test_running_tasks_finish_when_the_manager_is_stopped(
    kind: str, site: BatchPrograms, address: str, gate: Gate
) -> None:
    """The processes of a job get the signal, too, and ignore it."""
    with manager(kind, address, "-n=1", "--grace-seconds=60") as command, Client(address) as client:
        task = client.submit(wait_at_gate, *gate.paths, "done")
        wait_until(lambda: gate.waiting_pids)
        command.signal(signal.SIGTERM)
        gate.open()
        assert task.result() == "done"
        assert command.wait() == 0


def test_jobs_of_a_killed_manager_are_adopted(kind: str, site: BatchPrograms, address: str) -> None:
    site.close()
    with manager(kind, address, "-n=2", "--workers-per-job=1", "--name=night") as command:
        wait_until(lambda: len(site.jobs()) == 2)
        command.kill()
    jobs = site.jobs()
    with manager(kind, address, "-n=2", "--workers-per-job=1", "--name=night") as command, Client(address) as client:
        command.wait_for_output(r"2 workers wait in the queue of (PBS|LSF) for the reason ")
        assert site.jobs() == jobs
        site.open()
        assert client.submit(abs, -1).result() == 1
        assert command.terminate() == 0


def test_a_manager_that_is_killed_while_it_submits_leaves_no_job(
    kind: str, site: BatchPrograms, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = {"pbs": "qsub", "lsf": "bsub"}[kind]
    leave_no_late_job(partial(manager, kind), address, site, program, tmp_path, monkeypatch)


def test_managers_whose_names_differ_in_case_have_jobs_of_their_own(
    kind: str, site: BatchPrograms, address: str
) -> None:
    keep_names_of_another_case_apart(partial(manager, kind), address, site, "running")


def test_jobs_of_a_cluster_end_with_its_program(kind: str, site: BatchPrograms, address: str) -> None:
    end_with_the_program(CLUSTERS[kind].__name__, address, site)


def test_a_held_job_is_explained(kind: str, site: BatchPrograms, address: str) -> None:
    option = "--qsub-options=-h" if kind == "pbs" else "--bsub-options=-H"
    with manager(kind, address, "-n=1", option) as command:
        command.wait_for_output(r"they are held\. Run: (qrls|bresume) 41")
        assert command.terminate() == 0


@pytest.mark.parametrize(("queue", "code"), [("none", 2), ("full", None)])
def test_a_rejected_job(kind: str, site: BatchPrograms, address: str, queue: str, code: int | None) -> None:
    """An unknown queue ends the manager; one that is full does not."""
    if code is not None:
        done = run_command("scaler_worker_manager", kind, address, "-n=1", f"--queue={queue}")
        assert done.returncode == code and "Traceback" not in done.stderr
        assert re.search(r"(Unknown queue|No such queue).*\. Give another --queue", done.stderr), done.stderr
    else:
        with manager(kind, address, "-n=1", f"--queue={queue}") as command:
            command.wait_for_output(r"1 worker is missing: .*Wait until other jobs have ended")
            assert command.terminate() == 0


def test_one_call_tells_why_jobs_that_start_later_are_rejected(kind: str, site: BatchPrograms) -> None:
    with pytest.raises(ValueError, match=r"(Unknown queue none|No such queue)\. Give another --queue"):
        CLUSTERS[kind](maximum_workers=1, queue="none")


def test_a_first_job_that_is_rejected_when_tasks_wait_is_explained_and_tried_again(
    kind: str, site: BatchPrograms, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCALER_KEYS", raising=False)
    site.refuse()
    with CLUSTERS[kind](maximum_workers=1, queue="long") as cluster, Client(cluster.get_address()) as client:
        task = client.submit(abs, -1)
        wait_until(lambda: "1 worker is missing" in client.explain(task))
        assert re.search(
            r"no worker is connected\. Worker manager \S+: 1 worker is missing: \w+ rejects the jobs: "
            r"(Unauthorized Request|User permission denied).*\. Ask the administrators of the cluster\.",
            client.explain(task),
        ), client.explain(task)
        site.accept()
        assert task.result() == 1


def test_a_deleted_job_is_replaced(kind: str, site: BatchPrograms, address: str) -> None:
    with manager(kind, address, "-n=1") as command, Client(address) as client:
        assert client.submit(abs, -1).result() == 1
        site.kill_all()
        command.wait_for_output(r"Job 41\S* was ended by signal 9")
        assert client.submit(abs, -2).result() == 2
        assert command.terminate() == 0


def test_jobs_end_and_then_the_manager_when_the_scheduler_is_shut_down(
    kind: str, site: BatchPrograms, keys: Path
) -> None:
    end_with_the_scheduler(partial(manager, kind), f"tcp://{network_address()}:{free_port()}")


def test_the_number_of_jobs_follows_the_load(kind: str, site: BatchPrograms, address: str) -> None:
    follow_the_load(partial(manager, kind), address, site, "running")


def test_one_call_starts_a_scheduler_and_jobs(kind: str, site: BatchPrograms, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCALER_KEYS", raising=False)
    with CLUSTERS[kind](2, workers_per_job=1) as cluster, Client(cluster.get_address()) as client:
        assert client.map(abs, [-1, -2]) == [1, 2]
    assert "SCALER_KEYS" not in os.environ
    assert not site.jobs()
