"""Programs as in tutorials of Ray, on Scaler."""

from __future__ import annotations

import asyncio
import os
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from scaler import Client, SchedulerClusterCombo
from scaler.compat import ray
from scaler.utility.exceptions import MissingObjects, ProcessorDiedError
from tests.cluster.conftest import Gate
from tests.support import functions
from tests.support.waiting import wait_until


@pytest.fixture
def cluster(combo: SchedulerClusterCombo) -> Iterator[None]:
    ray.init(combo.get_address())
    yield
    ray.shutdown()


@ray.remote
def square(number: int) -> int:
    return number * number


@ray.remote
def add(first: int, second: int = 0) -> int:
    return first + second


@ray.remote
def fibonacci(number: int) -> int:
    if number < 2:
        return number
    return sum(ray.get([fibonacci.remote(number - 1), fibonacci.remote(number - 2)]))


@ray.remote
def fail(error: BaseException) -> None:
    raise error


hold = ray.remote(functions.wait_at_gate)


# ---- programs --------------------------------------------------------------------------------------------------------


def test_squares(cluster: None) -> None:
    refs = [square.remote(number) for number in range(20)]
    assert ray.get(refs) == [number * number for number in range(20)]
    assert ray.get(refs[3]) == 9


def test_a_tree_of_sums(cluster: None) -> None:
    refs = [ray.put(number) for number in range(1, 17)]
    while len(refs) > 1:
        refs = [add.remote(refs[0], second=refs[1]), *refs[2:]]
    assert ray.get(refs[0]) == 136


def test_points_in_a_circle(cluster: None) -> None:
    @ray.remote
    def count(points: int, seed: int) -> int:
        import random

        generator = random.Random(seed)
        return sum(generator.random() ** 2 + generator.random() ** 2 <= 1 for _ in range(points))

    hits = sum(ray.get([count.remote(10_000, seed) for seed in range(8)]))
    assert abs(4 * hits / 80_000 - 3.14) < 0.1


def test_words_are_counted_by_maps_and_reductions(cluster: None) -> None:
    @ray.remote(num_returns=2)
    def split(text: str) -> tuple[list[str], list[str]]:
        words = text.split()
        return [word for word in words if word < "m"], [word for word in words if word >= "m"]

    @ray.remote
    def count(*parts: list[str]) -> dict[str, int]:
        words = [word for part in parts for word in part]
        return {word: words.count(word) for word in words}

    early, late = zip(*[split.remote(text) for text in ("a rose is a rose", "is a tulip")], strict=True)
    assert ray.get([count.remote(*early), count.remote(*late)]) == [{"a": 3, "is": 2}, {"rose": 2, "tulip": 1}]


def test_tasks_that_submit_tasks(cluster: None) -> None:
    assert ray.get(fibonacci.remote(6)) == 8


def test_work_is_handed_out_as_tasks_end(cluster: None) -> None:
    items = iter(range(12))
    waiting = [square.remote(next(items)) for _ in range(3)]
    total = 0
    while waiting:
        (ended,), waiting = ray.wait(waiting)
        total += ray.get(ended)
        waiting += [square.remote(each) for each in [next(items, None)] if each is not None]
    assert total == sum(number * number for number in range(12))


def test_a_matrix_is_sent_once(cluster: None) -> None:
    numpy = pytest.importorskip("numpy")
    matrix = ray.put(numpy.ones((500, 500)))

    @ray.remote
    def row_sum(matrix: Any, row: int) -> float:
        return float(matrix[row].sum())

    assert ray.get([row_sum.remote(matrix, row) for row in range(5)]) == [500.0] * 5
    assert ray.get(matrix).shape == (500, 500)


def test_coroutines_await_references(cluster: None) -> None:
    async def main() -> list[int]:
        return list(await asyncio.gather(*[square.remote(number) for number in range(3)]))

    assert asyncio.run(main()) == [0, 1, 4]


# ---- references ------------------------------------------------------------------------------------------------------


