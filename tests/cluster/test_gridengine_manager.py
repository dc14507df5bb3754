"""``scaler_worker_manager gridengine``: workers in jobs of a real Grid Engine with a master and an execution daemon."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler import Client, GridEngineCluster
from tests.cluster.conftest import Gate
from tests.support.commands import Command, child_environment, command_line, run_command, start_scheduler
from tests.support.functions import wait_at_gate
from tests.support.gridengine_site import GridEngineSite, gridengine_site
from tests.support.manager_scenarios import (
    adopt_a_running_job,
    adopt_waiting_jobs,
    end_with_the_program,
    end_with_the_scheduler,
    follow_the_load,
    keep_names_of_another_case_apart,
    leave_no_job_without_scheduler,
    leave_no_late_job,
)
from tests.support.ports import free_port
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def site() -> Iterator[GridEngineSite]:
    with gridengine_site() as running:
        yield running


@pytest.fixture(autouse=True)
def in_site(site: GridEngineSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Commands reach the site, and start where jobs may write their output. No test leaves a job."""
    for name, value in site.variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    yield
    left = site.jobs()
    site.try_to("qdel", "-f", *(left or ["0"]))
    wait_until(lambda: not site.jobs() and not site.processes())
    assert not left


@pytest.fixture
def address(site: GridEngineSite, keys: Path) -> Iterator[str]:
    found = f"tcp://{site.address}:{free_port()}"
    with start_scheduler(found, "--protected=False"):
        yield found


def manager(address: str, *flags: object) -> Command:
    return Command(command_line("scaler_worker_manager", "gridengine", address, *flags), child_environment())


def test_tasks_run_in_jobs_of_an_array_and_keys_stay_in_their_files(
    site: GridEngineSite, address: str, keys: Path
) -> None:
    with manager(address, "-n=3", "--workers-per-job=1", "--per-worker-capabilities=blue") as command:
        with Client(address) as client:
            assert client.submit_verbose(pow, (2, 5), {}, capabilities={"blue": 1}).result() == 32
        wait_until(lambda: list(site.jobs().values()) == ["r"] * 3)
        (number,) = {id.partition(".")[0] for id in site.jobs()}
        secret = (keys / "work.key").read_text().strip()
        lines = [" ".join(each.cmdline()) for each in site.processes()]
        assert lines and not any(secret in text for text in (site.run("qstat", "-j", number), *lines))
        assert command.terminate() == 0
    assert not site.jobs()


def test_jobs_of_a_cluster_end_with_its_program(site: GridEngineSite, address: str) -> None:
    end_with_the_program("GridEngineCluster", address, site)


def test_several_workers_of_a_job_get_slots_of_a_parallel_environment(site: GridEngineSite, address: str) -> None:
    with manager(address, "-n=2", "--parallel-environment=smp") as command, Client(address) as client:
        assert client.submit(os.getenv, "NSLOTS").result() == "2"
        assert command.terminate() == 0


