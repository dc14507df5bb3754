"""A host that runs out of memory: the task that uses most of it fails, and the others continue."""

from __future__ import annotations

import time

import pytest

from scaler import Client
from scaler.utility.exceptions import TaskMemoryError
from tests.support.commands import Command, command_line, start_scheduler
from tests.support.memory_group import memory_group
from tests.support.ports import free_address

MIB = 1 << 20


def hoard(mebibytes: int) -> int:
    """Slowly, as programs do that compute what they store, and more slowly where the host's memory comes to an end: an
    agent on a busy machine may look seldom."""
    kept = []
    for number in range(mebibytes // 4):
        kept.append(bytearray(b"x" * 4 * MIB))
        time.sleep(0.01 if number < 90 else 0.2)
    return len(kept)


def test_the_task_that_exhausts_the_memory_fails() -> None:
    address = free_address()
    with memory_group(600 * MIB) as prefix, start_scheduler(address):
        with Command([*prefix, *command_line("scaler_cluster", "-n", "2", address)]) as agent:
            agent.wait_for_output(r"Worker\[1\] started")
            with Client(address) as client:
                modest = client.submit(hoard, 40)
                with pytest.raises(TaskMemoryError, match="hoard used more than its worker's share of the memory"):
                    client.submit(hoard, 2000).result(timeout=60)
                assert modest.result(timeout=60) == 10
                assert client.submit(abs, -1).result(timeout=60) == 1
            shown = agent.output
    assert "The memory of this host is nearly exhausted" in shown
    assert shown.count("is ended.") == 1 and "SIGKILL" not in shown
