"""A client of the scheduler that a test module makes, and a session that is connected."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scaler import Client
from tests.unit.client.fake_scheduler import FakeScheduler
from tests.unit.client.scheduler_side import SchedulerSide


@pytest.fixture
def client(scheduler: FakeScheduler) -> Iterator[Client]:
    with Client(scheduler.address) as connected:
        yield connected


@pytest.fixture
def side() -> SchedulerSide:
    side = SchedulerSide()
    side.connect()
    side.exchange()
    return side
