"""``Client.get`` on real clusters."""

from __future__ import annotations

import concurrent.futures
import functools
import graphlib
import operator
import os
import pickle
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from scaler import Client, SchedulerClusterCombo, Serializer
from scaler.utility.exceptions import (
    MissingObjects,
    ProcessorDiedError,
    ScalerError,
    TaskExceptionNotSerializableError,
)
from tests.cluster.conftest import Gate
from tests.support import functions
from tests.support.functions import fail, increment, total
from tests.support.waiting import wait_until

KILOBYTE = 1000


def bytes_of(size: int) -> bytes:
    return os.urandom(size)


def lengths(*values: bytes) -> int:
    return sum(map(len, values))


def killed(value: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)
    return value


def unpicklable(value: Any) -> Any:
    return threading.Lock()


def note(folder: str, *values: Any) -> str:
    """Leaves a file for each run."""
    with open(os.path.join(folder, f"{time.monotonic_ns()}-{os.getpid()}"), "w") as file:
        file.write("ran")
    return folder


class Unloadable:
    def __reduce__(self) -> Any:
        return fail, ("loading",)


def unloadable(value: Any) -> Any:
    return Unloadable()


GRAPH = {
    "a": 2,
    "b": 3,
    "sum": (operator.add, "a", "b"),
    "square": (operator.mul, "sum", "sum"),
    "next": (increment, "square"),
}


def chain(length: int, function: Any = increment) -> dict[str, Any]:
    return {"n0": 0} | {f"n{index}": (function, f"n{index - 1}") for index in range(1, length + 1)}


def tree(leaves: int) -> tuple[dict[str, Any], str]:
    graph: dict[str, Any] = {}
    names = []
    for index in range(leaves):
        graph[f"d{index}"] = index
        graph[f"l{index}"] = (increment, f"d{index}")
        names.append(f"l{index}")
    level = 0
    while len(names) > 1:
        level += 1
        above = []
        for index in range(0, len(names), 2):
            graph[f"t{level}-{index}"] = (total, *names[index : index + 2])
            above.append(f"t{level}-{index}")
        names = above
    return graph, names[0]


def layers(count: int, width: int, needs: int) -> tuple[dict[str, Any], list[str], dict[str, int]]:
    chance = random.Random(1)
    graph: dict[str, Any] = {f"0-{index}": index for index in range(width)}
    expected = {f"0-{index}": index for index in range(width)}
    for layer in range(1, count + 1):
        for index in range(width):
            below = [f"{layer - 1}-{number}" for number in chance.choices(range(width), k=needs)]
            graph[f"{layer}-{index}"] = (max, *below)
            expected[f"{layer}-{index}"] = max(expected[name] for name in below)
    keys = [f"{count}-{index}" for index in range(width)]
    return graph, keys, {key: expected[key] for key in keys}


# ---- results --------------------------------------------------------------------------------------------------------


def test_results_in_the_order_of_the_keys(client: Client) -> None:
    result = client.get(GRAPH, ["next", "sum", "a"])
    assert list(result.items()) == [("next", 26), ("sum", 5), ("a", 2)]
    assert client.get(GRAPH, []) == {}


def test_futures(client: Client) -> None:
    futures = client.get(GRAPH, ["next", "a", "square"], block=False)
    done, _ = concurrent.futures.wait(futures.values(), timeout=60)
    assert len(done) == 3
    assert {key: future.result() for key, future in futures.items()} == {"next": 26, "a": 2, "square": 25}


def test_culled(client: Client, tmp_path: Path) -> None:
    graph = {"folder": str(tmp_path), "one": (note, "folder"), "other": (note, "folder")}
    graph["two"] = (note, "folder", "one")
    assert client.get(graph, ["one"]) == {"one": str(tmp_path)}
    assert len(list(tmp_path.iterdir())) == 1


