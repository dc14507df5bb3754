"""Each worker has devices of its own, and its tasks see them."""

from __future__ import annotations

import os
import signal

from scaler import Client
from tests.support.commands import Command, child_environment, command_line, start_cluster, start_scheduler
from tests.support.ports import free_address
from tests.support.waiting import wait_until

DEVICES = "CUDA_VISIBLE_DEVICES", "SCALER_RESOURCE_GPU"


def seen() -> tuple[int, str, str]:
    """The worker process, and the devices that its tasks may use."""
    first, second = (os.environ.get(name, "") for name in DEVICES)
    return os.getpid(), first, second


def kill_own_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def devices_of_workers(client: Client) -> set[tuple[str, str]]:
    """The devices of all worker processes that run tasks."""
    return {found[1:] for found in client.map(lambda _: seen(), range(40), capabilities={"gpu": 1})}


def test_tasks_have_their_own_devices_also_after_a_death() -> None:
    address = free_address()
    with (
        start_scheduler(address),
        start_cluster(address, "-n", 2, "--per-worker-capabilities", "gpu=1", CUDA_VISIBLE_DEVICES="4,7"),
        Client(address) as client,
    ):
        everything = {("4", "4"), ("7", "7")}
        wait_until(lambda: devices_of_workers(client) == everything)
        died = client.submit_verbose(kill_own_process, rerun=False)
        assert died.exception(timeout=60) is not None
        wait_until(lambda: devices_of_workers(client) == everything)


def test_workers_share_a_device() -> None:
    address = free_address()
    with (
        start_scheduler(address),
        start_cluster(address, "-n", 2, "--per-worker-capabilities", "gpu=0.5", CUDA_VISIBLE_DEVICES="3"),
        Client(address) as client,
    ):
        results = client.map(lambda _: seen(), range(40), capabilities={"gpu": 0.5})
        assert {found[1:] for found in results} == {("3", "3")}
        waiting = client.submit_verbose(seen, capabilities={"gpu": 1})
        wait_until(lambda: "gpu=1" in client.explain(waiting))
        waiting.cancel()


def test_fewer_devices_than_workers_offer() -> None:
    arguments = command_line("scaler_cluster", "-n", 2, "--per-worker-capabilities", "gpu=1", free_address())
    with Command(arguments, child_environment(CUDA_VISIBLE_DEVICES="0")) as cluster:
        assert cluster.wait() == 2
        assert "they need 2 devices, and this host has 1 (CUDA_VISIBLE_DEVICES=0)" in cluster.output