def test_references_inside_arguments_stay_references(cluster: None) -> None:
    @ray.remote
    def look(plain: int, refs: list[Any], named: dict[str, Any]) -> tuple[Any, ...]:
        kinds = type(plain).__name__, *(type(ref).__name__ for ref in (*refs, named["one"]))
        return kinds, ray.get(refs), ray.get(add.remote(refs[0], named["one"])), refs[0].hex()

    first, second = square.remote(2), ray.put(5)
    kinds, values, total, name = ray.get(look.remote(first, [first, second], {"one": second}))
    assert kinds == ("int", "ObjectRef", "ObjectRef", "ObjectRef")
    assert (values, total, name) == ([4, 5], 9, first.hex())


def test_a_task_returns_references(cluster: None) -> None:
    @ray.remote
    def submit_more() -> list[Any]:
        return [square.remote(3), ray.put("x")]

    assert ray.get(ray.get(submit_more.remote())) == [9, "x"]


def test_references_that_a_function_captures(cluster: None) -> None:
    five = ray.put(5)

    @ray.remote
    def captured() -> int:
        return ray.get(five) + 1

    assert ray.get(captured.remote()) == 6


def test_equal_references_are_one_key(cluster: None) -> None:
    ref, other = ray.put(1), ray.put(1)
    assert ref == ref and ref != other and len({ref, other, ref}) == 2


# ---- get, wait, cancel ---------------------------------------------------------------------------------------------


def test_get_waits_for_a_limited_time(cluster: None, gate: Gate) -> None:
    ref = hold.remote(*gate.paths)
    with pytest.raises(ray.exceptions.GetTimeoutError) as caught:
        ray.get([ref], timeout=0.05)
    assert isinstance(caught.value, TimeoutError)
    gate.open()
    ray.get(ref, timeout=60)


def test_wait_returns_no_more_than_asked_for(cluster: None, gate: Gate) -> None:
    held, done = hold.remote(*gate.paths), [square.remote(1), square.remote(2)]
    assert ray.wait([held, *done], num_returns=2) == (done, [held])
    assert ray.wait([held, *done], num_returns=1) == (done[:1], [held, done[1]])
    assert ray.wait([held], timeout=0.01) == ([], [held])
    gate.open()
    assert ray.wait([held, *done], num_returns=3, fetch_local=False) == ([held, *done], [])


def test_cancel(cluster: None, gate: Gate) -> None:
    ref = hold.remote(*gate.paths)
    dependant = add.remote(ref)
    ray.cancel(ref)
    for each in (ref, dependant):
        with pytest.raises(ray.exceptions.TaskCancelledError):
            ray.get(each)
    done = square.remote(2)
    assert ray.get(done) == 4
    with pytest.warns(UserWarning, match="argument force of cancel"):
        ray.cancel(done, force=True)
    with pytest.warns(UserWarning, match="argument recursive of cancel"):
        ray.cancel(done, recursive=False)
    assert ray.get(done) == 4


def test_as_completed_yields_what_ends_first(cluster: None, gate: Gate) -> None:
    refs = [hold.remote(*gate.paths), square.remote(3)]
    results = ray.util.as_completed(refs)
    assert next(results) == 9
    gate.open()
    assert len(list(results)) == 1
    assert set(ray.util.as_completed(refs, yield_obj_refs=True)) == set(refs)


def test_map_unordered(cluster: None) -> None:
    assert sorted(ray.util.map_unordered(square, range(50), backpressure_size=4)) == [each**2 for each in range(50)]
    assert sorted(ray.util.map_unordered(square, range(5), backpressure_size=None)) == [0, 1, 4, 9, 16]
    with pytest.raises(ValueError, match="backpressure_size"):
        ray.util.map_unordered(square, [1], backpressure_size=0)


# ---- failures --------------------------------------------------------------------------------------------------------


class OwnError(Exception):
    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)
        self.code = code


