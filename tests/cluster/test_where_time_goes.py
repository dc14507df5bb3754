"""Where the time of tasks goes: measured in real worker processes, shown to programs."""

from __future__ import annotations

import time

import pytest

from scaler import Client, SchedulerClusterCombo
from scaler_protocol.monitor.messages import FunctionStatus
from tests.support.waiting import wait_until


class SlowToLoad:
    def __getstate__(self) -> object:
        return 1

    def __setstate__(self, state: object) -> None:
        time.sleep(0.2)


def take(value: object) -> int:
    time.sleep(0.1)
    return 5


def test_loading_and_running_are_told_apart() -> None:
    with SchedulerClusterCombo(n_workers=1) as cluster, Client(cluster.get_address()) as client:
        assert client.submit(take, SlowToLoad()).result() == 5
        assert client.submit(take, bytes(1_000_000)).result() == 5
        wait_until(lambda: function_of(client).executions == 2)
        function = function_of(client)
        assert function.loading_seconds >= 0.2
        assert function.running_seconds >= 0.2
        assert function.duration_seconds == pytest.approx(
            function.fetching_seconds + function.loading_seconds + function.running_seconds + function.storing_seconds
        )
        assert 0.1 <= function.longest_seconds <= function.running_seconds - 0.1, "it includes loading"


def function_of(client: Client) -> FunctionStatus:
    return next(each for each in client.cluster_info().functions if each.name.endswith("take"))
