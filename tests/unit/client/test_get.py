"""``Client.get`` in the plain dialect, against a scheduler in a thread that runs the tasks itself."""

from __future__ import annotations

import concurrent.futures
import functools
import gc
import graphlib
import inspect
import operator
import random
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from scaler import Client
from scaler.client import graphs
from scaler.client import graphs as graph_module
from scaler.utility.exceptions import ClientQuitException, DisconnectedError, MissingObjects
from scaler_protocol.codec import encode
from scaler_protocol.messages import MESSAGE_LIMIT_BYTES, Cancel, Envelope, ObjectChunk, ObjectKey, Tasks
from tests.support.functions import fail, increment, total
from tests.support.waiting import wait_until
from tests.unit.client.graph_scheduler import GraphScheduler


@pytest.fixture
def scheduler() -> Iterator[GraphScheduler]:
    with GraphScheduler() as running:
        yield running


GRAPH = {
    "a": 2,
    "b": 3,
    "sum": (operator.add, "a", "b"),
    "square": (operator.mul, "sum", "sum"),
    "next": (increment, "square"),
}


# ---- what comes back -------------------------------------------------------------------------------------------------


def test_results_are_in_the_order_of_the_keys(client: Client) -> None:
    for keys in (["next", "sum", "a"], ["a", "next"], ("sum",), ["b", "square", "next", "sum"]):
        result = client.get(GRAPH, keys)
        values = {"a": 2, "b": 3, "sum": 5, "square": 25, "next": 26}
        assert list(result.items()) == [(key, values[key]) for key in keys]


def test_any_iterable_of_keys(client: Client) -> None:
    assert client.get(GRAPH, iter(["sum"])) == {"sum": 5}
    assert client.get(GRAPH, dict.fromkeys(["sum", "a"]).keys()) == {"sum": 5, "a": 2}
    assert client.get(GRAPH, []) == {}


def test_without_block_there_are_futures(client: Client) -> None:
    futures = client.get(GRAPH, ["next", "a"], block=False)
    assert list(futures) == ["next", "a"]
    assert all(isinstance(future, concurrent.futures.Future) for future in futures.values())
    done, _ = concurrent.futures.wait(futures.values(), timeout=5)
    assert len(done) == 2 and futures["next"].result() == 26 and futures["a"].result() == 2
    assert futures["a"].done() and not futures["a"].cancel() and futures["a"].exception() is None
    assert futures["a"].profiling_info().duration_us == 0 and futures["next"].profiling_info().duration_us == 7


def test_futures_run_at_once(client: Client, scheduler: GraphScheduler) -> None:
    scheduler.hold.set()
    future = client.get(GRAPH, ["next"], block=False)["next"]
    assert future.running() and not future.done()
    scheduler.hold.clear()
    assert future.result(5) == 26 and future.done()


def test_the_signature_names_what_there_is() -> None:
    parameters = inspect.signature(Client.get).parameters
    assert list(parameters)[:5] == ["self", "graph", "keys", "block", "capabilities"]
    assert parameters["block"].default is True


def test_an_unknown_option_is_an_error_in_the_plain_dialect(client: Client) -> None:
    with pytest.raises(TypeError, match="num_workers"):
        client.get(GRAPH, ["sum"], num_workers=3)


# ---- nodes -----------------------------------------------------------------------------------------------------------


def test_only_a_tuple_that_begins_with_a_callable_is_a_call(client: Client) -> None:
    graph = {"empty": (), "pair": (1, 2), "list": [increment, "x"], "function": increment, "one": (dict,)}
    graph["all"] = (lambda *values: values, "empty", "pair", "list", "function", "one")
    result = client.get(graph, ["all", "pair", "one", "function"])
    assert result["all"] == ((), (1, 2), [increment, "x"], increment, {})
    assert result["pair"] == (1, 2) and result["one"] == {} and result["function"] is increment


def test_a_dependency_may_be_used_twice(client: Client) -> None:
    graph = {"x": 3, "double": (operator.add, "x", "x"), "all": (total, "double", "double", "x", "x", "double")}
    assert client.get(graph, ["all"]) == {"all": 24}


