"""Dask's dialect of ``Client.get``: what ``dask.compute(..., scheduler=client)`` hands over."""

from __future__ import annotations

import graphlib
import io
import operator
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from scaler import Client, ScalerFuture
from tests.support.functions import fail, increment
from tests.support.waiting import wait_until
from tests.unit.client.graph_scheduler import GraphScheduler

dask = pytest.importorskip("dask")
pytest.importorskip("dask.callbacks")
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


def test_nested_values_are_tuples_that_equal_lists(client: Client) -> None:
    graph = {("x", 0): 1, ("x", 1): (increment, ("x", 0))}
    values = client.get(graph, [[("x", 0), ("x", 1)], [("x", 1)], ("x", 0)])
    assert values == [[1, 2], [2], 1] == values and values == ((1, 2), (2,), 1)
    assert values != [[1, 2], [3], 1] and values != ((1, 2), (2,)) and values != [1]
    assert isinstance(values, tuple) and isinstance(values[0], tuple)
    assert hash(values) == hash(((1, 2), (2,), 1)) and {values[1]: 1} == {(2,): 1}
    assert type(pickle.loads(pickle.dumps(values))) is tuple
    assert client.get(graph, [[]]) == [[]]


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
    assert client._client_io.session.objects._next_private_number == 2**64 - 2


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


# ---- callbacks ---------------------------------------------------------------------------------------------------


