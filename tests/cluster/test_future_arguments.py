"""Futures as arguments: values stay in the cluster, failures reach the calls that need them, and nothing remains."""

from __future__ import annotations

import concurrent.futures
import gc
import operator
import pickle
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scaler import Client, ScalerFuture, SchedulerClusterCombo, Serializer
from scaler.asynchronous.tasks import LoopTask
from scaler.client.executor import ExecutorFuture
from scaler.client.future import FUTURE_TYPES
from scaler.compat import ray
from scaler.compat.ray import ObjectRef
from scaler.core.large_results import LargeResults
from scaler.utility.exceptions import ClientQuitException, MissingObjects
from tests.cluster.conftest import Gate
from tests.support import functions
from tests.support.commands import start_cluster, start_scheduler
from tests.support.ports import free_address
from tests.support.waiting import wait_until


class Wrapped:
    def __init__(self, inner: Any) -> None:
        self.inner = inner


def unwrap(wrapped: Wrapped, *, more: Any = None) -> Any:
    return wrapped.inner, more


def zeros(count: int) -> bytes:
    return bytes(count)


def nested_chain(client: Client, length: int) -> int:
    value = client.submit(operator.neg, 1)
    for _ in range(length):
        value = client.submit(operator.neg, value)
    return value.result()


@pytest.fixture
def client(combo: SchedulerClusterCombo) -> Iterator[Client]:
    """A client that has nothing left of its calls after a test."""
    with Client(combo.get_address()) as connected:
        yield connected
        wait_until(lambda: is_clear(connected))


def is_clear(client: Client) -> bool:
    gc.collect()
    client_io = client._client_io
    session = client_io.session
    with client_io.lock:
        client_io.turn()
        session.check()
        return not (session.ranges or session.objects.uploads or session.submissions.graphs)


# ---- values ----------------------------------------------------------------------------------------------------


def test_a_result_is_an_argument_of_the_next_call(client: Client) -> None:
    first = client.submit(functions.sleep_and_return, 0.1, 3)
    assert client.submit(functions.square, first).result(timeout=60) == 9
    assert client.submit(functions.square, first).result(timeout=60) == 9  # which is here by now
    assert client.submit(functions.add, first, right=first).result(timeout=60) == 6
    assert client.submit_verbose(functions.add, (first, 1), priority=3).result(timeout=60) == 4


@pytest.mark.parametrize("rounds", (1, 2))
def test_a_chain_runs_in_the_cluster(client: Client, rounds: int) -> None:
    for _ in range(rounds):
        value = client.submit(functions.increment, 0)
        for _ in range(500):
            value = client.submit(functions.increment, value)
        assert value.result(timeout=60) == 501


def test_futures_are_found_inside_of_arguments(client: Client) -> None:
    early, late = client.submit(functions.square, 2), client.submit(functions.sleep_and_return, 0.1, "late")
    early.result(timeout=60)
    call = client.submit(unwrap, Wrapped([early, (late, {"k": late})]), more={"deep": [[early]]})
    assert call.result(timeout=60) == ([4, ("late", {"k": "late"})], {"deep": [[4]]})


def test_very_many_futures_are_one_argument(client: Client) -> None:
    futures = [client.submit(functions.increment, number) for number in range(10_000)]
    assert client.submit(sum, futures).result(timeout=100) == sum(range(10_001))


def test_large_values_are_passed_on_by_name(client: Client) -> None:
    value = client.submit(zeros, 1_000_000)
    assert client.submit(len, value).result(timeout=60) == 1_000_000
    longer = client.submit(functions.add, value, value)
    assert client.submit(len, longer).result(timeout=60) == 2_000_000
    assert value.result(timeout=60) == zeros(1_000_000)
    assert client.submit(len, value).result(timeout=60) == 1_000_000  # it is here now


def test_large_values_are_freed_on_the_way(client: Client) -> None:
    value = client.submit(functions.add, zeros(300_000), b"")
    for _ in range(50):
        value = client.submit(functions.add, value, b"x")
    assert len(value.result(timeout=60)) == 300_050


def test_calls_of_imap_take_futures(client: Client) -> None:
    futures = [client.submit(functions.increment, number) for number in range(20)]
    assert list(client.imap(functions.square, futures)) == [(number + 1) ** 2 for number in range(20)]