def test_culled_to_the_ancestors(client: Client, scheduler: GraphScheduler) -> None:
    graph: dict[str, Any] = {f"other{index}": (fail, "x") for index in range(100)}
    graph |= {"x": 1, "wrong": (increment, 17), "undefined": (increment, "nowhere"), "loop": (increment, "loop")}
    graph |= {"a": (increment, "x"), "b": (increment, "a")}
    assert client.get(graph, ["b"]) == {"b": 3}
    assert scheduler.executed == 2


def test_a_target_that_others_need(client: Client, scheduler: GraphScheduler) -> None:
    assert client.get(GRAPH, ["sum", "square", "next"]) == {"sum": 5, "square": 25, "next": 26}
    assert all(not run.options.intermediate for run in scheduler.runs())


def test_callables_of_every_kind(client: Client) -> None:
    factor = 3
    graph = {
        "x": 5,
        "partial": (functools.partial(operator.mul, 2), "x"),
        "lambda": (lambda value: value * factor, "partial"),
        "class": (str, "lambda"),
        "method": (" {} ".format, "class"),
    }
    assert client.get(graph, ["method", "lambda"]) == {"method": " 30 ", "lambda": 30}


def test_capabilities_hold_for_every_node(client: Client, scheduler: GraphScheduler) -> None:
    client.get(GRAPH, ["next"], capabilities={"gpu": 2})
    capabilities = {(item.name, item.amount) for run in scheduler.runs() for item in run.options.capabilities}
    assert capabilities == {("gpu", 2)} and all(run.options.capabilities for run in scheduler.runs())


# ---- data ------------------------------------------------------------------------------------------------------------


def test_references_are_data(client: Client) -> None:
    reference = client.send_object([1, 2, 3], name="list")
    graph = {"r": reference, "length": (len, "r"), "both": (operator.add, "r", "r")}
    assert client.get(graph, ["length", "both", "r"]) == {"length": 3, "both": [1, 2, 3, 1, 2, 3], "r": [1, 2, 3]}


def test_a_cleared_or_foreign_reference(client: Client, scheduler: GraphScheduler) -> None:
    reference = client.send_object([1])
    with Client(scheduler.address) as other, pytest.raises(MissingObjects):
        other.get({"r": reference, "x": (len, "r")}, ["x"])
    client.clear()
    with pytest.raises(MissingObjects):
        client.get({"r": reference, "x": (len, "r")}, ["x"])
    with pytest.raises(MissingObjects):
        client.get({"r": reference}, ["r"])
    assert not scheduler.runs()
    assert client.get(GRAPH, ["sum"]) == {"sum": 5}


def test_small_data_is_inline_and_large_data_travels_once(client: Client, scheduler: GraphScheduler) -> None:
    graph: dict[str, Any] = {"small": b"s" * 1000, "used once": b"o" * 20_000, "shared": b"t" * 20_000}
    graph["huge"] = b"h" * 1_000_000
    for index in range(20):
        graph[f"n{index}"] = (total, "a", "b", "c") if index < 0 else (lambda *parts: sum(map(len, parts)), "small")
    graph["once"] = (len, "used once")
    graph |= {f"s{index}": (len, "shared") for index in range(5)} | {f"h{index}": (len, "huge") for index in range(2)}
    keys = [key for key, node in graph.items() if isinstance(node, tuple)]
    result = client.get(graph, keys)
    assert result["n0"] == 1000 and result["once"] == result["s4"] == 20_000 and result["h1"] == 1_000_000
    uploads = {body.key for body in scheduler.seen if isinstance(body, ObjectChunk)}
    assert len(uploads) == 2
    wait_until(lambda: not client._client_io.session.objects.uploads)