def test_a_dependency_used_twice(client: Client) -> None:
    graph = {"x": 3, "double": (operator.add, "x", "x"), "all": (total, "double", "double", "x", "double")}
    assert client.get(graph, ["all", "double"]) == {"all": 21, "double": 6}


def test_functions_of_every_kind(client: Client) -> None:
    factor = 3
    graph = {
        "x": 5,
        "partial": (functools.partial(operator.mul, 2), "x"),
        "lambda": (lambda value: value * factor, "partial"),
        "text": (str, "lambda"),
        "nothing": (dict,),
    }
    assert client.get(graph, ["text", "nothing"]) == {"text": "30", "nothing": {}}


def test_references(client: Client) -> None:
    reference = client.send_object(list(range(100_000)), name="numbers")
    graph = {"numbers": reference, "length": (len, "numbers"), "sum": (sum, "numbers")}
    graph["both"] = (total, "length", "sum")
    assert client.get(graph, ["both", "length"]) == {"both": 4_999_950_000 + 100_000, "length": 100_000}
    assert client.get(graph, ["numbers"])["numbers"] == list(range(100_000))


def test_shared_data_of_every_size(client: Client) -> None:
    graph: dict[str, Any] = {f"d{size}": bytes(size) for size in (10, 5_000, 40_000, 3_000_000)}
    graph |= {f"n{name}-{copy}": (len, name) for name in list(graph) for copy in range(5)}
    keys = [key for key in graph if key.startswith("n")]
    assert client.get(graph, keys) == {key: int(key[2:].split("-")[0]) for key in keys}


def test_intermediate_results_of_every_size(client: Client) -> None:
    for size in (0, 100, 5_000, 40_000, 3_000_000):
        graph: dict[str, Any] = {"size": size}
        graph |= {f"made{index}": (bytes_of, "size") for index in range(6)}
        graph["all"] = (lengths, *(f"made{index}" for index in range(6)), "made0")
        assert client.get(graph, ["all"]) == {"all": 7 * size}, size


def test_large_targets_that_others_need(client: Client) -> None:
    graph = {"size": 2_000_000, "made": (bytes_of, "size"), "length": (len, "made"), "again": (increment, "length")}
    result = client.get(graph, ["made", "again"])
    assert len(result["made"]) == 2_000_000 and result["again"] == 2_000_001


def test_many_large_targets(client: Client) -> None:
    graph: dict[str, Any] = {"size": 300_000} | {f"made{index}": (bytes_of, "size") for index in range(30)}
    keys = [key for key in graph if key != "size"]
    assert [len(value) for value in client.get(graph, keys).values()] == [300_000] * 30


class Pickled(Serializer):
    @staticmethod
    def serialize(obj: Any) -> bytes:
        return b"own" + cloudpickle.dumps(obj)

    @staticmethod
    def deserialize(payload: bytes) -> Any:
        assert type(payload) is bytes and payload.startswith(b"own")
        return pickle.loads(payload[3:])


def test_a_serializer_of_one_s_own(combo: SchedulerClusterCombo) -> None:
    graph = GRAPH | {"size": 200_000, "made": (bytes_of, "size"), "length": (len, "made")}
    with Client(combo.get_address(), serializer=Pickled()) as client:
        assert client.get(graph, ["next", "length"]) == {"next": 26, "length": 200_000}
        assert len(client.get(graph, ["made"])["made"]) == 200_000


def test_a_large_target_may_be_dropped_or_fetched_late(client: Client) -> None:
    graph = {"size": 2_000_000, "made": (bytes_of, "size"), "length": (len, "made")}
    futures = client.get(graph, ["made", "length"], block=False)
    assert futures["length"].result(60) == 2_000_000
    assert len(futures["made"].result(60)) == 2_000_000
    futures = client.get(graph, ["made", "length"], block=False)
    assert futures.pop("length").result(60) == 2_000_000
    futures.clear()
    assert client.get(GRAPH, ["sum"]) == {"sum": 5}


