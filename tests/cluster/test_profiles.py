"""Profiles of real tasks, from Python and the command line."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from scaler import Client, SchedulerClusterCombo
from scaler.utility.exceptions import ControlError, ProcessorDiedError
from tests.cluster.conftest import Gate
from tests.support import functions
from tests.support.commands import child_environment, command_line
from tests.support.waiting import wait_until


def busy(seconds: float) -> int:
    return spin(time.perf_counter() + seconds)


def spin(until: float) -> int:
    count = 0
    while time.perf_counter() < until:
        count += 1
    return count


def busy_until_exists(path: str) -> None:
    while not os.path.exists(path):
        spin(time.perf_counter() + 0.1)


def sorts(seconds: float) -> None:
    """Hold the GIL in C code for most of the time."""
    numbers = [number * 7919 % 1_000_003 for number in range(300_000)]
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        sorted(numbers)


def forks(seconds: float) -> int:
    import warnings

    warnings.simplefilter("error")
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
    return 1


def test_time_is_attributed_to_functions_and_calls(client: Client, tmp_path: Path) -> None:
    client.submit(busy, 0.01).result(60)
    with client.profile() as profile:
        futures = [client.submit(busy, 1.0) for _ in range(2)] + [
            client.submit(time.sleep, 0.5),
            client.submit(sorts, 0.5),
        ]
        for future in futures:
            future.result(60)
    rows = {row.name.partition(" ")[0]: row for row in profile.rows()}
    assert rows["busy"].total_us > 1_000_000
    assert rows["spin"].self_us > 0.7 * rows["busy"].total_us
    assert rows["sleep"].total_us > 300_000 and rows["sorts"].total_us > 300_000
    workers = {worker.name for worker in client.cluster_info().workers}
    assert {row.name for row in profile.rows("worker") if row.depth == 1} <= workers
    profile.save(tmp_path / "p.html")
    profile.save(tmp_path / "p.json")
    assert "spin" in (tmp_path / "p.html").read_text()
    assert json.loads((tmp_path / "p.json").read_text())["profiles"]
    assert "spin" in profile.text() and "iframe" in profile._repr_html_()
    with pytest.raises(ValueError, match="html, .json or .txt"):
        profile.save(tmp_path / "p.pdf")


def test_a_task_that_runs_when_the_profile_begins_is_sampled(client: Client, gate: Gate) -> None:
    waiting = client.submit(functions.wait_at_gate, *gate.paths)
    wait_until(lambda: gate.waiting_pids)

    def text_of_profile() -> str:
        with client.profile(0.005) as profile:
            time.sleep(0.5)
        return profile.text()

    wait_until(lambda: "wait_at_gate" in text_of_profile())
    gate.open()
    waiting.result(60)


def test_tasks_that_fork_are_not_disturbed(client: Client) -> None:
    with client.profile(0.001):
        assert client.submit(forks, 0.5).result(60) == 1


def test_a_process_that_dies_loses_at_most_its_last_second(client: Client) -> None:
    with client.profile(0.005) as profile:
        client.submit(busy, 1.5).result(60)
        with pytest.raises(ProcessorDiedError, match="exit code 7"):
            client.submit(os._exit, 7).result(60)
    assert "spin" in profile.text()


def test_what_cannot_be_says_so(client: Client) -> None:
    profile = client.profile()
    with pytest.raises(ControlError, match="has not begun"):
        profile.stop()
    with profile, pytest.raises(ControlError, match="has begun"):
        profile.start()
    with pytest.raises(ValueError, match="Choose an interval"):
        client.profile(0.0)
    assert profile.text().startswith(("No task ran", "   total"))


def test_the_command(combo: SchedulerClusterCombo, client: Client, tmp_path: Path) -> None:
    end = tmp_path / "end"
    future = client.submit(busy_until_exists, str(end))
    command = command_line("scaler", "profile", combo.get_address(), "--seconds", 1)
    done = subprocess.run(command, capture_output=True, text=True, env=child_environment(), timeout=60, check=False)
    assert done.returncode == 0 and "spin" in done.stdout, done.stderr
    done = subprocess.run(
        [*command, "--output", str(tmp_path / "p.html")],
        capture_output=True, text=True, env=child_environment(), timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and "Saved" in done.stdout and (tmp_path / "p.html").exists()
    end.touch()
    future.result(60)
