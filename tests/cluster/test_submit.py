"""submit and submit_verbose: arguments, options, order."""

from __future__ import annotations

import functools
import math
import operator
import os
import time
from pathlib import Path

import pytest

from scaler import Client, ScalerFuture
from scaler.utility.exceptions import ProcessorDiedError, TaskMemoryError, TaskTimeoutError, WorkerDiedError
from tests.cluster.conftest import Gate
from tests.support import functions
from tests.support.commands import Stopwatch
from tests.support.waiting import wait_until


class Adder:
    """A callable object, a method, a static method, a class method."""

    def __init__(self, base: int) -> None:
        self.base = base

    def __call__(self, value: int) -> int:
        return self.base + value

    def add(self, value: int) -> int:
        return self.base + value

    @staticmethod
    def twice(value: int) -> int:
        return 2 * value

    @classmethod
    def make(cls, base: int) -> Adder:
        return cls(base)


def everything(a, b=2, *rest, c, d=4, **others):  # type: ignore[no-untyped-def]
    return a, b, rest, c, d, sorted(others.items())


def takes_profiling(value: int, profiling: bool = False) -> tuple[int, bool]:
    return value, profiling


def test_positional_arguments(client: Client) -> None:
    assert client.submit(functions.add, 1, 2).result() == 3


def test_every_kind_of_argument(client: Client) -> None:
    assert client.submit(everything, 1, c=3).result() == (1, 2, (), 3, 4, [])
    assert client.submit(everything, 1, 5, 6, 7, c=3, z=9, y=8).result() == (1, 5, (6, 7), 3, 4, [("y", 8), ("z", 9)])
    assert client.submit(everything, c=3, a=1, d=0).result() == (1, 2, (), 3, 0, [])


def test_returns_a_scaler_future(client: Client) -> None:
    future = client.submit(functions.identity, "value")
    assert isinstance(future, ScalerFuture)
    assert future.result(timeout=60) == "value"


def test_lambda_and_closure(client: Client) -> None:
    offset = 10
    assert client.submit(lambda value: value + offset, 5).result() == 15


def test_recursive_local_function(client: Client) -> None:
    def factorial(number: int) -> int:
        return 1 if number == 0 else number * factorial(number - 1)

    assert client.submit(factorial, 10).result() == math.factorial(10)