def test_a_call_with_very_many_arguments(client: Client) -> None:
    graph: dict[str, Any] = {f"d{index}": index for index in range(10_000)}
    graph |= {f"c{index}": (increment, f"d{index}") for index in range(10_000)}
    graph["all"] = (total, *(f"c{index}" for index in range(10_000)), *(f"d{index}" for index in range(10_000)))
    graph["some"] = (increment, "all")
    expected = sum(range(10_000)) + sum(range(1, 10_001))
    assert client.get(graph, ["all", "some"]) == {"all": expected, "some": expected + 1}


def test_a_call_with_very_much_data(client: Client) -> None:
    graph: dict[str, Any] = {f"d{index}": bytes([index % 256]) * 3000 for index in range(1500)}
    graph["all"] = (lambda *parts: sum(map(len, parts)), *graph)
    assert client.get(graph, ["all"]) == {"all": 4_500_000}


# ---- bad input: nothing is sent ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graph", "keys", "error", "text"),
    [
        (GRAPH, ["sum", "sum"], KeyError, "twice"),
        (GRAPH, ["nowhere"], KeyError, "nowhere"),
        (GRAPH, ["sum", "nowhere"], KeyError, "nowhere"),
        (GRAPH, [1], KeyError, "1 is not in the graph"),
        (GRAPH, [("sum", 1)], KeyError, "not in the graph"),
        ({"a": (increment, None)}, ["a"], TypeError, "NoneType"),
        ({"a": (increment, "b")}, ["a"], KeyError, "'b'"),
        ({"a": (increment, 1)}, ["a"], TypeError, "int"),
        ({"a": (increment, ["a"])}, ["a"], TypeError, "list"),
        ({"a": (increment, ("b",)), "b": 1}, ["a"], TypeError, "tuple"),
        ({"a": (increment, "a")}, ["a"], graphlib.CycleError, "cycle"),
        ({"a": (increment, "b"), "b": (increment, "c"), "c": (increment, "a")}, ["c"], graphlib.CycleError, "cycle"),
    ],
)
def test_bad_input(
    client: Client, scheduler: GraphScheduler, graph: Any, keys: Any, error: type[Exception], text: str
) -> None:
    for block in (True, False):
        with pytest.raises(error, match=text):
            client.get(graph, keys, block=block)
    assert client.get(GRAPH, ["sum"]) == {"sum": 5}
    assert scheduler.executed == 1


def test_a_cycle_is_named() -> None:
    graph = {"a": (increment, "b"), "b": (increment, "c"), "c": (total, "d", "a"), "d": 1, "e": (increment, "a")}
    with GraphScheduler() as scheduler, Client(scheduler.address) as client, pytest.raises(graphlib.CycleError) as info:
        client.get(graph, ["e"])
    cycle = info.value.args[1]
    assert cycle[0] == cycle[-1] and sorted(cycle[1:]) == ["a", "b", "c"]
    for needed, needs in zip(cycle, cycle[1:], strict=False):
        assert needed in graph[needs]  # type: ignore[operator]


def test_what_cannot_be_pickled(client: Client, scheduler: GraphScheduler) -> None:
    with pytest.raises(TypeError):
        client.get({"lock": threading.Lock(), "x": (len, "lock"), "big": b"b" * 10**6, "y": (len, "big")}, ["x", "y"])
    assert not scheduler.runs() and not client._client_io.session.objects.uploads
    assert client.get(GRAPH, ["sum"]) == {"sum": 5}


def test_data_that_nothing_sends_need_not_be_pickled(client: Client) -> None:
    lock = threading.Lock()
    assert client.get({"lock": lock, "x": 1, "y": (increment, "x")}, ["lock", "y"]) == {"lock": lock, "y": 2}


def test_after_disconnect(scheduler: GraphScheduler) -> None:
    client = Client(scheduler.address)
    client.disconnect()
    with pytest.raises(ClientQuitException, match="client is already stopped."):
        client.get(GRAPH, ["sum"])


# ---- failures --------------------------------------------------------------------------------------------------------


