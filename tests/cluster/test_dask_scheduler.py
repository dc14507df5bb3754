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

from scaler.integrations.dask import install  # noqa: E402


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
        assert not next(iter(following.dask.values())).done()
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
    (future,) = persisted.dask.values()
    assert not future.done()
    assert future.cancel()


def test_an_annotation_without_a_meaning_warns(installed: Client) -> None:
    with dask.annotate(workers=["somewhere"]):
        annotated = dask.delayed(increment)(1)
    with pytest.warns(UserWarning, match="Annotate resources instead"):
        assert annotated.compute(optimize_graph=False) == 2


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
