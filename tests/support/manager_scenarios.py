"""Scenarios that worker managers of all batch systems must pass. A manager is started by a function of its address and
flags."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol

from scaler import Client
from tests.support.commands import Command, start_scheduler
from tests.support.waiting import wait_until

StartManager = Callable[..., Command]


class Site(Protocol):
    def jobs(self) -> Mapping[str, str]:
        """Return the state of each job that has not ended."""


def end_with_the_scheduler(start_manager: StartManager, address: str) -> None:
    """The jobs end, and then the manager, when the scheduler is shut down."""
    with start_scheduler(address, "--protected=False"), start_manager(address, "-n=1") as command:
        with Client(address) as client:
            assert client.submit(abs, -1).result() == 1
            client.shutdown()
        assert command.wait() == 0


def follow_the_load(start_manager: StartManager, address: str, site: Site, running: str) -> None:
    """There are as many jobs as the tasks need, and none without tasks. ``running``: the state of a job that runs."""
    scaling = ("--maximum-workers=3", "--target-seconds=1", "--cool-down-seconds=0.1")
    with start_manager(address, *scaling) as command, Client(address) as client:
        futures = [client.submit(time.sleep, 0.5) for _ in range(24)]
        wait_until(lambda: list(site.jobs().values()) == [running] * 3)
        for future in futures:
            future.result()
        wait_until(lambda: not site.jobs())
        assert client.submit(abs, -1).result() == 1
        assert command.terminate() == 0