def test_items_of_maps_are_futures(client: Client) -> None:
    items: list[Any] = [
        client.submit(functions.increment, number) if number % 3 else number + 1 for number in range(50)
    ]
    assert client.map(functions.square, items) == [(number + 1) ** 2 for number in range(50)]
    assert client.starmap(functions.add, [(item, item) for item in items]) == [2 * number + 2 for number in range(50)]
    assert client.map(sum, [[item, 1] for item in items[:5]]) == [2, 3, 4, 5, 6]
    items[7] = client.submit(functions.fail, "the item")
    with pytest.raises(ValueError, match="the item") as caught:
        client.map(functions.square, items)
    assert any("item 7 of map()" in note for note in caught.value.__notes__)


def test_gather_returns_the_same_containers(client: Client) -> None:
    small, large = client.submit(functions.square, 3), client.submit(zeros, 100_000)
    nested = {"a": [small, (large, 5)], "b": {small}}
    assert client.gather(nested) == {"a": [9, (zeros(100_000), 5)], "b": {9}}
    with pytest.raises(ValueError, match="why"):
        client.gather([small, client.submit(functions.fail, "why")])


def get_as_ray(futures: list[ScalerFuture[bytes]]) -> list[bytes]:
    return ray.get([ObjectRef(future) for future in futures])


@pytest.mark.parametrize("gather", [Client.gather, lambda client, futures: get_as_ray(futures)], ids=["gather", "ray"])
def test_large_results_from_elsewhere_are_fetched_a_few_at_a_time(
    client: Client, monkeypatch: pytest.MonkeyPatch, gather: Callable[[Client, list[ScalerFuture[bytes]]], list[bytes]]
) -> None:
    under_way: list[int] = []
    fetch = LargeResults.fetch

    def fetch_and_count(self: LargeResults, *args: Any, **kwargs: Any) -> None:
        fetch(self, *args, **kwargs)
        under_way.append(len(self.fetches))

    monkeypatch.setattr(LargeResults, "fetch", fetch_and_count)
    for way in ("get", "fetch"):  # as on a host that has no store, and reaches none
        monkeypatch.setattr(client._client_io.objects, way, lambda *_: None)
    futures = [client.submit(zeros, 1_000_000) for _ in range(100)]
    client.wait(futures)
    assert [len(result) for result in gather(client, futures)] == [1_000_000] * 100
    assert max(under_way) == 4, "not all at once, which would fill the memory, and not one by one"


def test_wait_is_that_of_the_standard_library(client: Client) -> None:
    futures = [client.submit(functions.square, number) for number in range(5)]
    done, unfinished = client.wait(futures, timeout=60)
    assert done == set(futures) and not unfinished


def test_scattered_values_are_arguments(client: Client) -> None:
    small, large = client.scatter([3, zeros(1_000_000)])
    assert client.submit(functions.square, small).result(timeout=60) == 9
    assert client.submit(len, large).result(timeout=60) == 1_000_000
    assert client.submit(sum, [small, small]).result(timeout=60) == 6
    assert small.result() == 3
    small.release()
    with pytest.raises(MissingObjects, match="released"):
        client.submit(functions.square, small).result(timeout=60)


@pytest.mark.parametrize("value", ["text", b"bytes", {"a": 1}, 5, None])
def test_one_value_is_not_scattered_by_its_items(client: Client, value: Any) -> None:
    with pytest.raises(TypeError, match=r"Pass \[value\]"):
        client.scatter(value)


def test_an_array_is_not_scattered_by_its_rows(client: Client) -> None:
    numpy = pytest.importorskip("numpy")
    with pytest.raises(TypeError, match="Cannot scatter a ndarray"):
        client.scatter(numpy.zeros((2, 3)))
    (future,) = client.scatter([numpy.zeros((2, 3))])
    assert client.submit(len, future).result() == 2


def test_a_released_result_stays_for_the_calls_that_need_it(client: Client) -> None:
    for _ in range(2):
        value = client.submit(zeros, 1_000_000)
        calls = [client.submit(len, value)]
        value.release()
        assert calls[0].result(timeout=60) == 1_000_000
        with pytest.raises(MissingObjects, match="released"):
            value.result(timeout=60)
        with pytest.raises(MissingObjects, match="released"):
            client.submit(len, value).result(timeout=60)


def longer(data: bytes) -> bytes:
    return data + b"1"


@pytest.mark.parametrize("length", [1, 2, 8])
def test_each_value_of_a_chain_is_released_when_the_next_call_has_been_submitted(client: Client, length: int) -> None:
    for _ in range(20):
        (last,) = client.scatter([zeros(100_000)])
        for _ in range(length):
            following = client.submit(longer, last)
            last.release()
            last = following
        assert client.submit(len, last).result(timeout=60) == 100_000 + length


