"""Tasks that run in Symphony (its stand-in, see tests/support/soamapi) are tasks like any others."""

from __future__ import annotations

import concurrent.futures
import importlib
import math
import os
import pickle
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scaler import Client, Serializer
from scaler.utility.exceptions import (
    DeserializeObjectError,
    MissingObjects,
    TaskExceptionNotSerializableError,
    TaskTimeoutError,
)
from tests.cluster.conftest import Gate
from tests.support import functions
from tests.support.symphony import Rig
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with Rig("--base-concurrency", 2) as running:
        running.symphony.faults(instances=8)
        yield running


@pytest.fixture
def client(rig: Rig) -> Iterator[Client]:
    with Client(rig.address) as connected:
        yield connected


def describe(value: int, *rest: int, scale: int = 1, **others: Any) -> tuple[Any, ...]:
    return value, rest, scale, others


def keyword_only(*, value: int) -> int:
    return value


def test_submit_map_and_starmap(client: Client) -> None:
    assert client.submit(math.sqrt, 16).result(timeout=60) == 4.0
    assert client.map(math.sqrt, [(4,), (9,)]) == [2.0, 3.0]
    assert client.starmap(functions.add, [(1, 2), (3, 4)]) == [3, 7]
    assert list(client.imap(functions.square, range(5))) == [0, 1, 4, 9, 16]


def test_closures_and_what_is_defined_here_travel(client: Client) -> None:
    offset = 3
    assert client.map(lambda number: number + offset, range(3)) == [3, 4, 5]


def test_tasks_run_in_the_instances_of_the_service(client: Client, rig: Rig) -> None:
    pid, parent = client.submit(lambda: (os.getpid(), os.getppid())).result(timeout=60)
    assert parent == rig.symphony.command.pid and pid != rig.command.pid


def test_keyword_arguments(client: Client) -> None:
    call = client.submit(describe, 1, 2, scale=3, other=4)
    assert call.result(timeout=60) == (1, (2,), 3, {"other": 4})
    assert client.submit(keyword_only, value=5).result(timeout=60) == 5
    assert client.submit(dict, a=1).result(timeout=60) == {"a": 1}


def test_references_and_large_values(client: Client) -> None:
    data = os.urandom(3_000_000)
    reference = client.send_object(data, name="data")
    assert client.submit(len, reference).result(timeout=60) == len(data)
    assert client.map(len, [reference, reference, b"12"]) == [len(data), len(data), 2]
    assert client.submit(functions.identity, reference).result(timeout=60) == data
    assert client.submit(functions.identity, data).result(timeout=60) == data
    assert client.submit(lambda *, value: len(value), value=reference).result(timeout=60) == len(data)


def test_a_large_function(client: Client) -> None:
    ballast = os.urandom(200_000)
    assert client.map(lambda number: number + len(ballast), range(3)) == [200_000, 200_001, 200_002]


def test_a_cleared_reference(client: Client) -> None:
    reference = client.send_object([1])
    client.clear()
    with pytest.raises(MissingObjects):
        client.submit(len, reference)


class Reversing(Serializer):
    """Pickles backwards, so that nobody else can read it, and insists on what it is promised."""

    @staticmethod
    def serialize(obj: Any) -> bytes:
        import cloudpickle

        return cloudpickle.dumps(obj)[::-1]

    @staticmethod
    def deserialize(payload: bytes) -> Any:
        assert type(payload) is bytes
        return pickle.loads(payload[::-1])


def test_a_custom_serializer(rig: Rig) -> None:
    with Client(rig.address, serializer=Reversing()) as client:
        assert client.submit(describe, 1, scale=2).result(timeout=60) == (1, (), 2, {})
        assert client.map(functions.square, range(4)) == [0, 1, 4, 9]
        assert client.submit(functions.identity, b"x" * 100_000).result(timeout=60) == b"x" * 100_000
        with pytest.raises(ValueError, match="twelve"):
            client.submit(functions.raise_value_error, "twelve").result(timeout=60)


# ---- failures --------------------------------------------------------------------------------------------------


class OwnError(Exception):
    def __init__(self, first: str, second: int) -> None:
        super().__init__(first, second)


def raise_own_error() -> None:
    try:
        raise KeyError("the first")
    except KeyError as error:
        raise OwnError("text", 7) from error


def raise_unpicklable() -> None:
    error = ValueError("held")
    error.lock = threading.Lock()  # type: ignore[attr-defined]
    raise error


class Unloadable:
    def __reduce__(self) -> Any:
        return importlib.import_module, ("no_such_module_at_all",)


def test_exceptions_keep_type_message_and_traceback(client: Client) -> None:
    with pytest.raises(OwnError) as caught:
        client.submit(raise_own_error).result(timeout=60)
    assert caught.value.args == ("text", 7)
    text = "".join(traceback.format_exception(caught.value))
    assert "raise_own_error" in text and "KeyError: 'the first'" in text and "shim.py" not in text


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_what_would_end_a_process_ends_a_task(client: Client, error: type[BaseException]) -> None:
    def fail() -> None:
        raise error("enough")

    assert isinstance(client.submit(fail).exception(timeout=60), error)
    assert client.submit(functions.square, 3).result(timeout=60) == 9


def test_exceptions_and_results_that_do_not_travel(client: Client) -> None:
    with pytest.raises(TaskExceptionNotSerializableError, match="ValueError: held"):
        client.submit(raise_unpicklable).result(timeout=60)
    assert "pickle" in str(client.submit(threading.Lock).exception(timeout=60))
    with pytest.raises(DeserializeObjectError, match="no_such_module_at_all"):
        client.submit(functions.identity, Unloadable()).result(timeout=60)
    assert client.submit(functions.square, 3).result(timeout=60) == 9


