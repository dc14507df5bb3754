"""A client as Dask's scheduler: collections that stay in the cluster, annotations, and what Dask has afterwards."""

from __future__ import annotations

import operator
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

from scaler import Client, ScalerFuture, SchedulerClusterCombo
from scaler.utility.exceptions import ClientQuitException
from tests.support.functions import fail, increment

dask = pytest.importorskip("dask")
numpy = pytest.importorskip("numpy")
array = pytest.importorskip("dask.array")
bag = pytest.importorskip("dask.bag")
pytest.importorskip("dask.callbacks")

from scaler.integrations.dask import futures_of, install  # noqa: E402

MIXES = pytest.mark.filterwarnings("ignore:Computing mixed collections")
NEEDS_VALUES_ASSEMBLED_IN_TASKS = pytest.mark.skipif(
    tuple(map(int, dask.__version__.split(".")[:2])) < (2025, 4), reason="this Dask assembles values in the application"
)


@pytest.fixture
def installed(client: Client) -> Iterator[Client]:
    with install(client):
        yield client


def values_in(collection: Any) -> set[type]:
    return {type(getattr(node, "value", node)) for node in collection.dask.values()}


def test_every_collection_is_computed_in_the_cluster(installed: Client) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dask.threaded.get", fail)
        patch.setattr("dask.multiprocessing.get", fail)
        assert array.ones((100, 100), chunks=30).sum().compute() == 10_000
        assert bag.range(10, npartitions=2).map(increment).sum().compute() == 55
        assert dask.compute(dask.delayed(increment)(1), [dask.delayed(increment)(2)]) == (2, [3])


def test_the_former_scheduler_comes_back(client: Client) -> None:
    with dask.config.set(scheduler="synchronous"):
        installation = install(client)
        assert dask.config.get("scheduler") is client
        installation.uninstall()
        installation.uninstall()
        assert dask.config.get("scheduler") == "synchronous"


def test_values_are_shuffled_between_tasks_and_not_through_files_of_one_host(client: Client) -> None:
    frame = pytest.importorskip("dask.dataframe")
    data = frame.from_dict({"key": list(range(40)), "value": list(range(40))}, npartitions=4)
    with install(client):
        shuffled = data.shuffle("key").optimize()
        assert not any("partd" in str(key) for key in shuffled.dask)
        assert sorted(shuffled.compute().value) == list(range(40))
        assert bag.range(40, npartitions=4).groupby(is_odd).map(length_of_group).compute() == [20, 20]
    with dask.config.set({"dataframe.shuffle.method": "disk"}), install(client):
        assert any("partd" in str(key) for key in data.shuffle("key").optimize().dask)


def is_odd(number: int) -> bool:
    return bool(number % 2)


def length_of_group(group: tuple[bool, list[int]]) -> int:
    return len(group[1])


def test_a_closed_client_is_not_installed(combo: SchedulerClusterCombo) -> None:
    with Client(combo.get_address()) as closed:
        pass
    with pytest.raises(ClientQuitException):
        install(closed)


def test_installations_may_end_in_any_order(combo: SchedulerClusterCombo) -> None:
    with Client(combo.get_address()) as one, Client(combo.get_address()) as other:
        first, second = install(one), install(other)
        first.uninstall()
        assert dask.config.get("scheduler") is other
        third = install(one)
        third.uninstall()
        assert dask.config.get("scheduler") is other
        second.uninstall()
        assert dask.config.get("scheduler", None) is None


def test_what_is_not_a_client_is_refused() -> None:
    with pytest.raises(TypeError, match=r"it is not a scaler\.Client"):
        install("threads")  # type: ignore[arg-type]


def test_persisted_values_stay_in_the_cluster(installed: Client) -> None:
    persisted = array.random.random((400, 400), chunks=100).persist()
    assert values_in(persisted) == {ScalerFuture}
    total = persisted.sum().compute()
    assert total == persisted.sum().compute()  # they were made once
    assert (persisted + 1).sum().compute() == pytest.approx(total + 160_000)
    again = (persisted + persisted.T).persist()
    assert again.sum().compute() == pytest.approx(2 * total)


def test_persist_does_not_wait(installed: Client) -> None:
    lock = installed.lock("gate")
    with lock:
        persisted = dask.delayed(wait_for_gate)(lock).persist()
        following = dask.delayed(operator.add)(persisted, 1).persist()
        assert not futures_of(following)[0].done()
    assert following.compute() == 6