def test_targets_of_graphs_are_arguments(client: Client) -> None:
    targets = client.get({"a": 5, "b": (functions.square, "a"), "c": (zeros, "b")}, ["b", "c"], block=False)
    assert client.submit(functions.increment, targets["b"]).result(timeout=60) == 26
    assert client.submit(len, targets["c"]).result(timeout=60) == 25


def test_nested_clients_submit_chains(single_client: Client) -> None:
    assert single_client.submit(nested_chain, single_client, 50).result(timeout=60) == -1


def test_executors_take_futures(client: Client) -> None:
    with client.as_executor() as executor:
        first = executor.submit(functions.square, 3)
        assert executor.submit(functions.increment, first).result(timeout=60) == 10


class PickleSerializer(Serializer):
    @staticmethod
    def serialize(obj: Any) -> bytes:
        return pickle.dumps(obj)

    @staticmethod
    def deserialize(payload: bytes) -> Any:
        return pickle.loads(payload)


def test_a_custom_serializer_carries_results(combo: SchedulerClusterCombo) -> None:
    with Client(combo.get_address(), serializer=PickleSerializer()) as client:
        first = client.submit(functions.sleep_and_return, 0.05, 4)
        assert client.submit(functions.square, first).result(timeout=60) == 16
        assert client.submit(sum, [first, first]).result(timeout=60) == 8


# ---- failures --------------------------------------------------------------------------------------------------


def test_a_failed_input_fails_all_that_need_it(client: Client) -> None:
    for _ in range(2):  # held in the client at first, in the cluster later
        failing = client.submit(functions.fail, "why")
        second = client.submit(functions.identity, failing)
        last = client.submit(functions.identity, [second])
        for future in (second, last):
            with pytest.raises(ValueError, match="why") as caught:
                future.result(timeout=60)
            assert any("fail()" in note for note in caught.value.__notes__)
    with pytest.raises(ValueError, match="why"):
        client.submit(functions.identity, failing).result(timeout=60)


def test_a_cancelled_input_cancels_all_that_need_it(client: Client, tmp_path: Any) -> None:
    for place in range(2):
        folder = tmp_path / str(place)
        folder.mkdir()
        gate = Gate(folder)
        waiting = client.submit(functions.wait_at_gate, *gate.paths)
        second = client.submit(functions.identity, waiting)
        last = client.submit(functions.identity, second)
        wait_until(gate.started.exists)
        assert waiting.cancel()
        for future in (second, last):
            with pytest.raises(concurrent.futures.CancelledError) as caught:
                future.result(timeout=60)
            assert any("wait_at_gate()" in note for note in caught.value.__notes__)


def test_a_call_is_cancelled_while_it_waits(client: Client, tmp_path: Any) -> None:
    gate = Gate(tmp_path)
    waiting = client.submit(functions.wait_at_gate, *gate.paths, 7)
    second = client.submit(functions.identity, waiting)
    last = client.submit(functions.identity, second)
    assert second.cancel() and second.cancelled()
    with pytest.raises(concurrent.futures.CancelledError):
        last.result(timeout=60)
    gate.gate.touch()
    assert waiting.result(timeout=60) == 7


def test_explain_names_the_inputs_of_calls_that_wait_in_the_client(client: Client, gate: Gate) -> None:
    def new_input(started: str, gate: str) -> None:
        """No test has used its results as arguments, which the client would remember."""
        functions.wait_at_gate(started, gate)

    first = client.submit(new_input, *gate.paths)
    second = client.submit(new_input, *gate.paths)
    wait_until(lambda: first.task_id and second.task_id)
    middle = client.submit(functions.add, first, second)
    last = client.submit(functions.identity, middle)
    names = "; ".join(f"{new_input.__qualname__}(), task {future.task_id}" for future in (first, second))
    assert client.explain(middle) == f"The call of add() waits in the client for the result of {names}."
    assert client.explain(last) == "The call of identity() waits in the client for the result of add()."


def test_calls_that_wait_in_the_client_are_counted(client: Client, gate: Gate) -> None:
    def unfinished() -> dict[str, int]:
        functions_of = client.cluster_info().functions
        return {each.name: each.unfinished for each in functions_of if each.name in ("add", "identity")}

    before = unfinished()
    waiting = client.submit(functions.wait_at_gate, *gate.paths, 7)
    middle = client.submit(functions.identity, waiting)
    last = [client.submit(functions.add, middle, 1) for _ in range(3)]
    expected = {"identity": before.get("identity", 0) + 1, "add": before.get("add", 0) + 3}
    wait_until(lambda: unfinished() == expected)
    gate.open()
    assert [future.result(timeout=60) for future in last] == [8, 8, 8]
    wait_until(lambda: set(unfinished().values()) == {0})