@pytest.mark.parametrize(
    ("function", "arguments", "expected"),
    [
        (max, (1, 3, 2), 3),
        (int, ("12",), 12),
        (dict, (), {}),
        (math.hypot, (3, 4), 5.0),
        (operator.itemgetter(1), ([1, 2],), 2),
        (str.upper, ("abc",), "ABC"),
        ("abc".upper, (), "ABC"),
        (functools.partial(functions.add, 1), (2,), 3),
        (Adder(1), (2,), 3),
        (Adder(1).add, (2,), 3),
        (Adder.twice, (2,), 4),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_every_kind_of_callable(client: Client, function, arguments, expected) -> None:  # type: ignore[no-untyped-def]
    assert client.submit(function, *arguments).result() == expected


def test_builtin_without_signature_takes_keywords(client: Client) -> None:
    assert client.submit(dict, a=1, b=2).result() == {"a": 1, "b": 2}
    assert client.submit(max, [3, 1], key=lambda value: -value).result() == 1


def test_class_method(client: Client) -> None:
    assert client.submit(Adder.make, 4).result().base == 4


@pytest.mark.parametrize(
    ("arguments", "keywords"),
    [((1, 2, 3), {}), ((1,), {}), ((), {"left": 1}), ((1, 2), {"more": 3}), ((1, 2), {"left": 1})],
)
def test_wrong_arguments_are_a_type_error_at_once(client: Client, arguments, keywords) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(TypeError):
        client.submit(functions.add, *arguments, **keywords)
    assert client.submit(functions.add, 1, 2).result() == 3


def test_what_is_not_callable_is_a_type_error_at_once(client: Client) -> None:
    with pytest.raises(TypeError):
        client.submit(5, 1)  # type: ignore[arg-type]


def test_profiling_is_an_option_unless_the_function_takes_it(client: Client) -> None:
    assert client.submit(takes_profiling, 1, profiling=True).result() == (1, True)
    future = client.submit(functions.identity, 1, profiling=True)
    assert future.result() == 1
    assert future.profiling_info().memory_peak > 0


def test_profiling_info(client: Client) -> None:
    future = client.submit(functions.sleep_and_return, 0.05)
    future.result()
    information = future.profiling_info()
    assert 0.05 <= information.duration_s < 20
    assert information.duration_us == pytest.approx(information.duration_s * 1e6, rel=0.01, abs=2)
    assert 0.0 <= information.cpu_time_s < information.duration_s


def test_profiling_of_the_whole_client(combo) -> None:  # type: ignore[no-untyped-def]
    with Client(combo.get_address(), profiling=True) as client:
        future = client.submit(bytearray, 50_000_000)
        future.result()
        information = future.profiling_info()
        assert information.memory_peak == information.peak_memory >= 50_000_000


def test_profiling_info_before_the_end_is_a_value_error(client: Client, gate: Gate) -> None:
    future = client.submit(functions.wait_at_gate, *gate.paths)
    with pytest.raises(ValueError):
        future.profiling_info()
    gate.open()
    future.result()


def test_what_a_function_captures_is_read_at_each_submit(client: Client) -> None:
    captured = [1]

    def read() -> list[int]:
        return list(captured)

    first = client.submit(read)
    captured.append(2)
    second = client.submit(read)
    assert (first.result(), second.result()) == ([1], [1, 2])


def test_an_argument_changed_after_submit_was_taken_before(client: Client, gate: Gate) -> None:
    value = [1]
    future = client.submit(functions.wait_at_gate, *gate.paths, value)
    value.append(2)
    gate.open()
    assert future.result() == [1]


def test_arguments_are_not_shared_between_tasks(client: Client) -> None:
    def append(values: list[int]) -> list[int]:
        values.append(1)
        return values

    shared: list[int] = []
    assert [future.result() for future in [client.submit(append, shared) for _ in range(10)]] == [[1]] * 10
    assert shared == []


def test_twenty_thousand_submits(client: Client) -> None:
    futures = [client.submit(functions.square, number) for number in range(20_000)]
    assert [future.result() for future in futures] == [number * number for number in range(20_000)]


def test_alternating_functions_with_different_keywords(client: Client) -> None:
    kinds = [
        (functions.add, {"left": 1, "right": 2}, 3),
        (functions.square, {"value": 3}, 9),
        (functions.identity, {"value": "x"}, "x"),
        (everything, {"a": 1, "c": 2, "e": 3}, (1, 2, (), 2, 4, [("e", 3)])),
    ]
    futures = [client.submit(kinds[number % 4][0], **kinds[number % 4][1]) for number in range(2_000)]  # type: ignore[arg-type]
    assert [future.result() for future in futures] == [kinds[number % 4][2] for number in range(2_000)]


def test_two_idle_workers_share_two_tasks(client: Client, gate: Gate) -> None:
    futures = [client.submit(functions.wait_at_gate, *gate.paths) for _ in range(2)]
    wait_until(lambda: len(set(gate.waiting_pids)) == 2, what="both workers busy")
    gate.open()
    [future.result() for future in futures]


def test_submit_verbose_arguments(client: Client) -> None:
    assert client.submit_verbose(functions.add, (1, 2)).result() == 3
    assert client.submit_verbose(functions.add, (1,), {"right": 2}).result() == 3
    assert client.submit_verbose(everything, args=(1,), kwargs={"c": 3, "priority": 5}).result()[5] == [("priority", 5)]
    assert client.submit_verbose(os.getpid).result() != os.getpid()


def test_higher_priority_starts_first(single_client: Client, gate: Gate, tmp_path: Path) -> None:
    order = str(tmp_path / "order")
    blocker = single_client.submit(functions.wait_at_gate, *gate.paths)
    wait_until(lambda: gate.waiting_pids)
    # One task of unknown duration may be held by the agent already, so the first of the low ones may pass.
    low = [single_client.submit_verbose(functions.note_and_return, (order, f"low {n}")) for n in range(10)]
    high = [single_client.submit_verbose(functions.note_and_return, (order, f"high {n}"), priority=5) for n in range(3)]
    gate.open()
    [future.result() for future in [blocker, *low, *high]]
    lines = functions.notes(order)
    assert [line for line in lines[:5] if line.startswith("high")] == ["high 0", "high 1", "high 2"], lines
    assert [line for line in lines if line.startswith("low")] == [f"low {n}" for n in range(10)]


def test_tasks_of_one_client_start_in_order(single_client: Client, tmp_path: Path) -> None:
    order = str(tmp_path / "order")
    [f.result() for f in [single_client.submit(functions.note_and_return, order, n) for n in range(500)]]
    assert functions.notes(order) == [str(number) for number in range(500)]


def test_retries_are_for_exceptions(client: Client, tmp_path: Path) -> None:
    path = str(tmp_path / "calls")
    assert client.submit_verbose(functions.fail_at_first, (path, 2), retries=2).result() == 3


def test_retries_end(client: Client, tmp_path: Path) -> None:
    path = str(tmp_path / "calls")
    with pytest.raises(RuntimeError, match="failure 2"):
        client.submit_verbose(functions.fail_at_first, (path, 5), retries=1).result()
    assert len(functions.notes(path)) == 2


def test_an_exception_is_final_without_retries(client: Client, tmp_path: Path) -> None:
    path = str(tmp_path / "calls")
    with pytest.raises(RuntimeError, match="failure 1"):
        client.submit(functions.fail_at_first, path, 5).result()
    assert len(functions.notes(path)) == 1


def test_rerun_false_never_starts_a_task_twice(client: Client, tmp_path: Path) -> None:
    path = str(tmp_path / "calls")
    with pytest.raises((WorkerDiedError, ProcessorDiedError)):
        client.submit_verbose(functions.exit_process, (path,), rerun=False).result(timeout=60)
    assert len(functions.notes(path)) == 1


def test_timeout_interrupts_a_task(client: Client) -> None:
    watch = Stopwatch()
    with pytest.raises(TaskTimeoutError):
        client.submit_verbose(time.sleep, (30,), timeout_seconds=0.3).result()
    assert watch.seconds < 20
    assert client.submit(functions.add, 1, 2).result() == 3


def test_timeout_does_not_touch_a_quick_task(client: Client) -> None:
    assert client.submit_verbose(functions.add, (1, 2), timeout_seconds=5).result() == 3


def test_memory_limit(client: Client) -> None:
    def take(size_bytes: int) -> int:
        return len(bytearray(size_bytes))

    with pytest.raises(TaskMemoryError):
        client.submit_verbose(take, (600_000_000,), memory_bytes=200_000_000).result()
    assert client.submit_verbose(take, (1_000_000,), memory_bytes=2_000_000_000).result() == 1_000_000


def test_explain_names_where_a_task_is(single_client: Client, gate: Gate) -> None:
    running = single_client.submit(functions.wait_at_gate, *gate.paths)
    queued = [single_client.submit(functions.wait_at_gate, *gate.paths) for _ in range(5)]
    wait_until(lambda: gate.waiting_pids)
    texts = [single_client.explain(future) for future in [running, queued[-1]]]
    assert all(isinstance(text, str) and text for text in texts)
    assert texts[0] != texts[1]
    gate.open()
    running.result()
    assert single_client.explain(running)


def test_random_numbers_differ_between_workers(combo, gate: Gate) -> None:  # type: ignore[no-untyped-def]
    import random

    def draw(started: str, gate_path: str) -> float:
        functions.wait_at_gate(started, gate_path)
        return random.random()

    with Client(combo.get_address()) as client:
        futures = [client.submit(draw, *gate.paths) for _ in range(2)]
        wait_until(lambda: len(set(gate.waiting_pids)) == 2)
        gate.open()
        assert len({future.result() for future in futures}) == 2


def test_warm_round_is_quick(combo) -> None:  # type: ignore[no-untyped-def]
    def whole_round() -> float:
        watch = Stopwatch()
        with Client(combo.get_address()) as client:
            assert client.submit(functions.square, 3).result() == 9
        return watch.seconds

    whole_round()
    assert any(whole_round() < 0.25 for _ in range(40))
