"""Dask's dialect of ``Client.get``: what ``dask.compute(..., scheduler=client)`` hands over."""

from __future__ import annotations

import graphlib
import operator
from collections.abc import Iterator
from typing import Any

import pytest

from scaler import Client, ScalerFuture
from tests.support.functions import fail, increment
from tests.unit.client.graph_scheduler import GraphScheduler

dask = pytest.importorskip("dask")
task_spec = pytest.importorskip("dask._task_spec")
Alias, DataNode, Task, TaskRef = task_spec.Alias, task_spec.DataNode, task_spec.Task, task_spec.TaskRef
List, Dict = task_spec.List, task_spec.Dict


@pytest.fixture
def scheduler() -> Iterator[GraphScheduler]:
    with GraphScheduler() as running:
        yield running


# ---- collections -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["client", "client.get"])
def test_delayed(client: Client, how: str) -> None:
    chosen = client if how == "client" else client.get
    delayed_increment, delayed_add = dask.delayed(increment), dask.delayed(operator.add)
    total = dask.delayed(sum)([delayed_increment(index) for index in range(20)])
    pair = {"total": total, "other": [delayed_add(total, 1), (delayed_add(1, y), 3) if (y := 2) else None]}
    assert dask.compute(total, scheduler=chosen) == (210,)
    assert dask.compute(pair, 5, scheduler=chosen) == ({"total": 210, "other": [211, (3, 3)]}, 5)
    assert total.compute(scheduler=chosen) == 210


def test_delayed_keywords_and_objects(client: Client) -> None:
    text = dask.delayed(int)("11", base=dask.delayed(increment)(1))
    assert text.compute(scheduler=client) == 3
    word = dask.delayed("a b c").split()
    assert word[1].compute(scheduler=client) == "b"
    nested = dask.delayed(lambda mapping: mapping)({"x": [text, {"y": word}], "z": {text}})
    assert nested.compute(scheduler=client) == {"x": [3, {"y": ["a", "b", "c"]}], "z": {3}}


def test_set_for_all(client: Client) -> None:
    with dask.config.set(scheduler=client):
        assert dask.delayed(increment)(1).compute() == 2
    with dask.config.set(scheduler=client.get):
        assert dask.delayed(increment)(1).compute() == 2


def test_persist(client: Client) -> None:
    value = dask.delayed(increment)(1).persist(scheduler=client)
    assert value.compute(scheduler=client) == 2


def test_unknown_options_are_accepted(client: Client) -> None:
    assert dask.compute(dask.delayed(increment)(1), scheduler=client, num_workers=4, pool=None, anything=1) == (2,)


def test_without_optimizing(client: Client) -> None:
    value = dask.delayed(increment)(dask.delayed(increment)(1))
    assert dask.compute(value, scheduler=client, optimize_graph=False) == (3,)


def test_bag(client: Client) -> None:
    bag = pytest.importorskip("dask.bag")
    numbers = bag.from_sequence(range(100), npartitions=7)
    even = numbers.map(lambda value: value * 3).filter(lambda value: value % 2 == 0)
    assert even.sum().compute(scheduler=client) == sum(value * 3 for value in range(100) if value * 3 % 2 == 0)
    assert sorted(even.compute(scheduler=client)) == [value * 3 for value in range(100) if value % 2 == 0]
    words = bag.from_sequence(["the", "cat", "and", "the", "dog", "and", "the", "bird"], npartitions=3)
    assert dict(words.frequencies().compute(scheduler=client)) == {"the": 3, "cat": 1, "and": 2, "dog": 1, "bird": 1}


def test_array(client: Client) -> None:
    numpy = pytest.importorskip("numpy")
    array = pytest.importorskip("dask.array")
    plain = numpy.arange(10_000, dtype=float).reshape(100, 100)
    chunked = array.from_array(plain, chunks=(30, 40))
    assert chunked.sum().compute(scheduler=client) == plain.sum()
    numpy.testing.assert_allclose((chunked @ chunked.T + 1).compute(scheduler=client), plain @ plain.T + 1)
    numpy.testing.assert_allclose(chunked.mean(axis=0).compute(scheduler=client), plain.mean(axis=0))
    numpy.testing.assert_array_equal(chunked[::3, ::-2].compute(scheduler=client), plain[::3, ::-2])
    random = array.random.default_rng(1).normal(size=(200, 200), chunks=100)
    assert abs(random.std().compute(scheduler=client) - 1) < 0.1
    values, vectors = dask.compute(chunked.max(), chunked.min(axis=1), scheduler=client)
    assert values == plain.max() and (vectors == plain.min(axis=1)).all()


def test_dataframe(client: Client) -> None:
    pandas = pytest.importorskip("pandas")
    dataframe = pytest.importorskip("dask.dataframe")
    plain = pandas.DataFrame({"key": [index % 5 for index in range(1000)], "value": range(1000)})
    parts = dataframe.from_pandas(plain, npartitions=8)
    with dask.config.set(scheduler=client):
        pandas.testing.assert_frame_equal(parts.compute(), plain)
        got = parts.groupby("key").value.sum().compute().sort_index()
        assert (got == plain.groupby("key").value.sum()).all()
        assert parts.value.mean().compute() == plain.value.mean()
        merged = parts.merge(parts.groupby("key").value.max().reset_index(), on="key").compute()
        expected = plain.merge(plain.groupby("key").value.max().reset_index(), on="key")
        assert merged.value_y.sum() == expected.value_y.sum()
        sorted_values = parts.sort_values("value", ascending=False).value.compute()
        assert sorted_values.tolist() == list(range(999, -1, -1))