def test_jobs_get_the_named_variables_and_no_others(
    site: GridEngineSite, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRICE_PASSWORD", "secret")
    with manager(address, "-n=1") as command, Client(address) as client:
        names = client.submit(lambda: sorted(os.environ)).result()
        assert {"HOME", "PATH", "SCALER_KEYS"} <= set(names) and "PRICE_PASSWORD" not in names
        assert command.terminate() == 0


def test_running_tasks_finish_when_the_manager_is_stopped(site: GridEngineSite, address: str, gate: Gate) -> None:
    with manager(address, "-n=1", "--grace-seconds=60") as command, Client(address) as client:
        task = client.submit(wait_at_gate, *gate.paths, "done")
        wait_until(lambda: gate.waiting_pids)
        command.signal(signal.SIGTERM)
        wait_until(lambda: list(site.jobs().values()) == ["dr"])
        gate.open()
        assert task.result() == "done"
        assert command.wait() == 0


def test_jobs_of_a_killed_manager_are_adopted(site: GridEngineSite, address: str) -> None:
    adopt_a_running_job(manager, address, site)


def test_jobs_that_a_killed_manager_has_just_submitted_are_adopted(site: GridEngineSite, address: str) -> None:
    site.run("qmod", "-d", "main.q,brief.q")
    try:
        adopt_waiting_jobs(manager, address, site, "Grid Engine for the reason qw")
    finally:
        site.run("qmod", "-e", "main.q,brief.q")
    wait_until(lambda: not site.jobs())


def test_a_manager_that_is_killed_while_it_submits_leaves_no_job(
    site: GridEngineSite, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_no_late_job(manager, address, site, "qsub", tmp_path, monkeypatch)


def test_jobs_of_a_killed_manager_end_without_their_scheduler(site: GridEngineSite, keys: Path) -> None:
    address = f"tcp://{site.address}:{free_port()}"
    leave_no_job_without_scheduler(manager, address, site)


def test_a_held_job_is_explained_and_runs_when_it_is_released(site: GridEngineSite, address: str) -> None:
    with manager(address, "-n=1", "--qsub-options=-h") as command, Client(address) as client:
        found = command.wait_for_output(r"for the reason hqw: they are held. Run: (qrls \d+)")
        site.run(*found[1].split())
        assert client.submit(abs, -1).result() == 1
        assert command.terminate() == 0


def test_a_job_that_cannot_be_started_is_explained(site: GridEngineSite, address: str) -> None:
    """Grid Engine keeps it in a state of its own."""
    with manager(address, "-n=1", "--output=/nonexistent/output") as command:
        found = command.wait_for_output(
            r"for the reason Eqw: .* Run: (qstat -j \d+); correct the cause, then run: qmod"
        )
        assert "can't" in site.run(*found[1].split())
        assert command.terminate() == 0


@pytest.mark.parametrize(
    ("flag", "sentence"),
    [
        ("--queue=none.q", r'job requests unknown queue "none\.q"\. Give another --queue; qconf -sql shows'),
        ("--project=lost", r'the requested project "lost" does not exist\. Give another --project'),
        ("--parallel-environment=lost", r'parallel environment "lost" does not exist\. Give another --parallel'),
        ("--qsub-options=-l none=1", r'unknown resource "none"\. Correct --qsub-options'),
        ("--time-limit-seconds=300", r"no suitable queues\. Give a smaller --workers-per-job"),
    ],
)
def test_a_rejected_job_ends_the_manager_with_a_sentence(address: str, flag: str, sentence: str) -> None:
    queue = ["--queue=brief.q"] if flag.startswith("--time") else []
    count = ["-n=2"] if flag.startswith("--parallel") else ["-n=1"]
    done = run_command("scaler_worker_manager", "gridengine", address, *count, flag, *queue)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert re.search(sentence, done.stderr), done.stderr


def test_managers_whose_names_differ_in_case_have_jobs_of_their_own(site: GridEngineSite, address: str) -> None:
    keep_names_of_another_case_apart(manager, address, site, "r")


def test_one_call_tells_why_jobs_that_start_later_are_rejected(site: GridEngineSite) -> None:
    reason = 'Grid Engine rejects the jobs: .*unknown queue "absent". Give another --queue'
    with pytest.raises(ValueError, match=reason):
        GridEngineCluster(maximum_workers=1, queue="absent")
    with pytest.raises(ValueError, match="no suitable queues"):
        GridEngineCluster(maximum_workers=1, queue="brief.q", time_limit_seconds=300)
    assert not site.jobs()


def test_a_rescheduled_job_starts_its_workers_again(site: GridEngineSite, address: str) -> None:
    with manager(address, "-n=1") as command, Client(address) as client:
        agent = client.submit(os.getppid).result()
        (job,) = site.jobs()
        site.run("qmod", "-rj", job)
        wait_until(lambda: client.submit(os.getppid).result() != agent)
        assert list(site.jobs()) == [job]
        assert command.terminate() == 0


def test_a_deleted_job_is_replaced(site: GridEngineSite, address: str) -> None:
    with manager(address, "-n=1") as command, Client(address) as client:
        assert client.submit(abs, -1).result() == 1
        (job,) = site.jobs()
        site.run("qdel", job)
        command.wait_for_output(rf"Job {job} was ended by Grid Engine, at its time limit or for another job")
        assert client.submit(abs, -2).result() == 2
        assert command.terminate() == 0


def test_jobs_end_and_then_the_manager_when_the_scheduler_is_shut_down(site: GridEngineSite, keys: Path) -> None:
    end_with_the_scheduler(manager, f"tcp://{site.address}:{free_port()}")


def test_the_number_of_jobs_follows_the_load(site: GridEngineSite, address: str) -> None:
    follow_the_load(manager, address, site, "r")


def test_workers_drain_before_the_time_limit_and_are_replaced(site: GridEngineSite, address: str) -> None:
    with (
        manager(address, "-n=1", "--time-limit-seconds=60", "--grace-seconds=20") as command,
        Client(address) as client,
    ):
        assert client.submit(abs, -1).result() == 1
        (job,) = site.jobs()
        command.wait_for_output(rf"Job {job} was ended by Grid Engine, at its time limit")
        assert client.submit(abs, -2).result() == 2
        assert command.terminate() == 0


def test_one_call_starts_a_scheduler_and_jobs(site: GridEngineSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCALER_KEYS", raising=False)
    with GridEngineCluster(2, workers_per_job=1) as cluster, Client(cluster.get_address()) as client:
        assert client.map(abs, [-1, -2]) == [1, 2]
        assert len(site.jobs()) == 2
    assert "SCALER_KEYS" not in os.environ and not list(Path(os.environ["SCALER_HOME"]).glob("gridengine-keys-*"))
    assert not site.jobs()