@pytest.mark.parametrize("error", [ValueError("no"), KeyError("k"), FileNotFoundError(2, "gone"), OwnError(7, "own")])
def test_an_exception_is_a_task_error_of_its_class(cluster: None, error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        ray.get(add.remote(fail.remote(error)))
    raised: Any = caught.value
    assert isinstance(raised, ray.exceptions.RayTaskError)
    assert type(raised.__cause__) is type(raised.cause) is type(error) and raised.args == error.args
    assert str(raised) == str(error)
    if isinstance(error, OwnError):
        assert raised.code == 7


def test_an_exception_passes_through_nested_tasks(cluster: None) -> None:
    @ray.remote
    def outer() -> Any:
        return ray.get(fail.remote(ZeroDivisionError("deep")))

    with pytest.raises(ZeroDivisionError, match="deep") as caught:
        ray.get(outer.remote())
    assert isinstance(caught.value, ray.exceptions.RayTaskError)
    assert type(caught.value.cause) is ZeroDivisionError


def test_the_process_of_a_task_dies(cluster: None) -> None:
    @ray.remote(max_retries=0)
    def die() -> None:
        os.kill(os.getpid(), 9)

    with pytest.raises(ray.exceptions.WorkerCrashedError) as caught:
        ray.get(die.remote())
    assert isinstance(caught.value.__cause__, ProcessorDiedError)


def test_a_released_value_is_lost(cluster: None) -> None:
    ref = square.remote(4)
    assert ray.get(ref) == 16
    ref.source.release()  # type: ignore[attr-defined]
    with pytest.raises(ray.exceptions.ObjectLostError) as caught:
        ray.get(ref)
    assert isinstance(caught.value.__cause__, MissingObjects)


@pytest.mark.parametrize("retried", [True, [OSError]])
def test_tasks_are_repeated_after_exceptions(cluster: None, tmp_path: Any, retried: Any) -> None:
    @ray.remote(max_retries=2, retry_exceptions=retried)
    def attempt(path: str, needed: int) -> int:
        with open(path, "a+") as file:
            file.write("x")
            attempts = file.tell()
        if attempts < needed:
            raise OSError(f"attempt {attempts}")
        return attempts

    assert ray.get(attempt.remote(str(tmp_path / "three"), 3)) == 3
    with pytest.raises(OSError, match="attempt 3"):
        ray.get(attempt.remote(str(tmp_path / "nine"), 9))


def test_mistakes(cluster: None) -> None:
    with pytest.raises(TypeError, match=r"Call square.remote\(\)"):
        square(1)
    with pytest.raises(TypeError, match="square"):
        square.remote(1, 2)
    with pytest.raises(TypeError, match="not an ObjectRef"):
        ray.get([1])
    with pytest.raises(ValueError, match="neither"):
        ray.get(1)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="its value is in the cluster"):
        ray.put(ray.put(1))
    ref = ray.put(1)
    with pytest.raises(TypeError, match="not a list"):
        ray.wait(ref)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="occurs twice"):
        ray.wait([ref, ref])
    with pytest.raises(ValueError, match="num_returns"):
        ray.wait([ref], num_returns=2)
    with pytest.raises(ValueError, match="the timeout is negative"):
        ray.wait([ref], timeout=-1)
    assert ray.wait([]) == ([], []) and ray.get(ref, timeout=-1) == 1
    with pytest.raises(ValueError, match="num_cpu'"):
        ray.remote(num_cpu=1)(len)
    with pytest.raises(ValueError, match="num_returns is 3"):
        ray.get(ray.remote(num_returns=3)(lambda: (1, 2)).remote())
    with pytest.raises(NotImplementedError, match="share the threads"):
        ray.remote(concurrency_groups={"io": 2})(OwnError)
    with pytest.raises(ValueError, match="max_concurrency must be between"):
        ray.remote(max_concurrency=0)(OwnError)


# ---- options ---------------------------------------------------------------------------------------------------------


def test_generator_functions_return_a_known_number_of_values(cluster: None) -> None:
    @ray.remote
    def count() -> Iterator[int]:
        yield from (1, 2)

    assert ray.get(count.options(num_returns=2).remote()) == [1, 2]
    with pytest.raises(NotImplementedError, match=r"^Cannot run the generator function count\(\) as a task: .* a list"):
        count.remote()


