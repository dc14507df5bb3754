"""``scaler_worker_manager slurm``: workers in jobs of a real Slurm, with a controller and two nodes of two CPUs."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from scaler import Client, SlurmCluster
from tests.cluster.conftest import Gate
from tests.support.commands import Command, child_environment, command_line, run_command, run_python, start_scheduler
from tests.support.documentation import MANAGERS, README, arguments_of, program_with
from tests.support.functions import wait_at_gate
from tests.support.manager_scenarios import (
    adopt_a_running_job,
    adopt_waiting_jobs,
    end_with_the_program,
    end_with_the_scheduler,
    end_without_anything_of_their_program,
    follow_the_load,
    leave_no_job_without_scheduler,
    leave_no_late_job,
    start_a_killed_program_again,
)
from tests.support.ports import free_port
from tests.support.slurm_site import SlurmSite, slurm_site
from tests.support.waiting import wait_until

CREDENTIAL_SECONDS = 2.0
"""A node refuses a job whose credential is from the second in which it has revoked that of an earlier execution."""


@pytest.fixture(scope="module")
def site() -> Iterator[SlurmSite]:
    with slurm_site() as running:
        yield running


@pytest.fixture(autouse=True)
def in_site(site: SlurmSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Commands reach the site, and start where jobs may write their output. No test leaves a job."""
    monkeypatch.setenv("SLURM_CONF", str(site.configuration))
    monkeypatch.chdir(tmp_path)
    yield
    left = site.jobs()
    site.run("scancel", f"--user={os.getuid()}")
    wait_until(lambda: not site.jobs() and not site.processes())
    assert not left


@pytest.fixture
def address(site: SlurmSite, keys: Path) -> Iterator[str]:
    found = f"tcp://{site.address}:{free_port()}"
    with start_scheduler(found, "--protected=False"):
        yield found


def manager(address: str, *flags: object) -> Command:
    return Command(command_line("scaler_worker_manager", "slurm", address, *flags), child_environment())


def test_tasks_run_in_jobs_and_keys_stay_in_their_files(site: SlurmSite, address: str, keys: Path) -> None:
    with manager(address, "-n=3", "--workers-per-job=1", "--per-worker-capabilities=blue") as command:
        with Client(address) as client:
            assert client.submit_verbose(pow, (2, 5), {}, capabilities={"blue": 1}).result() == 32
        wait_until(lambda: list(site.jobs().values()) == ["RUNNING"] * 3)
        (first, *_) = site.jobs()
        script = site.run("scontrol", "write", "batch_script", first, "-")
        secret = (keys / "work.key").read_text().strip()
        lines = [" ".join(each.cmdline()) for each in site.processes() if each.status() != psutil.STATUS_ZOMBIE]
        assert lines and not any(secret in text for text in (script, *lines))
        assert command.terminate() == 0
    assert not site.jobs("PENDING,RUNNING")