def test_a_future_of_another_client_is_refused(client: Client, combo: SchedulerClusterCombo) -> None:
    with Client(combo.get_address()) as other:
        foreign = other.submit(functions.square, 2)
        with pytest.raises(ValueError, match="future of another client"):
            client.submit(functions.identity, foreign)
        with pytest.raises(ValueError, match="future of another client"):
            client.submit(functions.identity, [foreign])
    with pytest.raises(ClientQuitException):
        other.submit(functions.identity, foreign)


def test_a_future_is_no_part_of_other_things(client: Client) -> None:
    future = client.submit(functions.square, 2)
    with pytest.raises(TypeError, match="A future can be an argument"):
        client.send_object([future])
    with pytest.raises(TypeError, match="A future can be an argument"):
        pickle.dumps(future)
    assert future.result(timeout=60) == 4


def test_calls_that_wait_end_with_their_client(combo: SchedulerClusterCombo) -> None:
    client = Client(combo.get_address())
    waiting = client.submit(time.sleep, 60)
    second = client.submit(functions.identity, waiting)
    last = client.submit(functions.identity, second)
    client.disconnect()
    assert second.cancelled() and last.cancelled()


# ---- losses ----------------------------------------------------------------------------------------------------


def slow_chain(client: Client, path: Path) -> Any:
    """A future of 1, after a chain of calls that takes a second. One of the first notes in the file that it runs."""
    value = client.submit(functions.increment, 0)
    client.submit(functions.identity, client.submit(functions.sleep_and_return, 0.1, value)).result(timeout=60)
    value = client.submit(functions.increment, 0)
    for number in range(30):
        value = client.submit(functions.sleep_and_return, 0.03, value)
        if number == 5:
            value = client.submit(functions.note_and_return, str(path), value)
    return value


def test_a_restarted_scheduler_continues_a_chain(tmp_path: Path) -> None:
    address = free_address()
    first = start_scheduler(address)
    with start_cluster(address, "-n", 2), Client(address) as client:
        try:
            value = slow_chain(client, tmp_path / "notes")
            wait_until(lambda: functions.notes(tmp_path / "notes"))
        finally:
            first.__exit__()
        with start_scheduler(address):
            assert value.result(timeout=60) == 1


def gated_chain(client: Client, path: Path, gate: Gate) -> Any:
    """A future of 1, after calls of which the first one notes its value and a later one waits at the gate."""
    value = client.submit(functions.note_and_return, str(path), client.submit(functions.increment, 0))
    for _ in range(5):
        value = client.submit(functions.identity, value)
    value = client.submit(functions.wait_at_gate, *gate.paths, value)
    return client.submit(functions.identity, value)


def test_values_of_a_lost_agent_are_made_again(gate: Gate, tmp_path: Path) -> None:
    """The other agent comes when all values that there are have been made by the one that is lost."""
    address = free_address()
    with start_scheduler(address), Client(address) as client:
        with start_cluster(address, "-n", 4) as lost:
            chains = [gated_chain(client, tmp_path / "notes", gate) for _ in range(4)]
            wait_until(lambda: len(gate.waiting_pids) == 4)
            with start_cluster(address, "-n", 1):
                lost.process.kill()
                gate.open()
                assert [chain.result(timeout=90) for chain in chains] == [1] * 4
    assert functions.notes(tmp_path / "notes") == ["1"] * 8


def test_scattered_values_are_kept_for_calls_that_wait_in_the_client(client: Client) -> None:
    total = client.submit(functions.add, *client.scatter([1, 2]))
    for number in range(3, 17):
        total = client.submit(functions.add, total, client.scatter([number])[0])
    assert total.result() == 136


def test_futures_in_the_usual_places_are_found_without_an_exception(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    (scattered,) = client.scatter([list(range(100_000))])
    future = client.submit(pow, 2, 10)

    def refuse(_: object, value: object) -> None:
        raise AssertionError(f"Cannot encode {value}: it was not known that it is a future.")

    monkeypatch.setattr("scaler.client.arguments.Arguments._special", refuse)
    calls = [client.submit(pow, future, 1), client.submit(pow, 1, future), client.submit(max, 1, 2, future)]
    calls.append(client.submit(len, scattered))
    assert [call.result() for call in calls] == [1024, 1, 1024, 100_000]
    assert {type(scattered), LoopTask, ExecutorFuture} <= FUTURE_TYPES