def wait_for_gate(lock: Any) -> int:
    with lock:
        return 5


@pytest.mark.parametrize("scheduler", ["client", "client.get"])
def test_persist_with_a_scheduler_of_the_call(client: Client, scheduler: str) -> None:
    chosen = client if scheduler == "client" else client.get
    (persisted,) = dask.persist(bag.range(10, npartitions=3).map(increment), scheduler=chosen)
    assert values_in(persisted) == {ScalerFuture}
    assert persisted.sum().compute(scheduler=chosen) == 55


def test_data_frames(installed: Client) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pytest.importorskip("dask.dataframe")
    data = pandas.DataFrame({"key": [index % 3 for index in range(300)], "value": range(300)})
    persisted = frame.from_pandas(data, npartitions=4).persist()
    means = persisted.groupby("key").value.mean().compute().sort_index()
    assert means.tolist() == data.groupby("key").value.mean().tolist()
    assert len(persisted) == 300


def collections_of_each_kind() -> list[Any]:
    frame = pytest.importorskip("dask.dataframe")
    data = frame.from_dict({"key": [1, 2, 1], "value": [1, 2, 3]}, npartitions=2)
    return [array.arange(6, chunks=2), data, data.value.sum(), bag.range(6, npartitions=2), dask.delayed(increment)(5)]


def test_wait_for_persisted_collections(installed: Client) -> None:
    persisted = [each.persist() for each in collections_of_each_kind()]
    future = installed.submit(increment, 1)
    for collection in persisted:
        assert installed.wait(collection).done == set(futures_of(collection)) != set()
    done, unfinished = installed.wait([future, *persisted])
    assert done == {future, *futures_of(*persisted)} and not unfinished
    assert futures_of(persisted[0] + 1) == futures_of(persisted[0])


def test_nothing_waits_for_what_is_not_persisted(installed: Client) -> None:
    for collection in collections_of_each_kind():
        assert not futures_of(collection)
        with pytest.raises(TypeError, match=f"{type(collection).__name__} that is not persisted"):
            installed.wait(collection)


@MIXES
def test_gather_computes_collections(client: Client) -> None:
    numbers, data, total, items, call = collections_of_each_kind()
    (persisted,) = client.persist([numbers])
    nested = {
        "both": [persisted, numbers + 1],
        "call": (call, client.submit(increment, 1)),
        "rest": [total, items, data],
    }
    found = client.gather(nested)
    assert [values.tolist() for values in found["both"]] == [[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6]]
    assert found["call"] == (6, 2) and found["rest"][:2] == [6, [0, 1, 2, 3, 4, 5]]
    assert found["rest"][2].value.tolist() == [1, 2, 3]


@MIXES
def test_collections_of_different_types_keep_their_order(client: Client) -> None:
    """Dask alone would give the values of the two calls first."""
    numbers, data, *_, call = collections_of_each_kind()
    mixed = [call, numbers, dask.delayed(increment)(1), data, dask.delayed(increment)(2)]
    for values in (client.gather(mixed), client.compute(mixed, sync=True), client.gather(client.persist(mixed))):
        assert [type(value).__name__ for value in values] == ["int", "ndarray", "int", "DataFrame", "int"]
        assert (values[0], values[2], values[4]) == (6, 2, 3)


def test_a_collection_in_a_result_stays(client: Client) -> None:
    assert dask.is_dask_collection(client.gather([client.submit(dask.delayed, 5)])[0])


@pytest.mark.parametrize("scheduler", ["threads", "sync"])
def test_schedulers_of_dask_compute_with_persisted_values(installed: Client, scheduler: str) -> None:
    for collection in collections_of_each_kind():
        expected, found = (each.compute(scheduler=scheduler) for each in (collection, installed.persist(collection)))
        assert type(found) is type(expected) and str(found) == str(expected)
    persisted = array.ones((4, 4), chunks=2).persist()
    assert (persisted + 1).rechunk(4).sum().compute(scheduler=scheduler) == 32


def test_persist_one_collection(client: Client) -> None:
    persisted = client.persist(array.ones((4, 4), chunks=2))
    assert values_in(persisted) == {ScalerFuture}
    assert persisted.sum().compute(scheduler=client) == 16