def test_options(cluster: None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ray.get(square.options(num_cpus=1, num_gpus=0, name="named", max_retries=1).remote(3)) == 9
    assert square.options(num_returns=0).remote(3) is None
    with pytest.warns(UserWarning) as warned:
        assert ray.get(square.options(num_cpus=2, runtime_env={}).remote(3)) == 9
    assert ["num_cpus" in str(warned[0].message), "runtime_env" in str(warned[1].message)] == [True, True]
    assert {each.filename for each in warned} == {__file__}


def test_the_name_of_a_task_is_in_the_cluster_info(cluster: None, combo: SchedulerClusterCombo) -> None:
    ray.get([square.options(name="own name").remote(3), square.remote(3)])
    with Client(combo.get_address()) as client:
        names = {(row.name, row.module) for row in client.cluster_info().functions}
    assert {("own name", __name__), ("square", __name__)} <= names


# ---- connections -----------------------------------------------------------------------------------------------------


def test_a_cluster_on_this_machine_with_resources() -> None:
    with ray.init(num_cpus=2, num_gpus=1, resources={"license": 4}) as context:
        assert ray.is_initialized() and context.address_info["address"].startswith("tcp://")
        assert ray.cluster_resources() == {"CPU": 2.0, "GPU": 1.0, "license": 4.0}
        (node,) = ray.nodes()
        assert node["Alive"] and node["Resources"] == ray.cluster_resources() and node["NodeManagerAddress"]
        assert ray.get(square.options(num_gpus=0.5, resources={"license": 2}).remote(2)) == 4
    assert not ray.is_initialized()
    ray.shutdown()


def test_resources_that_tasks_have_are_not_available(gate: Gate) -> None:
    with ray.init(num_cpus=2, resources={"license": 4}):
        assert ray.cluster_resources() == {"CPU": 2.0, "license": 4.0}
        wait_until(lambda: ray.available_resources() == {"CPU": 2.0, "license": 4.0})
        refs = [hold.options(resources={"license": 2}).remote(*gate.paths) for _ in range(2)]
        wait_until(lambda: ray.available_resources() == {})
        gate.open()
        ray.get(refs)
        wait_until(lambda: ray.available_resources() == {"CPU": 2.0, "license": 4.0})


def test_init_twice(cluster: None, combo: SchedulerClusterCombo) -> None:
    with pytest.raises(RuntimeError, match="ignore_reinit_error=True"):
        ray.init(combo.get_address())
    context = ray.init(ignore_reinit_error=True)
    assert context.address_info["address"] == combo.get_address()


def test_init_with_arguments_of_ray(combo: SchedulerClusterCombo, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConnectionError, match="SCALER_SCHEDULER_ADDRESS is not set"):
        ray.init("auto")
    with pytest.raises(ValueError, match="cluster of Ray"):
        ray.init("ray://127.0.0.1:10001")
    with pytest.raises(ValueError, match="the cluster exists already"):
        ray.init(combo.get_address(), num_cpus=2)
    monkeypatch.setenv("SCALER_SCHEDULER_ADDRESS", combo.get_address())
    with pytest.warns(UserWarning, match="argument dashboard_host of init"):
        ray.init("auto", dashboard_host="0.0.0.0")
    assert ray.get(square.remote(2)) == 4
    ray.shutdown()


def test_scaler_init_with_a_client_that_stays_open(client: Client) -> None:
    ray.scaler_init(client=client)
    assert ray.get(square.remote(5)) == 25
    ray.shutdown()
    assert client.submit(functions.increment, 1).result() == 2
    with pytest.raises(ValueError, match="pass an address, or a client"):
        ray.scaler_init("tcp://127.0.0.1:1", client=client)


def test_scaler_init_starts_a_cluster_with_options() -> None:
    with ray.scaler_init(n_workers=1, per_worker_capabilities={"gpu": 1}):
        assert ray.get(square.options(num_gpus=1).remote(5)) == 25


def test_threads_share_the_connection(cluster: None) -> None:
    values: list[int] = []
    threads = [threading.Thread(target=lambda: values.append(ray.get(square.remote(6)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values == [36] * 4


@pytest.mark.parametrize("library", ["data", "serve", "tune"])
def test_other_parts_of_ray(library: str) -> None:
    with pytest.raises(ImportError, match=f"Cannot use ray.{library}: "):
        getattr(ray, library)
    with pytest.raises(AttributeError, match="has no attribute 'timeline'"):
        ray.timeline  # noqa: B018
