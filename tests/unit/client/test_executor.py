"""The exceptions of executors, as users of ``concurrent.futures`` expect them, and of other calls with items."""

from __future__ import annotations

import concurrent.futures
import operator
import pickle
import traceback
from collections.abc import Iterator

import pytest

from scaler import Client
from scaler.utility.exceptions import ClientQuitException, ExecutorProcessDiedError, ProcessorDiedError
from scaler_protocol.codec import TaskRun
from scaler_protocol.messages import Status
from tests.unit.client.fake_scheduler import FakeScheduler


class DeadlyScheduler(FakeScheduler):
    """The task with an argument of 0 ends its worker process."""

    def _run_task(self, run: TaskRun, index: int) -> tuple[int, bytes]:
        if pickle.loads(next(iter(run.slots(index)))) == 0:
            return int(Status.PROCESSOR_DIED), b'[{"signal": "SIGKILL", "pid": 7}]'
        return super()._run_task(run, index)


@pytest.fixture
def scheduler() -> Iterator[FakeScheduler]:
    with DeadlyScheduler() as running:
        yield running


def test_a_process_that_died_is_a_broken_executor_for_that_call_only(client: Client) -> None:
    with client.as_executor() as executor:
        with pytest.raises(concurrent.futures.BrokenExecutor, match="SIGKILL") as caught:
            executor.submit(operator.neg, 0).result()
        assert isinstance(caught.value, ProcessorDiedError) and caught.value.certificates[0]["pid"] == 7
        assert executor.submit(operator.neg, 1).result() == -1
    copied = pickle.loads(pickle.dumps(caught.value))
    assert type(copied) is ExecutorProcessDiedError and copied.certificates == caught.value.certificates
    with pytest.raises(ProcessorDiedError) as plain:
        client.submit(operator.neg, 0).result()
    assert not isinstance(plain.value, concurrent.futures.BrokenExecutor)


def has_only_frames_of_the_user(error: BaseException) -> bool:
    """Those of the scheduler of these tests may follow if another module has registered the pickling of tracebacks."""
    modules = [frame.f_globals["__name__"] for frame, _ in traceback.walk_tb(error.__traceback__)]
    return modules[0] == __name__ and not any(each.startswith("scaler") for each in modules)


@pytest.mark.parametrize(
    ("chunksize", "note"),
    [
        (1, "Raised by item 3 of map(), counting from 0."),
        (2, "Raised by one of the 2 items from item 2 of map(), counting from 0."),
    ],
)
def test_a_failure_in_a_map_of_an_executor_names_its_item(client: Client, chunksize: int, note: str) -> None:
    with client.as_executor() as executor, pytest.raises(TypeError) as caught:
        list(executor.map(operator.neg, [1, 2, 3, "x", 4], chunksize=chunksize))
    assert note in caught.value.__notes__
    assert has_only_frames_of_the_user(caught.value)


def test_a_map_that_takes_too_long_blames_no_item(client: Client, scheduler: FakeScheduler) -> None:
    scheduler.hold.set()
    with client.as_executor() as executor:
        with pytest.raises(TimeoutError) as caught:
            list(executor.map(operator.neg, [1], timeout=0))
        scheduler.hold.clear()
    assert not hasattr(caught.value, "__notes__") and has_only_frames_of_the_user(caught.value)


def test_a_failure_in_imap_unordered_names_its_item(client: Client) -> None:
    with pytest.raises(TypeError) as caught:
        list(client.imap_unordered(operator.neg, [1, 2, "x", 4]))
    assert "Raised by item 2 of imap_unordered(), counting from 0." in caught.value.__notes__
    assert has_only_frames_of_the_user(caught.value)


def test_an_executor_of_a_closed_client_is_shut_down(client: Client) -> None:
    executor = client.as_executor()
    client.disconnect()
    with pytest.raises(RuntimeError, match="after shutdown") as caught:
        executor.submit(operator.neg, 1)
    assert isinstance(caught.value.__cause__, ClientQuitException)
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.map(operator.neg, [1])
    executor.shutdown()


def test_a_future_of_a_closed_client_is_refused_as_such(scheduler: FakeScheduler, client: Client) -> None:
    with Client(scheduler.address) as closed:
        future = closed.submit(operator.neg, 1)
        assert future.result() == -1
        with pytest.raises(ValueError, match="a future of another client"):
            client.submit(operator.neg, future)
    with pytest.raises(ValueError, match="a future of a client that is closed"):
        client.submit(operator.neg, future)