@NEEDS_VALUES_ASSEMBLED_IN_TASKS
def test_compute_gives_futures_of_whole_values(client: Client) -> None:
    numbers, data, total, items, call = collections_of_each_kind()
    future = client.compute(numbers)
    assert isinstance(future, ScalerFuture) and future.result().tolist() == [0, 1, 2, 3, 4, 5]
    assert client.gather(client.compute([total, data.key.max()])) == [6, 2]
    assert client.compute([items, call, 5], sync=True) == [[0, 1, 2, 3, 4, 5], 6, 5]
    persisted = client.persist(numbers)
    assert client.compute(persisted.sum(), sync=True) == 15


def test_a_failure_within_a_persisted_collection(installed: Client) -> None:
    persisted = dask.delayed(increment)(dask.delayed(operator.truediv)(1, 0)).persist()
    with pytest.raises(ZeroDivisionError):
        dask.delayed(increment)(persisted).compute()


def test_tracebacks_leave_out_the_frames_of_dask_and_of_the_client(installed: Client) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        dask.delayed(operator.truediv)(1, 0).compute()
    files = [frame.filename for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert not [name for name in files[1:-1] if "scaler/client" in name or "dask/local" in name]


def test_callbacks_observe_what_uses_persisted_values(installed: Client) -> None:
    from dask.callbacks import Callback

    seen: list[Any] = []
    persisted = array.ones(20, chunks=5).persist()
    with Callback(posttask=lambda key, *_: seen.append(key)):
        assert (persisted + 1).sum().compute() == 40
    assert len(seen) >= 4


# ---- annotations -----------------------------------------------------------------------------------------------------


def test_annotations_become_options(installed: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    from scaler.client import graph_calls

    found = []
    original = graph_calls.shape_of
    monkeypatch.setattr(graph_calls, "shape_of", lambda *call: found.append(call[3]) or original(*call))
    with dask.annotate(priority=7, retries=2):
        annotated = dask.delayed(increment)(1)
    assert dask.delayed(increment)(annotated).compute(optimize_graph=False) == 3
    assert sorted((options.priority, options.retries) for options in found) == [(0, 0), (7, 2)]


def test_resources_are_capabilities(installed: Client) -> None:
    with dask.annotate(resources={"unheard-of": 1}):
        impossible = dask.delayed(increment)(1)
    persisted = impossible.persist(optimize_graph=False)
    (future,) = futures_of(persisted)
    assert not future.done()
    assert future.cancel()


def test_an_annotation_without_a_meaning_warns(installed: Client) -> None:
    with dask.annotate(workers=["somewhere"]):
        annotated = dask.delayed(increment)(1)
    with pytest.warns(UserWarning, match="Annotate resources instead") as warned:
        assert annotated.compute(optimize_graph=False) == 2
        annotated.persist(optimize_graph=False)
        assert dask.compute(annotated, optimize_graph=False) == (2,)
        installed.persist([annotated], optimize_graph=False)
    assert [warning.filename for warning in warned] == 4 * [__file__]  # and not that of a library


@pytest.mark.parametrize("annotation", [{"priority": 1.5}, {"retries": -1}, {"resources": {"gpu": -2}}])
def test_annotations_that_make_no_sense(installed: Client, annotation: dict[str, Any]) -> None:
    with dask.annotate(**annotation):
        annotated = dask.delayed(increment)(1)
    with pytest.raises((TypeError, ValueError), match=next(iter(annotation)).rstrip("s")[:6] + "|amount"):
        annotated.compute(optimize_graph=False)


# ---- futures in plain graphs -----------------------------------------------------------------------------------------


def test_futures_are_data_of_plain_graphs(client: Client) -> None:
    future = client.submit(increment, 1)
    graph = {"a": future, "b": (increment, "a"), "nested": [future, 5], "c": (sum, "nested")}
    assert client.get(graph, ["a", "b", "c"]) == {"a": 2, "b": 3, "c": 7}


def test_a_failed_future_in_a_graph(client: Client) -> None:
    future = client.submit(operator.truediv, 1, 0)
    with pytest.raises(ZeroDivisionError) as raised:
        client.get({"a": future, "b": (increment, "a")}, ["b"])
    assert any("truediv" in note for note in raised.value.__notes__)


def test_a_closed_client_computes_nothing(combo: SchedulerClusterCombo) -> None:
    other = Client(combo.get_address())
    with install(other):
        other.disconnect()
        for compute in (array.ones(4, chunks=2).sum().compute, array.ones(4, chunks=2).persist):
            with pytest.raises(ClientQuitException, match="stopped"):
                compute()