def test_retries_are_for_exceptions(client: Client, tmp_path: Path) -> None:
    future = client.submit_verbose(functions.fail_at_first, (str(tmp_path / "calls"), 2), retries=2)
    assert future.result(timeout=60) == 3


# ---- ending tasks ----------------------------------------------------------------------------------------------


def test_a_queued_task_that_is_cancelled_never_runs(client: Client, gate: Gate, tmp_path: Path) -> None:
    running = [client.submit(functions.wait_at_gate, *gate.paths, number) for number in range(2)]
    wait_until(lambda: len(gate.waiting_pids) == 2)
    queued = client.submit(functions.note, str(tmp_path / "ran"))
    assert queued.cancel() and queued.cancelled()
    client.explain(running[0])  # answered behind the cancel: it has left the scheduler
    gate.open()
    assert [future.result(timeout=60) for future in running] == [0, 1]
    assert client.submit(functions.square, 3).result(timeout=60) == 9
    assert functions.notes(tmp_path / "ran") == []


def test_a_running_task_is_cancelled_at_once_and_its_slot_is_free_later(client: Client, gate: Gate, rig: Rig) -> None:
    running = [client.submit(functions.wait_at_gate, *gate.paths, number) for number in range(2)]
    wait_until(lambda: len(gate.waiting_pids) == 2)
    assert running[0].cancel()
    with pytest.raises(concurrent.futures.CancelledError):
        running[0].result(timeout=60)
    waiting = client.submit(functions.square, 3)
    assert rig.symphony.state()["open"] == 2 and not waiting.done()
    gate.open()
    assert waiting.result(timeout=60) == 9 and running[1].result(timeout=60) == 1


def test_a_time_limit(client: Client, gate: Gate) -> None:
    future = client.submit_verbose(functions.wait_at_gate, gate.paths, timeout_seconds=0.3)
    with pytest.raises(TaskTimeoutError, match="wait_at_gate took more than its 0.3 seconds"):
        future.result(timeout=60)
    gate.open()
    assert client.submit(functions.square, 3).result(timeout=60) == 9


# ---- what is told about tasks ------------------------------------------------------------------------------------


def use_memory(size: int) -> int:
    return len(b"x" * size)


def test_profiling(rig: Rig) -> None:
    with Client(rig.address, profiling=True) as client:
        future = client.submit(use_memory, 100_000_000)
        assert future.result(timeout=60) == 100_000_000
        report = future.profiling_info()
        assert report.peak_memory > 100_000_000
    with Client(rig.address) as client:
        future = client.submit(functions.sleep_and_return, 0.2, 5)
        assert future.result(timeout=60) == 5
        report = future.profiling_info()
        assert 0.2 <= report.duration_s < 20 and report.cpu_time_s < report.duration_s


def print_twice(text: str) -> None:
    print(text)
    print(text.upper(), file=sys.stderr)


def test_what_a_task_prints(rig: Rig, capfd: pytest.CaptureFixture[str]) -> None:
    with Client(rig.address, stream_output=True) as client:
        client.submit(print_twice, "hello").result(timeout=60)

        def seen() -> bool:
            out, err = capfd.readouterr()
            texts.extend((out, err))
            return "hello" in "".join(texts) and "HELLO" in "".join(texts)

        texts: list[str] = []
        wait_until(seen)


# ---- graphs ----------------------------------------------------------------------------------------------------


def test_graphs(client: Client) -> None:
    graph = {"a": 2, "b": 3, "sum": (functions.add, "a", "b"), "square": (functions.square, "sum"), "c": (
        functions.add, "square", "sum")}  # fmt: skip
    assert client.get(graph, ["c", "sum"]) == {"c": 30, "sum": 5}


def test_a_graph_with_large_values(client: Client) -> None:
    graph = {
        "size": 100_000,
        "large": (bytes, "size"),
        "larger": (functions.add, "large", "large"),
        "length": (len, "larger"),
    }
    assert client.get(graph, ["length", "large"]) == {"length": 200_000, "large": bytes(100_000)}


def test_a_graph_that_fails(client: Client) -> None:
    graph = {"text": "bad", "fails": (functions.raise_value_error, "text"), "never": (len, "fails")}
    with pytest.raises(ValueError, match="bad"):
        client.get(graph, ["never"])
    assert client.submit(functions.square, 3).result(timeout=60) == 9


# ---- base concurrency --------------------------------------------------------------------------------------------


def test_no_more_tasks_than_base_concurrency(client: Client, rig: Rig) -> None:
    before = rig.symphony.state()["tasks"]
    futures = [client.submit(functions.spin_and_square, number) for number in range(300)]
    client.map(functions.square, range(300))
    assert [future.result(timeout=60) for future in futures] == [number * number for number in range(300)]
    state = rig.symphony.state()
    assert state["tasks"] - before == 600


def test_several_clients_at_once(rig: Rig) -> None:
    def work(number: int) -> list[int]:
        with Client(rig.address) as client:
            return client.map(functions.square, range(number, number + 50))

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        results = list(pool.map(work, range(4)))
    assert results == [[value * value for value in range(number, number + 50)] for number in range(4)]


def test_nothing_stays_in_symphony(client: Client, rig: Rig) -> None:
    assert client.submit(functions.square, 3).result(timeout=60) == 9
    wait_until(lambda: not rig.symphony.state()["open"])