class Witness(dask.callbacks.Callback):  # type: ignore[misc]
    """Writes down what it is told, and that the state is one that Dask's schedulers could be in."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []
        self.values: dict[Any, Any] = {}
        self.released: set[Any] = set()

    def _start(self, graph: dict[Any, Any]) -> None:
        self.events.append(("start", frozenset(graph)))

    def _start_state(self, graph: dict[Any, Any], state: dict[str, Any]) -> None:
        self.total = sum(len(state[name]) for name in ("ready", "waiting"))
        self.events.append(("start_state", self.total))

    def _pretask(self, key: Any, graph: dict[Any, Any], state: dict[str, Any]) -> None:
        assert key in state["running"] and state["dependencies"][key] <= state["finished"] | state["cache"].keys()
        self.events.append(("pretask", key))
        self._count(state)

    def _posttask(self, key: Any, value: Any, graph: dict[Any, Any], state: dict[str, Any], worker: Any) -> None:
        assert key in state["finished"] and key not in state["running"] and key in graph
        self.events.append(("posttask", key))
        self.values[key] = value
        self.released = set(state["released"])
        self._count(state)

    def _finish(self, graph: dict[Any, Any], state: dict[str, Any], failed: bool) -> None:
        self.events.append(("finish", failed))

    def _count(self, state: dict[str, Any]) -> None:
        assert sum(len(state[name]) for name in ("ready", "waiting", "running", "finished")) == self.total


GRAPHS: list[tuple[dict[Any, Any], Any]] = [
    ({"x": 1, "y": (increment, "x"), "z": (operator.add, "y", "x")}, "z"),
    ({"x": 1, "y": (increment, "x"), "z": (operator.add, "y", "x"), "other": (increment, "x")}, ["z", ["y", "x"]]),
    ({"x": 1, "same": "x", "y": (increment, "same"), "as": "y", "also": "as"}, [["also"], "y"]),
    ({("a", 0): 1, ("b", ("c", 0)): (increment, ("a", 0)), "d": [("b", ("c", 0)), ("a", 0)]}, "d"),
    ({"a": (sum, [(increment, 1), (increment, 2)]), "b": (increment, "a"), "c": (increment, "a")}, [["b"], "c"]),
    ({"x": 5}, "x"),
    ({("x", at): (increment, ("x", at - 1)) if at else 7 for at in range(50)}, ("x", 49)),
]


@pytest.mark.parametrize(("graph", "keys"), GRAPHS, ids=range(len(GRAPHS)))
def test_callbacks_are_told_what_dask_s_own_schedulers_tell(client: Client, graph: dict[Any, Any], keys: Any) -> None:
    ours, theirs = Witness(), Witness()
    with theirs:
        expected = dask.get(dict(graph), keys)
    with ours:
        assert _as_tuples(client.get(dict(graph), keys)) == _as_tuples(expected)
    assert sorted(map(str, ours.events)) == sorted(map(str, theirs.events))
    assert ours.values == theirs.values and ours.released == theirs.released
    for key in ours.values:
        assert ours.events.index(("pretask", key)) < ours.events.index(("posttask", key))


def _as_tuples(values: Any) -> Any:
    return tuple(map(_as_tuples, values)) if isinstance(values, (list, tuple)) else values


def test_callbacks_of_one_call(client: Client) -> None:
    witness, other = Witness(), Witness()
    with other:
        assert dask.delayed(increment)(1).compute(scheduler=client, callbacks=[witness._callback]) == 2
    assert ("finish", False) in witness.events and not other.events


def test_callbacks_of_a_graph_that_fails(client: Client) -> None:
    witness = Witness()
    graph = {"a": (increment, 1), "b": (fail, "a"), "c": (increment, "b"), "d": (increment, "c")}
    with witness, pytest.raises(ValueError, match="no 2"):
        client.get(graph, "d")
    assert ("finish", True) in witness.events and "b" not in witness.values
    with witness, pytest.raises(KeyError, match="'nowhere' is not in the graph"):
        client.get(graph, ["nowhere", ["d"]])
    assert witness.events[-1] == ("finish", True)


def test_a_callback_that_fails_ends_the_graph(client: Client, scheduler: GraphScheduler) -> None:
    def give_up(key: Any, value: Any, *_: Any) -> None:
        raise LookupError(key)

    finished: list[bool] = []
    callback = dask.callbacks.Callback(posttask=give_up, finish=lambda graph, state, failed: finished.append(failed))
    with callback, pytest.raises(LookupError):
        client.get({"a": (increment, 1), "b": (increment, "a"), "c": (increment, "b")}, "c")
    assert finished == [True]
    assert client.get({"a": (increment, 1)}, "a") == 2


def test_a_callback_may_put_values_in_place_of_tasks(client: Client) -> None:
    """As ``dask.cache.Cache`` does."""
    callback = dask.callbacks.Callback(start=lambda graph: graph.update(b=100))
    with callback:
        assert client.get({"a": (fail, 1), "b": (increment, "a"), "c": (increment, "b")}, "c") == 101


def test_a_graph_within_a_callback_is_not_observed(client: Client) -> None:
    witness = Witness()

    def compute_something(*_: Any) -> None:
        assert client.get({"x": (increment, 1)}, "x") == 2

    with witness, dask.callbacks.Callback(pretask=compute_something):
        assert client.get({"y": (increment, 2)}, "y") == 3
    assert [key for kind, key in witness.events if kind == "posttask"] == ["y"]


def test_futures_are_not_observed(client: Client) -> None:
    witness = Witness()
    with witness:
        assert client.get({"y": (increment, 2)}, "y", block=False).result(10) == 3
    assert not witness.events


def test_diagnostics(client: Client) -> None:
    diagnostics = pytest.importorskip("dask.diagnostics")
    output = io.StringIO()
    bar, profiler, cache = diagnostics.ProgressBar(out=output), diagnostics.Profiler(), diagnostics.CacheProfiler()
    total = dask.delayed(sum)([dask.delayed(increment)(index) for index in range(20)])
    with bar, profiler, cache:
        assert total.compute(scheduler=client) == 210
    assert "100% Completed" in output.getvalue() and bar.last_duration > 0
    assert len(profiler.results) == len(cache.results) == 21
    assert all(result.start_time <= result.end_time for result in profiler.results)


def test_the_resource_profiler_measures_this_process(client: Client) -> None:
    diagnostics = pytest.importorskip("dask.diagnostics")
    pytest.importorskip("psutil")
    with diagnostics.ResourceProfiler(dt=0.01) as profiler:
        assert dask.delayed(increment)(1).compute(scheduler=client) == 2
        wait_until(lambda: profiler._tracker is not None)
    profiler.close()
    assert profiler.results


def test_a_large_graph_is_observed_in_time_proportional_to_it(client: Client) -> None:
    witness = Witness()
    witness._count = lambda state: None  # type: ignore[method-assign]
    graph: dict[Any, Any] = {("x", index): (increment, index) for index in range(3000)}
    graph["total"] = (sum, list(graph))
    with witness:
        assert client.get(graph, "total") == sum(range(3001))
    assert len(witness.values) == 3001