def test_a_call_with_very_many_arguments(client: Client) -> None:
    graph: dict[str, Any] = {f"d{index}": index for index in range(20_000)}
    graph |= {f"c{index}": (increment, f"d{index}") for index in range(20_000)}
    graph["all"] = (total, *(f"c{index}" for index in range(20_000)))
    assert client.get(graph, ["all"]) == {"all": sum(range(1, 20_001))}


def test_tree(client: Client) -> None:
    graph, top = tree(4096)
    assert client.get(graph, [top]) == {top: sum(range(1, 4097))}


def test_layers(client: Client) -> None:
    graph, keys, expected = layers(20, 200, 3)
    assert client.get(graph, keys) == expected


def test_chain(client: Client) -> None:
    assert client.get(chain(1000), ["n1000", "n500"]) == {"n1000": 1000, "n500": 500}


def test_every_node_may_be_asked_for(client: Client) -> None:
    graph = chain(2000)
    assert client.get(graph, list(graph)) == {f"n{index}": index for index in range(2001)}


def test_random_graphs(client: Client) -> None:
    chance = random.Random(3)
    for _ in range(30):
        graph: dict[str, Any] = {}
        expected: dict[str, int] = {}
        for index in range(chance.randrange(1, 300)):
            name = f"n{index}"
            if index == 0 or chance.random() < 0.2:
                graph[name] = expected[name] = chance.randrange(1000)
            else:
                needed = chance.choices(list(expected)[-chance.choice([3, 300]) :], k=chance.randrange(5))
                expected[name] = sum(expected[item] for item in needed) % 1_000_003
                graph[name] = (functools.partial(total_modulo, 1_000_003), *needed)
        keys = chance.sample(list(graph), chance.randrange(1, len(graph) + 1))
        assert client.get(graph, keys) == {key: expected[key] for key in keys}


def total_modulo(modulus: int, *values: int) -> int:
    return sum(values) % modulus


def test_many_graphs_at_once(client: Client) -> None:
    futures = [client.get(chain(50) | {"n0": number}, ["n50"], block=False)["n50"] for number in range(40)]
    assert [future.result(60) for future in futures] == [number + 50 for number in range(40)]


def test_graphs_and_submits_in_several_threads(client: Client) -> None:
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(5):
                assert client.get(chain(100), ["n100"]) == {"n100": 100}
                assert client.submit(increment, number + turn).result(60) == number + turn + 1
                assert client.map(increment, range(50)) == list(range(1, 51))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    assert not errors


def test_capabilities(client: Client) -> None:
    future = client.get(GRAPH, ["next"], block=False, capabilities={"flux capacitor": 1})["next"]
    assert client.get(GRAPH, ["next"]) == {"next": 26}
    assert not future.done() and client.explain(future)
    assert future.cancel()


def test_profiling(client: Client) -> None:
    future = client.get({"t": 0.05, "x": (time.sleep, "t")}, ["x"], block=False)["x"]
    assert future.result(60) is None and future.profiling_info().duration_s >= 0.04


