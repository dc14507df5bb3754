"""Calls whose arguments are futures of large results that the cluster may have forgotten."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterator

import pytest

from scaler import Client
from scaler.utility.exceptions import DisconnectedError, MissingObjects
from scaler_protocol.codec import TaskRun
from scaler_protocol.messages import Status
from tests.unit.client.fake_scheduler import FakeScheduler

pytestmark = pytest.mark.timeout(60)


class KeepingScheduler(FakeScheduler):
    """Says of each result that it is large, and stays in the cluster."""

    def _run_task(self, run: TaskRun, index: int) -> tuple[int, bytes]:
        return int(Status.SUCCESS_LARGE), (100_000).to_bytes(8, "little")


@pytest.fixture
def scheduler() -> Iterator[FakeScheduler]:
    with KeepingScheduler() as running:
        yield running


def ended(client: Client) -> concurrent.futures.Future[bytes]:
    future = client.submit(bytes, 100_000)
    concurrent.futures.wait([future])
    return future


def test_a_result_that_was_dropped_is_no_argument(client: Client) -> None:
    dropped = ended(client)
    client.clear()
    with pytest.raises(MissingObjects, match="dropped") as caught:
        client.submit(len, dropped).result()
    assert any(note.startswith("An input of len() did not succeed: bytes()") for note in caught.value.__notes__)
    with pytest.raises(MissingObjects, match="dropped"):
        dropped.result()
    with pytest.raises(MissingObjects, match="dropped"):
        client.submit(len, [dropped]).result()


def test_a_result_that_was_dropped_is_no_item_of_a_map(client: Client) -> None:
    dropped = ended(client)
    client.clear()
    with pytest.raises(MissingObjects, match="dropped"):
        client.map(len, [dropped])


def test_a_result_of_a_scheduler_that_was_out_of_reach_is_no_argument() -> None:
    with KeepingScheduler() as scheduler, Client(scheduler.address, timeout_seconds=0.5) as client:
        lost = ended(client)
        scheduler.stop()
        with pytest.raises(DisconnectedError):
            client.submit(len, "abc").result()
        with pytest.raises(MissingObjects, match="dropped"):
            client.submit(len, lost).result()
