"""Workers that are bound to processors."""

from __future__ import annotations

import os

import pytest

from scaler import Client
from tests.support.commands import start_cluster, start_scheduler
from tests.support.ports import free_address


def own_processors() -> tuple[int, ...]:
    return tuple(sorted(os.sched_getaffinity(0)))


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="with one processor, all workers have the same")
def test_each_worker_has_processors_of_its_own() -> None:
    address = free_address()
    options = ("-n", 2, "--pin-workers", "cpu", "--max-tasks-per-worker", 1)
    with start_scheduler(address), start_cluster(address, *options), Client(address) as client:
        found = {client.submit(own_processors).result() for _ in range(10)}
    assert sorted(number for each in found for number in each) == sorted(os.sched_getaffinity(0))


def test_workers_are_not_bound_otherwise() -> None:
    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 1), Client(address) as client:
        assert client.submit(own_processors).result() == tuple(sorted(os.sched_getaffinity(0)))