# ---- graphs ------------------------------------------------------------------------------------------------------


def test_the_same_nesting_comes_back(client: Client) -> None:
    graph = {("x", 0): 1, ("x", 1): (increment, ("x", 0)), ("x", 2): (operator.add, ("x", 0), ("x", 1))}
    assert client.get(graph, ("x", 2)) == 3
    assert client.get(graph, [("x", 2)]) == [3]
    assert client.get(graph, [("x", 2), [("x", 0), [("x", 1)], []], ("x", 2)]) == [3, [1, [2], []], 3]
    assert client.get(graph, []) == []


def test_task_objects_under_string_keys(client: Client) -> None:
    graph = {"x": DataNode("x", 1), "y": Task("y", increment, TaskRef("x")), "z": Alias("z", "y")}
    assert client.get(graph, ["z", "x"]) == [2, 1]
    assert client.get(graph, "z") == 2


def test_a_string_key_alone_is_dask_s(client: Client) -> None:
    assert client.get({"x": 1, "y": (increment, "x"), "z": (operator.add, "y", 10)}, "z") == 12


def test_older_tuples(client: Client) -> None:
    graph = {
        "a": 1,
        ("b", 1): (sum, ["a", (increment, "a"), 7]),
        "c": [("b", 1), "a", "text"],
        4: (lambda mapping: mapping, {"value": "a", "more": 2}),
        "alias": ("b", 1),
    }
    assert client.get(graph, [("b", 1), "c", 4, "alias"]) == [10, [10, 1, "text"], {"value": "a", "more": 2}, 10]


def test_nested_tasks_and_containers(client: Client, scheduler: GraphScheduler) -> None:
    graph = {
        "x": DataNode("x", 1),
        "y": Task("y", sum, List(TaskRef("x"), Task(None, increment, TaskRef("x")), 5)),
        "z": Task("z", dict, Dict({"value": TaskRef("y")}), more=TaskRef("x")),
        "list": List(TaskRef("x"), TaskRef("y")),
    }
    assert client.get(graph, ["y", "z", "list"]) == [8, {"value": 8, "more": 1}, [1, 8]]
    assert scheduler.executed == 3


def test_keywords(client: Client) -> None:
    graph = {"base": DataNode("base", 2), "x": Task("x", int, "11", base=TaskRef("base"))}
    assert client.get(graph, ["x"]) == [3]


def test_fused_tasks_stay_one_task(client: Client, scheduler: GraphScheduler) -> None:
    tasks = [Task("a", increment, TaskRef("x")), Task("b", increment, TaskRef("a")), Task("c", fail, TaskRef("b"))]
    graph = {"x": DataNode("x", 1), "b": Task.fuse(*tasks[:2])}
    assert client.get(graph, ["b"]) == [3] and scheduler.executed == 1
    with pytest.raises(ValueError, match="no 3"):
        client.get({"x": DataNode("x", 1), "c": Task.fuse(*tasks)}, ["c"])


def test_functions_keep_their_names(client: Client, scheduler: GraphScheduler) -> None:
    graph = {"x": DataNode("x", 1), "y": Task("y", increment, TaskRef("x"))}
    client.get(graph, ["y"])
    assert [run.function_name for run in scheduler.runs()] == ["increment"]


def test_equal_literals_travel_as_one(client: Client) -> None:
    large = bytes(100_000)
    graph = {("x", index): Task(("x", index), len, large) for index in range(50)}
    assert client.get(graph, [("x", index) for index in range(50)]) == [100_000] * 50
    assert client._pump.session.objects._next_number == 2**64 - 2


def test_only_what_the_keys_need(client: Client, scheduler: GraphScheduler) -> None:
    graph = {"x": DataNode("x", 1), "y": Task("y", increment, TaskRef("x")), "bad": Task("bad", fail, TaskRef("gone"))}
    assert client.get(graph, ["y"]) == [2] and scheduler.executed == 1


def test_data_alone(client: Client) -> None:
    assert client.get({"x": DataNode("x", 1), "y": Alias("y", "x")}, [["y"], "x"]) == [[1], 1]


def test_without_block(client: Client) -> None:
    graph = {"x": DataNode("x", 1), "y": Task("y", increment, TaskRef("x"))}
    (inner,), again = client.get(graph, [["y"], "y"], block=False)
    assert isinstance(inner, ScalerFuture) and inner is again and inner.result(5) == 2


def test_bad_input(client: Client, scheduler: GraphScheduler) -> None:
    graph: dict[Any, Any] = {1: (increment, 2), 2: (increment, 1), 3: Task(3, increment, TaskRef("gone"))}
    graph |= {4: Alias(4, 5), 5: Alias(5, 4)}
    for key, error in ((1, graphlib.CycleError), (4, graphlib.CycleError), (3, KeyError), ("nowhere", KeyError)):
        with pytest.raises(error):
            client.get(graph, [key])
    with pytest.raises(TypeError, match="list"):
        client.get([1, 2], [0])
    assert not scheduler.runs()


def test_a_task_that_fails(client: Client) -> None:
    value = dask.delayed(increment)(dask.delayed(fail)(7))
    with pytest.raises(ValueError, match="no 7"):
        dask.compute(value, scheduler=client)
