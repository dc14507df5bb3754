"""``scaler_worker_manager symphony``: the stand-in for Symphony, and real ``scaler_symphony_cluster`` commands."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from scaler import Client, SymphonyCluster
from tests.support.commands import Command, child_environment, command_line, run_command, start_scheduler
from tests.support.manager_scenarios import load_until
from tests.support.ports import free_address
from tests.support.symphony import FOLDER, SERVICE, Symphony
from tests.support.waiting import wait_until


@pytest.fixture
def symphony() -> Iterator[Symphony]:
    """No test leaves a task."""
    with Symphony() as running:
        yield running
        assert running.state()["open"] == 0


@pytest.fixture
def address() -> Iterator[str]:
    found = free_address()
    with start_scheduler(found, "--protected=False"):
        yield found


def manager(symphony: Symphony, address: str, *flags: object) -> Command:
    words = ("scaler_worker_manager", "symphony", address, f"--service={SERVICE}", *flags)
    return Command(command_line(*words), child_environment(**symphony.environment))


def test_tasks_run_in_sessions_of_symphony(symphony: Symphony, address: str) -> None:
    with manager(symphony, address, "-n=3", "--workers-per-job=2") as command, Client(address) as client:
        assert client.map(abs, [-1, -2, -3]) == [1, 2, 3]
        wait_until(lambda: len(client.cluster_info().agents) == 2)
        assert command.terminate() == 0


def test_a_session_that_ends_is_replaced(symphony: Symphony, address: str) -> None:
    with manager(symphony, address, "-n=1") as command, Client(address) as client:
        assert client.submit(abs, -1).result() == 1
        symphony.end_sessions()
        assert client.submit(abs, -2).result() == 2
        assert command.terminate() == 0


def test_the_number_of_sessions_follows_the_load(symphony: Symphony, address: str) -> None:
    scaling = ("--maximum-workers=3", "--target-seconds=1", "--cool-down-seconds=0.1")
    with manager(symphony, address, *scaling) as command, Client(address) as client:
        load_until(client, lambda: len(client.cluster_info().agents) == 3)
        wait_until(lambda: not client.cluster_info().agents)
        assert command.terminate() == 0


def test_sessions_end_and_then_the_manager_when_the_scheduler_is_shut_down(symphony: Symphony) -> None:
    address = free_address()
    with start_scheduler(address, "--protected=False"), manager(symphony, address, "-n=1") as command:
        with Client(address) as client:
            assert client.submit(abs, -1).result() == 1
            client.shutdown()
        assert command.wait() == 0


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["-n=1"], r"give the name of its service with --service"),
        (["--service=S"], r"give --num-of-workers or --maximum-workers"),
        (["--service=S", "-n=1", "--preload=os"], r"Cannot use --preload with Symphony, whose service runs the tasks"),
        (["--service=S", "-n=1"], r"its Python API soamapi cannot be imported"),
    ],
)
def test_settings_that_are_refused(flags: list[str], sentence: str) -> None:
    done = run_command("scaler_worker_manager", "symphony", free_address(), *flags)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert re.search(sentence, done.stderr), done.stderr


def test_one_call_starts_a_scheduler_and_sessions(symphony: Symphony, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER / "api")
    monkeypatch.setenv("SOAMAPI_BROKER", symphony.path)
    with SymphonyCluster(SERVICE, 2) as cluster, Client(cluster.get_address()) as client:
        assert client.map(abs, [-1, -2]) == [1, 2]