def test_when_a_node_fails_every_unfinished_key_gets_the_same_exception(
    client: Client, scheduler: GraphScheduler
) -> None:
    graph = {"x": 1, "ok": (increment, "x"), "bad": (fail, "ok"), "after": (increment, "bad")}
    graph |= {f"more{index}": (increment, "after") for index in range(10)}
    with pytest.raises(ValueError, match="no 2"):
        client.get(graph, ["after", "more3"])
    futures = client.get(graph, ["ok", "more1", "after", "bad"], block=False)
    errors = {key: futures[key].exception(5) for key in ("more1", "after", "bad")}
    assert isinstance(errors["bad"], ValueError) and str(errors["bad"].__cause__)
    assert len({id(error) for error in errors.values()}) == 1
    assert futures["ok"].result(5) == 2
    assert client.get(GRAPH, ["sum"]) == {"sum": 5}


def test_the_tasks_of_a_failed_graph_are_cancelled(client: Client, scheduler: GraphScheduler) -> None:
    scheduler.hold.set()
    graph: dict[str, Any] = {"x": 1, "bad": (fail, "x")}
    graph |= {f"n{index}": (increment, "x" if index < 2 else f"n{index - 1}") for index in range(1, 200)}
    future = client.get(graph, ["bad", "n199"], block=False)["n199"]
    scheduler.wait_for_tasks(200)
    scheduler.held.sort(key=lambda item: item[1].options.intermediate)
    bad = scheduler.held[0][1]
    scheduler.held[1:] = []
    scheduler.hold.clear()
    with pytest.raises(ValueError, match="no 1"):
        future.result(5)
    wait_until(lambda: any(isinstance(body, Cancel) for body in scheduler.seen))
    assert bad.first_task not in scheduler.cancelled and len(scheduler.cancelled) == 199
    wait_until(lambda: not client._client_io.session.ranges)


# ---- cancelling -----------------------------------------------------------------------------------------------------


def test_cancelling_any_future_cancels_the_graph(client: Client, scheduler: GraphScheduler) -> None:
    scheduler.hold.set()
    graph: dict[str, Any] = {"n0": 0} | {f"n{index}": (increment, f"n{index - 1}") for index in range(1, 100)}
    futures = client.get(graph, ["n99", "n50", "n10", "n0"], block=False)
    scheduler.wait_for_tasks(99)
    called: list[Any] = []
    futures["n10"].add_done_callback(called.append)
    assert futures["n50"].cancel()
    assert all(futures[key].cancelled() for key in ("n99", "n50", "n10")) and called == [futures["n10"]]
    assert not futures["n0"].cancelled() and futures["n0"].result() == 0
    assert futures["n99"].cancel()
    wait_until(lambda: len(scheduler.cancelled) == 99)
    scheduler.hold.clear()
    assert client.get(GRAPH, ["sum"]) == {"sum": 5}
    assert scheduler.executed == 1


def test_cancel_before_anything_left(scheduler: GraphScheduler) -> None:
    client = Client("tcp://127.0.0.1:9", timeout_seconds=30)
    futures = client.get(GRAPH, ["next", "sum"], block=False)
    assert futures["sum"].cancel() and futures["next"].cancelled()
    with pytest.raises(concurrent.futures.CancelledError):
        futures["next"].result()
    assert not client._client_io.session.has_unfinished
    client.disconnect()


def test_cancel_after_the_end(client: Client) -> None:
    futures = client.get(GRAPH, ["next", "sum"], block=False)
    assert futures["next"].result(5) == 26
    assert not futures["next"].cancel() and not futures["next"].cancelled()


def test_clear_and_disconnect_cancel_graphs(client: Client, scheduler: GraphScheduler) -> None:
    scheduler.hold.set()
    future = client.get(GRAPH, ["next"], block=False)["next"]
    client.clear()
    assert future.cancelled()
    future = client.get(GRAPH, ["next"], block=False)["next"]
    client.disconnect()
    assert future.cancelled()