# ---- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graph", "keys", "error"),
    [
        (GRAPH, ["sum", "sum"], KeyError),
        (GRAPH, ["nowhere"], KeyError),
        ({"a": (increment, "b")}, ["a"], KeyError),
        ({"a": (increment, 1)}, ["a"], TypeError),
        ({"a": (increment, "b"), "b": (increment, "a")}, ["a"], graphlib.CycleError),
    ],
)
def test_bad_graphs(client: Client, graph: Any, keys: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        client.get(graph, keys)
    assert client.get(GRAPH, ["sum"]) == {"sum": 5}


def test_cleared_and_foreign_references(combo: SchedulerClusterCombo, client: Client) -> None:
    reference = client.send_object([1])
    with Client(combo.get_address()) as other, pytest.raises(MissingObjects):
        other.get({"r": reference, "x": (len, "r")}, ["x"])
    client.clear()
    with pytest.raises(MissingObjects):
        client.get({"r": reference, "x": (len, "r")}, ["x"])
    assert client.get(GRAPH, ["sum"]) == {"sum": 5}


# ---- failures -------------------------------------------------------------------------------------------------------


def test_a_failing_node(client: Client) -> None:
    graph = {"x": 1, "ok": (increment, "x"), "bad": (fail, "ok"), "after": (increment, "bad")}
    graph["end"] = (increment, "after")
    with pytest.raises(ValueError, match="no 2") as info:
        client.get(graph, ["end"])
    assert "in fail" in str(info.value.__cause__)
    futures = client.get(graph, ["end", "after", "bad"], block=False)
    errors = [future.exception(60) for future in futures.values()]
    assert isinstance(errors[0], ValueError) and errors[0] is errors[1] is errors[2]
    assert client.get(graph, ["ok"]) == {"ok": 2}


def test_a_failure_ends_what_does_not_depend_on_it(client: Client, tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    graph = {"started": gate.paths[0], "gate": gate.paths[1], "x": 1, "bad": (fail, "x")}
    graph["slow"] = (functions.wait_at_gate, "started", "gate")
    futures = client.get(graph, ["slow", "bad"], block=False)
    with pytest.raises(ValueError, match="no 1"):
        futures["slow"].result(60)
    assert [client.submit(increment, 1).result(60) for _ in range(4)] == [2] * 4


def test_a_node_that_kills_its_process(client: Client) -> None:
    graph = {"x": 1, "ok": (increment, "x"), "bad": (killed, "ok"), "end": (increment, "bad")}
    with pytest.raises(ProcessorDiedError):
        client.get(graph, ["end"])
    assert client.get(GRAPH, ["next"]) == {"next": 26}


@pytest.mark.parametrize("function", [unpicklable, unloadable])
@pytest.mark.parametrize("inner", [False, True])
def test_a_node_whose_result_does_not_travel(client: Client, function: Any, inner: bool) -> None:
    graph = {"x": 1, "bad": (function, "x"), "end": (id, "bad")}
    expected = (TypeError, ValueError, ScalerError, TaskExceptionNotSerializableError)
    with pytest.raises(expected):
        client.get(graph, ["end" if inner else "bad"])
    assert client.get(GRAPH, ["next"]) == {"next": 26}


def test_a_worker_killed_while_a_graph_runs(client: Client) -> None:
    graph: dict[str, Any] = {"t": 0.002}
    graph |= {f"p{index}": (pid_after, "t") for index in range(100)}
    graph |= {f"q{index}": (second_of, "t", f"p{index}") for index in range(100)}
    graph["all"] = (lambda *values: values, *(f"q{index}" for index in range(100)))
    futures = client.get(graph, ["all"], block=False)
    victim = client.submit(os.getpid).result(60)
    os.kill(victim, signal.SIGKILL)
    assert len(futures["all"].result(60)) == 100


def pid_after(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def second_of(first: Any, second: Any) -> Any:
    return second


# ---- cancelling -----------------------------------------------------------------------------------------------------


def test_cancel_while_it_runs(client: Client, tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    graph: dict[str, Any] = {"started": gate.paths[0], "gate": gate.paths[1]}
    graph["first"] = (functions.wait_at_gate, "started", "gate")
    graph |= {f"n{index}": (second_of, "started", f"n{index - 1}" if index else "first") for index in range(100)}
    futures = client.get(graph, ["n99", "n3", "gate"], block=False)
    wait_until(gate.started.exists)
    assert futures["n3"].cancel() and futures["n99"].cancelled() and not futures["gate"].cancelled()
    assert [client.submit(increment, 1).result(60) for _ in range(4)] == [2] * 4
    with pytest.raises(concurrent.futures.CancelledError):
        futures["n99"].result()


def test_cancel_at_once(client: Client) -> None:
    for length in (1, 10, 5000):
        future = client.get(chain(length), [f"n{length}"], block=False)[f"n{length}"]
        assert future.cancel() or future.result() == length
    assert client.get(GRAPH, ["sum"]) == {"sum": 5}


def test_cancel_after_the_end(client: Client) -> None:
    futures = client.get(GRAPH, ["next"], block=False)
    assert futures["next"].result(60) == 26 and not futures["next"].cancel()


def test_clear(client: Client) -> None:
    future = client.get({"t": 30, "x": (time.sleep, "t"), "y": (str, "x")}, ["y"], block=False)["y"]
    client.clear()
    assert future.cancelled() and client.get(GRAPH, ["sum"]) == {"sum": 5}


# ---- inside a task --------------------------------------------------------------------------------------------------


def graph_in_a_task(client: Client, depth: int) -> int:
    graph: dict[str, Any] = {"x": depth, "client": client, "less": depth - 1}
    if depth:
        graph["inner"] = (graph_in_a_task, "client", "less")
        graph["y"] = (operator.add, "x", "inner")
    else:
        graph["y"] = (increment, "x")
    return int(client.get(graph, ["y"])["y"])


def test_graphs_inside_tasks_on_one_worker(single_client: Client) -> None:
    assert single_client.submit(graph_in_a_task, single_client, 4).result(60) == 1 + 1 + 2 + 3 + 4
    graph = {"client": single_client, "depth": 2, "y": (graph_in_a_task, "client", "depth"), "z": (increment, "y")}
    assert single_client.get(graph, ["z"]) == {"z": 5}


# ---- Dask -----------------------------------------------------------------------------------------------------------


def test_dask(client: Client) -> None:
    dask = pytest.importorskip("dask")
    doubled = [dask.delayed(operator.mul)(index, 2) for index in range(100)]
    assert dask.compute(dask.delayed(sum)(doubled), doubled[3], scheduler=client) == (9900, 6)
    assert dask.compute(dask.delayed(sum)(doubled), scheduler=client.get) == (9900,)


def test_dask_bag(client: Client) -> None:
    bag = pytest.importorskip("dask.bag")
    words = bag.from_sequence(["the", "cat", "and", "the", "dog", "and", "the", "bird"], npartitions=3)
    assert dict(words.frequencies().compute(scheduler=client)) == {"the": 3, "cat": 1, "and": 2, "dog": 1, "bird": 1}


def test_dask_array(client: Client) -> None:
    array, numpy = pytest.importorskip("dask.array"), pytest.importorskip("numpy")
    plain = numpy.arange(250_000, dtype=float).reshape(500, 500)
    chunked = array.from_array(plain, chunks=(120, 200))
    numpy.testing.assert_allclose((chunked @ chunked.T + 1).compute(scheduler=client), plain @ plain.T + 1)
    assert chunked.std().compute(scheduler=client) == pytest.approx(plain.std())


def test_dask_dataframe(client: Client) -> None:
    dataframe, pandas = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    plain = pandas.DataFrame({"key": [index % 5 for index in range(1000)], "value": range(1000)})
    parts = dataframe.from_pandas(plain, npartitions=8)
    got = parts.groupby("key").value.sum().compute(scheduler=client).sort_index()
    assert got.tolist() == plain.groupby("key").value.sum().tolist()
    pandas.testing.assert_frame_equal(parts.compute(scheduler=client), plain)


# ---- speed: nowhere near what it reaches on a quiet machine, but far above one message per node


@pytest.mark.parametrize("shape", ["tree", "layers", "chain"])
def test_thousands_of_nodes_a_second(client: Client, shape: str) -> None:
    graph, keys = {
        "tree": lambda: (tree(4096)[0], [tree(4096)[1]]),
        "layers": lambda: layers(20, 200, 3)[:2],
        "chain": lambda: (chain(1000), ["n1000"]),
    }[shape]()
    nodes = sum(isinstance(node, tuple) for node in graph.values())

    def nodes_per_second() -> float:
        started = time.monotonic()
        client.get(graph, keys)
        return nodes / (time.monotonic() - started)

    assert any(nodes_per_second() > 1000 for _ in range(20))
