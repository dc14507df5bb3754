"""Semaphores of the cluster: they count in every process, and are free again whatever becomes of their holders."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path

import pytest

from scaler import AsyncClient, Client, SchedulerClusterCombo
from scaler.client.semaphore import Semaphore
from scaler.utility.exceptions import ScalerError
from tests.cluster.conftest import Gate
from tests.support import functions
from tests.support.commands import start_cluster, start_scheduler
from tests.support.ports import free_address
from tests.support.waiting import wait_until


def wait_inside(semaphore: Semaphore, started: str, gate: str) -> None:
    with semaphore:
        functions.wait_at_gate(started, gate)


def die_inside(semaphore: Semaphore) -> None:
    semaphore.acquire()
    os.kill(os.getpid(), signal.SIGKILL)


def count_inside(semaphore: Semaphore, folder: str) -> int:
    """How many are inside together with this one."""
    with semaphore:
        mine = Path(folder, f"{os.getpid()}.{threading.get_ident()}")
        mine.touch()
        found = len(os.listdir(folder))
        mine.unlink()
        return found


def test_tasks_and_the_application_share_it(client: Client, tmp_path: Path) -> None:
    semaphore = client.semaphore("shared", 2)
    futures = [client.submit(count_inside, semaphore, str(tmp_path)) for _ in range(100)]
    counts = [count_inside(semaphore, str(tmp_path)) for _ in range(50)]
    assert max(counts + [future.result(50) for future in futures]) <= 2


def test_as_many_are_inside_as_may(client: Client, gate: Gate) -> None:
    semaphore = client.semaphore("as many", 2)
    futures = [client.submit(wait_inside, semaphore, *gate.paths) for _ in range(2)]
    wait_until(lambda: len(gate.waiting_pids) == 2)
    assert semaphore.locked() and not semaphore.acquire(blocking=False) and not semaphore.acquire(timeout=0.05)
    gate.open()
    for future in futures:
        future.result(50)
    assert semaphore.acquire() and semaphore.acquire() and semaphore.locked()
    semaphore.release()
    semaphore.release()
    with pytest.raises(RuntimeError, match="does not hold it"):
        semaphore.release()


def test_a_holder_that_dies_leaves_its_place(client: Client) -> None:
    semaphore = client.semaphore("dies", 2)
    with semaphore:
        future = client.submit_verbose(die_inside, (semaphore,), rerun=False)
        assert future.exception(50) is not None
        assert semaphore.acquire(timeout=50)
        semaphore.release()


def test_two_limits(client: Client) -> None:
    with client.semaphore("limits", 2), pytest.raises(ScalerError, match="Others use it with the limit 2, not 3."):
        client.semaphore("limits", 3).acquire()
    assert client.semaphore("limits", 3).acquire()


def test_nested_clients_and_coroutines(client: Client, combo: SchedulerClusterCombo) -> None:
    def inside_a_task() -> bool:
        with Client() as inner, inner.semaphore("nested", 1) as is_held:
            return is_held and inner.semaphore("nested", 1).locked()

    async def in_a_loop(address: str) -> tuple[bool, bool]:
        async with AsyncClient(address) as loop_client:
            semaphore = loop_client.semaphore("nested", 1)
            async with semaphore:
                return await semaphore.locked(), await loop_client.semaphore("other", 1).locked()

    assert client.submit(inside_a_task).result(50)
    assert asyncio.run(in_a_loop(combo.get_address())) == (True, False)


def test_holders_keep_it_across_a_restart() -> None:
    address = free_address()
    with start_scheduler(address) as first, start_cluster(address, "-n", 1), Client(address) as client:
        semaphore = client.semaphore("restart", 2)
        assert semaphore.acquire() and semaphore.acquire()
        first.kill()
        with start_scheduler(address), Client(address) as other:
            assert not other.semaphore("restart", 2).acquire(timeout=2.5)
            semaphore.release()
            assert other.semaphore("restart", 2).acquire(timeout=50)
            semaphore.release()