def test_leaving_a_blocking_get_cancels_the_graph(
    client: Client, scheduler: GraphScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(self: graphs.GraphFuture, timeout: float | None = None) -> Any:
        scheduler.wait_for_tasks(3)
        raise KeyboardInterrupt

    scheduler.hold.set()
    monkeypatch.setattr(graphs.GraphFuture, "result", interrupt)
    with pytest.raises(KeyboardInterrupt):
        client.get(GRAPH, ["next"])
    wait_until(lambda: len(scheduler.cancelled) == 3)


def test_a_scheduler_out_of_reach() -> None:
    with Client("tcp://127.0.0.1:9", timeout_seconds=0.3) as client, pytest.raises(DisconnectedError):
        client.get(GRAPH, ["next"])


# ---- what travels ------------------------------------------------------------------------------------------------


def test_ids_follow_dependencies_and_long_ways_come_first(client: Client, scheduler: GraphScheduler) -> None:
    graph: dict[str, Any] = {"x": 0}
    for way in range(1, 9):  # way w is a chain of w calls
        graph |= {f"w{way}_{step}": (increment, f"w{way}_{step - 1}" if step else "x") for step in range(way)}
    graph["all"] = (total, *(f"w{way}_{way - 1}" for way in range(1, 9)))
    assert client.get(graph, ["all"]) == {"all": sum(range(1, 9))}
    first_level = [
        slot
        for run in scheduler.runs()
        for index in range(run.count)
        for slot in [run.slot_bytes(index)]
        if run.arity == 1
    ][:8]
    assert not any(isinstance(slot[0], ObjectKey) for slot in first_level)
    last = [run.slot_bytes(0) for run in scheduler.runs() if run.arity == 8][0]
    final_steps = [slot.number for slot in last if isinstance(slot, ObjectKey)]
    # the chain of eight starts first, and ends last
    assert final_steps == sorted(final_steps, key=lambda task: task) or max(final_steps) == final_steps[-1]


def test_runs_are_long(client: Client, scheduler: GraphScheduler) -> None:
    graph: dict[str, Any] = {"n0": 0} | {f"n{index}": (increment, f"n{index - 1}") for index in range(1, 1001)}
    assert client.get(graph, ["n1000"]) == {"n1000": 1000}
    assert [run.count for run in scheduler.runs()] == [999, 1]
    assert [run.options.intermediate for run in scheduler.runs()] == [True, False]


def test_the_number_of_a_graph_is_its_last_id(client: Client, scheduler: GraphScheduler) -> None:
    client.submit(increment, 1).result(5)
    for _ in range(3):
        seen = len(scheduler.runs())
        client.get(GRAPH, ["next", "sum"])
        runs = scheduler.runs()[seen:]
        last = max(run.first_task + run.count - 1 for run in runs)
        assert {run.options.graph for run in runs} == {last}
        assert sum(run.count for run in runs) == 3


def test_the_number_of_a_graph_is_never_zero(client: Client, scheduler: GraphScheduler) -> None:
    client._client_io.session.ranges.next_task = 2**32 - 2
    assert client.get(GRAPH, ["next"]) == {"next": 26}  # would have ended at 2**32
    assert {run.options.graph for run in scheduler.runs()} == {1}
    assert min(run.first_task for run in scheduler.runs()) == 2**32 - 1


def test_the_analysis_by_graphblas_is_used(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    graphblas = pytest.importorskip("scaler.integrations.graphblas")
    sizes: list[int] = []
    original = graphblas.analyse
    monkeypatch.setattr(graphblas, "analyse", lambda graph, groups: sizes.append(len(graph)) or original(graph, groups))
    monkeypatch.setattr(graph_module, "LOADED_FROM_CALLS", 3)
    assert client.get(GRAPH, ["next", "sum"]) == {"next": 26, "sum": 5} and sizes == [3]
    assert client.get(GRAPH, ["square"]) == {"square": 25} and sizes == [3]


def test_no_message_is_too_large(client: Client, scheduler: GraphScheduler) -> None:
    graph: dict[str, Any] = {f"d{index}": bytes(3000) for index in range(100)} | {"x": 1}
    for index in range(100):  # a function of its own each, with 20 kB inside
        graph[f"f{index}"] = (functools.partial(len_of_both, bytes([index]) * 20_000), f"d{index}")
    graph |= {f"w{index}": (total, *["x"] * 7000) for index in range(20)}
    graph |= {f"n{index}": (dict,) for index in range(20_000)}
    keys = [key for key, node in graph.items() if isinstance(node, tuple)]
    result = client.get(graph, keys)
    assert result["f7"] == 23_000 and result["w3"] == 7000 and result["n9"] == {}
    sizes = [sum(map(len, encode(Envelope(body)))) for body in scheduler.seen if isinstance(body, Tasks)]
    assert len(sizes) > 5 and max(sizes) <= MESSAGE_LIMIT_BYTES


def len_of_both(first: bytes, second: bytes) -> int:
    return len(first) + len(second)


def test_threads_submit_while_graphs_are_built(client: Client) -> None:
    stop = threading.Event()
    submitted: list[concurrent.futures.Future[int]] = []

    def submit() -> None:
        while not stop.is_set():
            submitted.append(client.submit(increment, len(submitted)))
            stop.wait(0.0001)

    thread = threading.Thread(target=submit)
    thread.start()
    graph: dict[str, Any] = {"n0": 0} | {f"n{index}": (increment, f"n{index - 1}") for index in range(1, 3001)}
    try:
        for _ in range(5):
            assert client.get(graph, ["n3000", "n7"]) == {"n3000": 3000, "n7": 7}
    finally:
        stop.set()
        thread.join()
    assert [future.result(5) for future in submitted] == list(range(1, len(submitted) + 1))


def test_an_exception_does_not_keep_the_futures(client: Client) -> None:
    """But for the one it was raised from: a traceback that was pickled refers to the frames that loaded it."""
    alive: list[weakref.ref[Any]] = []
    original = graphs.GraphCall.start

    def start(self: graphs.GraphCall) -> Any:
        futures = original(self)
        alive.extend(map(weakref.ref, futures))
        return futures

    graph = {"x": 1, "bad": (fail, "x")} | {f"ok{index}": (increment, "x") for index in range(5)}
    gc.collect()
    gc.disable()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(graphs.GraphCall, "start", start)
            try:
                client.get(graph, [name for name in graph if name != "x"])
            except ValueError as error:
                kept = error
        wait_until(lambda: sum(future() is not None for future in alive) <= 1)
    finally:
        gc.enable()
    assert len(alive) == 6 and kept


def test_nothing_stays_behind(client: Client, scheduler: GraphScheduler) -> None:
    for keys in (["next"], ["next", "sum"], ["a"]):
        client.get(GRAPH, keys)
    session = client._client_io.session
    assert not session.ranges and not session.has_unfinished and not session.objects.uploads


# ---- shapes of graphs --------------------------------------------------------------------------------------------


def test_random_graphs(client: Client) -> None:
    chance = random.Random(7)
    for _ in range(20):
        graph: dict[str, Any] = {}
        expected: dict[str, int] = {}
        for index in range(chance.randrange(1, 200)):
            name = f"n{index}"
            if index == 0 or chance.random() < 0.2:
                graph[name] = expected[name] = chance.randrange(1000)
            else:
                names = chance.choices(list(expected), k=chance.randrange(5))
                graph[name] = (total, *names)
                expected[name] = sum(expected[needed] for needed in names)
        keys = chance.sample(list(graph), chance.randrange(1, len(graph) + 1))
        items = list(graph.items())
        chance.shuffle(items)
        assert client.get(dict(items), keys) == {key: expected[key] for key in keys}


def test_a_very_deep_and_a_very_wide_graph(client: Client) -> None:
    deep: dict[str, Any] = {"n0": 0} | {f"n{index}": (increment, f"n{index - 1}") for index in range(1, 50_001)}
    assert client.get(deep, ["n50000"]) == {"n50000": 50_000}
    wide: dict[str, Any] = {"x": 1} | {f"n{index}": (increment, "x") for index in range(50_000)}
    keys = [f"n{index}" for index in range(50_000)]
    assert client.get(wide, keys) == dict.fromkeys(keys, 2)