def test_jobs_get_the_named_variables_and_no_others(
    site: SlurmSite, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among the others are those of the login shell."""
    monkeypatch.setenv("PRICE_PASSWORD", "secret")
    with manager(address, "-n=1") as command, Client(address) as client:
        names = client.submit(lambda: sorted(os.environ)).result()
        assert {"HOME", "PATH", "SCALER_KEYS"} <= set(names)
        assert not {"PRICE_PASSWORD", "MAIL"} & set(names)
        assert command.terminate() == 0


def test_running_tasks_finish_when_the_manager_is_stopped(site: SlurmSite, address: str, gate: Gate) -> None:
    with manager(address, "-n=1", "--grace-seconds=60") as command, Client(address) as client:
        task = client.submit(wait_at_gate, *gate.paths, "done")
        wait_until(lambda: gate.waiting_pids)
        command.signal(signal.SIGTERM)
        gate.open()
        assert task.result() == "done"
        assert command.wait() == 0


def test_jobs_of_a_killed_manager_are_adopted(site: SlurmSite, address: str) -> None:
    job = adopt_a_running_job(manager, address, site)
    assert site.jobs("all")[job] == "COMPLETED"


def test_jobs_that_a_killed_manager_has_just_submitted_are_adopted(site: SlurmSite, address: str) -> None:
    site.run("scontrol", "update", "nodename=ALL", "state=drain", "reason=test")
    try:
        adopt_waiting_jobs(manager, address, site, r"Slurm for the reason \w+")
    finally:
        site.run("scontrol", "update", "nodename=ALL", "state=resume")
    wait_until(lambda: not site.jobs())


def test_a_manager_that_is_killed_while_it_submits_leaves_no_job(
    site: SlurmSite, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_no_late_job(manager, address, site, "sbatch", tmp_path, monkeypatch)


def test_jobs_of_a_killed_manager_end_without_their_scheduler(site: SlurmSite, keys: Path) -> None:
    address = f"tcp://{site.address}:{free_port()}"
    leave_no_job_without_scheduler(manager, address, site)


@pytest.mark.parametrize("is_killed", [False, True], ids=["ended", "killed"])
@pytest.mark.parametrize("has_own", [False, True], ids=["address", "own"])
def test_jobs_of_a_cluster_end_with_its_program(
    site: SlurmSite, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, is_killed: bool, has_own: bool
) -> None:
    if has_own:
        monkeypatch.delenv("SCALER_KEYS", raising=False)
    address = "" if has_own else request.getfixturevalue("address")
    end_with_the_program("SlurmCluster", address, site, is_killed)


@pytest.mark.parametrize("has_own_scheduler", [False, True])
def test_a_cluster_whose_program_was_killed_starts_again(
    site: SlurmSite, address: str, has_own_scheduler: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = "" if has_own_scheduler else address
    start_a_killed_program_again("SlurmCluster", place, site, "scancel", tmp_path, monkeypatch)


def test_jobs_of_a_cluster_that_is_killed_with_all_its_processes_end(
    site: SlurmSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCALER_KEYS", raising=False)
    end_without_anything_of_their_program("SlurmCluster", site)


def test_managers_whose_names_differ_in_case_have_jobs_of_their_own(site: SlurmSite, address: str) -> None:
    with manager(address, "-n=1", "--name=gpu") as first, manager(address, "-n=1", "--name=GPU") as second:
        wait_until(lambda: list(site.jobs("RUNNING").values()) == ["RUNNING"] * 2)
        assert first.terminate() == 0
        assert list(site.jobs("PENDING,RUNNING").values()) == ["RUNNING"]
        assert second.terminate() == 0


def test_a_held_job_is_explained_and_runs_when_it_is_released(site: SlurmSite, address: str) -> None:
    with manager(address, "-n=1", "--sbatch-options=--hold") as command, Client(address) as client:
        found = command.wait_for_output(r"for the reason JobHeldUser: they are held. Run: (scontrol release \d+)")
        site.run(*found[1].split())
        assert client.submit(abs, -1).result() == 1
        assert command.terminate() == 0


def test_more_workers_than_cpus_wait_for_resources(site: SlurmSite, address: str) -> None:
    with manager(address, "-n=5", "--workers-per-job=1") as command:
        command.wait_for_output(r"1 worker waits in the queue of Slurm for the reason Resources")
        assert command.terminate() == 0


@pytest.mark.parametrize(
    ("flag", "sentence"),
    [
        ("--partition=none", r"Invalid partition name specified\. Give another --partition"),
        ("--cpus-per-worker=99", r"More processors requested than permitted\. Give a smaller --workers-per-job"),
        ("--sbatch-options=--no-such-option", r"unrecognized option '--no-such-option'\. Correct --sbatch-options"),
    ],
)
def test_a_rejected_job_ends_the_manager_with_a_sentence(address: str, flag: str, sentence: str) -> None:
    done = run_command("scaler_worker_manager", "slurm", address, "-n=1", flag)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert re.search(sentence, done.stderr), done.stderr


def test_a_requeued_job_starts_its_workers_again(site: SlurmSite, address: str) -> None:
    with manager(address, "-n=1") as command, Client(address) as client:
        agent = client.submit(os.getppid).result()
        (job,) = site.jobs()
        site.run("scontrol", "requeue", job)
        wait_until(lambda: site.jobs().get(job) == "PENDING" and site.is_cleaned_up(job))
        start_at = time.monotonic() + CREDENTIAL_SECONDS
        wait_until(lambda: is_started_again(site, job, start_at), timeout_seconds=60)
        wait_until(lambda: client.submit(os.getppid).result() != agent)
        assert list(site.jobs()) == [job]
        assert command.terminate() == 0


def is_started_again(site: SlurmSite, job: str, start_at: float) -> bool:
    """Slurm lets a requeued job wait for two minutes, unless it is told otherwise."""
    state = site.jobs().get(job)
    if state == "PENDING" and time.monotonic() >= start_at:
        site.attempt("scontrol", "update", f"jobid={job}", "starttime=now")
    return state == "RUNNING"


def test_a_preempted_job_costs_no_task_and_runs_again(site: SlurmSite, address: str) -> None:
    """Jobs of the partition ``urgent`` may take the nodes of other jobs, which Slurm requeues."""
    with manager(address, "-n=4", "--workers-per-job=2") as command, Client(address) as client:
        wait_until(lambda: list(site.jobs().values()) == ["RUNNING"] * 2)
        jobs = set(site.jobs())
        futures = [client.submit(slow_square, number) for number in range(200)]
        sizes = ("--partition=urgent", "--ntasks=2", "--nodes=1")
        urgent = site.run("sbatch", "--parsable", *sizes, "--wrap=sleep 600").strip()
        wait_until(lambda: site.jobs().get(urgent) == "RUNNING", timeout_seconds=60)
        (preempted,) = [job for job in jobs if site.jobs().get(job) != "RUNNING"]
        assert [future.result() for future in futures] == [number**2 for number in range(200)]
        wait_until(lambda: site.jobs().get(preempted) == "PENDING")
        site.run("scancel", urgent)
        start_at = time.monotonic() + CREDENTIAL_SECONDS
        wait_until(lambda: is_started_again(site, preempted, start_at), timeout_seconds=60)
        wait_until(lambda: len(client.cluster_info().workers) == 4)
        assert set(site.jobs()) >= jobs
        assert command.terminate() == 0


def slow_square(number: int) -> int:
    time.sleep(0.05)
    return number**2


def test_a_cancelled_job_is_replaced(site: SlurmSite, address: str) -> None:
    with manager(address, "-n=1") as command, Client(address) as client:
        assert client.submit(abs, -1).result() == 1
        (job,) = site.jobs()
        site.run("scancel", job)
        command.wait_for_output(rf"Job {job} was cancelled")
        assert client.submit(abs, -2).result() == 2
        assert command.terminate() == 0


def test_jobs_end_and_then_the_manager_when_the_scheduler_is_shut_down(site: SlurmSite, keys: Path) -> None:
    end_with_the_scheduler(manager, f"tcp://{site.address}:{free_port()}")


def test_the_number_of_jobs_follows_the_load(site: SlurmSite, address: str) -> None:
    follow_the_load(manager, address, site, "RUNNING")


def test_workers_drain_before_the_time_limit_and_are_replaced(site: SlurmSite, address: str) -> None:
    """Slurm looks at time limits twice a minute."""
    with manager(address, "-n=1", "--time-limit-seconds=60", "--grace-seconds=5") as command, Client(address) as client:
        assert client.submit(abs, -1).result() == 1
        (job,) = site.jobs()
        command.wait_for_output(rf"Job {job} was ended by Slurm, at its time limit", 150)
        assert client.submit(abs, -2).result() == 2
        assert "TIMEOUT" not in site.jobs("all").values()
        assert command.terminate() == 0


def test_one_call_starts_a_scheduler_and_jobs(site: SlurmSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCALER_KEYS", raising=False)
    with SlurmCluster(2, workers_per_job=1) as cluster, Client(cluster.get_address()) as client:
        assert client.map(abs, [-1, -2]) == [1, 2]
        assert Path(os.environ["SCALER_KEYS"]).is_dir()
        assert len(site.jobs()) == 2
    assert "SCALER_KEYS" not in os.environ and not list(Path(os.environ["SCALER_HOME"]).glob("slurm-keys-*"))
    assert not site.jobs("PENDING,RUNNING")


@pytest.mark.parametrize("page", [README, MANAGERS], ids=lambda each: each.stem)
def test_the_program_of_a_page_runs(
    site: SlurmSite, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCALER_KEYS", raising=False)
    done = run_python(program_with(page, "SlurmCluster"), cwd=str(tmp_path), timeout_seconds=100)
    assert (done.returncode, done.stdout) == (0, "[1, 2]\n"), done.stderr
    assert not site.jobs("PENDING,RUNNING")


def test_the_command_of_the_page_of_managers_runs(site: SlurmSite, address: str) -> None:
    """With as many workers as the nodes have room for."""
    _, *flags = arguments_of(MANAGERS, "scaler_worker_manager slurm")
    with manager(address, *flags, "-n=2", "--workers-per-job=1") as command, Client(address) as client:
        wait_until(lambda: len(client.cluster_info().workers) == 2)
        (job, _) = site.jobs()
        assert "TimeLimit=08:00:00" in site.run("scontrol", "show", "job", job)
        assert command.terminate() == 0


@pytest.mark.parametrize("numbers", [{"n_workers": 1}, {"maximum_workers": 1}], ids=lambda each: next(iter(each)))
def test_one_call_tells_why_jobs_are_rejected(numbers: dict[str, int]) -> None:
    """At once, also when the first job is submitted later."""
    reason = "Slurm rejects the jobs: Invalid partition name specified. Give another --partition"
    with pytest.raises(ValueError, match=reason):
        SlurmCluster(**numbers, partition="none")


def test_a_manager_that_follows_the_load_starts_while_all_nodes_are_drained(site: SlurmSite, address: str) -> None:
    """Slurm would accept its jobs, although it says that there are no such nodes when it is asked."""
    site.run("scontrol", "update", "nodename=ALL", "state=drain", "reason=test")
    try:
        with manager(address, "--maximum-workers=1") as command, Client(address) as client:
            task = client.submit(abs, -1)
            command.wait_for_output("1 worker waits in the queue of Slurm for the reason")
            site.run("scontrol", "update", "nodename=ALL", "state=resume")
            assert task.result() == 1
            assert command.terminate() == 0
    finally:
        site.attempt("scontrol", "update", "nodename=ALL", "state=resume")
