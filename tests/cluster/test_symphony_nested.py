"""Tasks in Symphony that submit tasks: their clients connect from Symphony's hosts to the scheduler."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler import Client, Serializer
from scaler.utility.exceptions import ScalerError
from tests.cluster.conftest import Gate
from tests.cluster.test_symphony import Reversing
from tests.support import functions
from tests.support.commands import start_cluster
from tests.support.nested import (
    depth,
    fails_inside,
    fibonacci,
    fibonacci_without_argument,
    sum_of_squares,
    wait_for_child,
)
from tests.support.symphony import Rig
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with Rig("--base-concurrency", 2) as running:
        running.symphony.faults(instances=24)
        yield running


@pytest.fixture
def client(rig: Rig) -> Iterator[Client]:
    with Client(rig.address) as connected:
        yield connected


def test_fibonacci_with_two_slots(client: Client, rig: Rig) -> None:
    assert client.submit(fibonacci, client, 8).result(timeout=50) == 21
    state = rig.symphony.state()
    assert state["open"] == 0 and state["most_open"] <= 2 + 7, "one for each of the seven levels below the first"


def test_fibonacci_with_one_slot_and_a_queue_of_one() -> None:
    with Rig("-n", 1, scheduler_flags=("-qs", 1)) as rig, Client(rig.address) as client:
        rig.symphony.faults(instances=24)
        futures = [client.submit(fibonacci, client, number) for number in (5, 4, 5)]
        assert [future.result(timeout=50) for future in futures] == [5, 3, 5]


def test_without_an_argument(client: Client) -> None:
    assert client.submit(fibonacci_without_argument, 5).result(timeout=50) == 5


def test_several_at_once(client: Client) -> None:
    futures = [client.submit(fibonacci, client, 4) for _ in range(6)]
    assert [future.result(timeout=50) for future in futures] == [3] * 6


def test_ten_levels_deep(client: Client) -> None:
    assert client.submit(depth, client, 10).result(timeout=50) == 10


def test_a_map_inside(client: Client) -> None:
    assert client.map(sum_of_squares, [(client, 20), (client, 30)]) == [2470, 8555]


def test_a_failure_inside(client: Client) -> None:
    with pytest.raises(ValueError, match="inside"):
        client.submit(fails_inside, client).result(timeout=60)


def test_a_client_keeps_its_serializer(rig: Rig) -> None:
    serializer: Serializer = Reversing()
    with Client(rig.address, serializer=serializer) as client:
        assert client.submit(fibonacci, client, 4).result(timeout=60) == 3


def test_with_workers_of_other_hosts(rig: Rig, client: Client) -> None:
    with start_cluster(rig.address, "-n", 1):
        futures = [client.submit(fibonacci, client, 5) for _ in range(3)]
        assert [future.result(timeout=50) for future in futures] == [5] * 3


def test_a_session_dies_below_the_parents(rig: Rig, client: Client) -> None:
    future = client.submit(fibonacci, client, 6)
    before = rig.symphony.state()["tasks"]
    wait_until(lambda: rig.symphony.state()["tasks"] > before + 8)
    rig.symphony.end_sessions()
    assert future.result(timeout=50) == 8


def test_the_scheduler_dies_above_them() -> None:
    """The clients on Symphony's hosts come back before or after the client of their parents does."""
    with Rig("-n", 1) as rig, Client(rig.address) as client:
        rig.symphony.faults(instances=24)
        future = client.submit(fibonacci, client, 6)
        for _ in range(3):
            before = rig.symphony.state()["tasks"]
            wait_until(lambda before=before: rig.symphony.state()["tasks"] > before + 3 or future.done())
            rig.restart_scheduler()
        assert future.result(timeout=50) == 8


@functools.cache
def kept_client() -> Client:
    return Client()


def leave_a_child(started: str, gate: str) -> None:
    kept_client().submit(functions.wait_at_gate, started, gate)
    wait_until(Path(started).exists)


def ask_a_child() -> int:
    return kept_client().submit(abs, -1).result()


def ask_somebody_who_asks() -> int:
    with Client() as client:
        return client.submit(ask_a_child).result()


def test_a_client_kept_by_a_module_is_as_deep_as_the_task_that_uses_it(gate: Gate) -> None:
    """The instance that made it at the top is idle for longer than the other, so it runs the deeper task."""
    with Rig("-n", 1) as rig, Client(rig.address) as client:
        client.submit(leave_a_child, *gate.paths).result(timeout=60)
        gate.open()
        wait_until(lambda: rig.symphony.state()["answered"] == 2)
        assert client.submit(ask_somebody_who_asks).result(timeout=60) == 1


def test_a_cancelled_parent_ends_with_its_children(client: Client, rig: Rig, gate: Gate, tmp_path: Path) -> None:
    parents = tmp_path / "parents"
    future = client.submit(wait_for_child, client, str(parents), *gate.paths)
    wait_until(lambda: gate.waiting_pids)
    assert future.cancel()
    wait_until(lambda: functions.notes(parents) == ["x", "CancelledError"])
    gate.open()
    assert client.submit(functions.square, 3).result(timeout=60) == 9
    wait_until(lambda: rig.symphony.state()["open"] == 0)
    assert len(gate.waiting_pids) == 1, "the child did not run again"


def test_a_parent_with_a_time_limit(client: Client, gate: Gate, tmp_path: Path) -> None:
    arguments = (client, str(tmp_path / "parents"), *gate.paths)
    future = client.submit_verbose(wait_for_child, arguments, timeout_seconds=1.0)
    with pytest.raises(ScalerError, match=r"took more than its 1 seconds"):
        future.result(timeout=60)
    wait_until(lambda: len(functions.notes(tmp_path / "parents")) == 2)
    gate.open()


def test_with_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Symphony's hosts connect with the keys that they have; no key travels with a task."""
    keys = tmp_path / "keys"
    subprocess.run([sys.executable, "-m", "scaler_protocol.keygen", str(keys)], check=True, capture_output=True)
    monkeypatch.setenv("SCALER_KEYS", str(keys))
    with Rig("-n", 1) as rig, Client(rig.address) as client:
        assert client.submit(fibonacci, client, 4).result(timeout=60) == 3
