"""``Client.cluster_info``: a program sees what the screens show."""

from __future__ import annotations

import pytest

from scaler import Client
from scaler.utility.exceptions import ClientQuitException, DisconnectedError
from tests.cluster.conftest import Gate
from tests.support import functions
from tests.support.commands import free_address, start_cluster, start_scheduler
from tests.support.waiting import wait_until


def test_counts_and_rows(gate: Gate) -> None:
    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 2, "-wn", "left,right", "-hi", 0.1):
        with Client(address) as client:
            client.map(functions.square, range(100))
            busy = client.submit(functions.wait_at_gate, *gate.paths)
            wait_until(lambda: gate.waiting_pids)
            info = client.cluster_info()
            assert info.snapshot is not None
            assert (info.snapshot.tasks.success, info.snapshot.tasks.running) == (100, 1)
            wait_until(lambda: client.cluster_info().rows("workers")[1] == 2, 10)
            assert any("square" in row for row in client.cluster_info().rows("functions")[0])
            gate.open()
            busy.result()


def info_from_inside() -> int:
    with Client() as client:
        snapshot = client.cluster_info().snapshot
        assert snapshot is not None
        return snapshot.tasks.running


def test_inside_a_task(client: Client) -> None:
    assert client.submit(info_from_inside).result() == 1


def test_without_a_scheduler_it_ends_with_the_timeout() -> None:
    address = free_address()
    with start_scheduler(address) as scheduler:
        client = Client(address, timeout_seconds=1)
        scheduler.kill()
        with pytest.raises(DisconnectedError):
            client.cluster_info()
        client.disconnect()
        with pytest.raises(ClientQuitException):
            client.cluster_info()
