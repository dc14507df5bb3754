"""joblib on real processes, and its own tests."""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from scaler import Client, SchedulerClusterCombo, Serializer
from tests.support.commands import child_environment
from tests.support.waiting import wait_until

joblib = pytest.importorskip("joblib")
numpy = pytest.importorskip("numpy")

from scaler.integrations.joblib import ScalerBackend, register  # noqa: E402  # needs joblib
from tests.support.joblib_backend import source_of_joblib_tests  # noqa: E402

ROOT = Path(__file__).parent.parent.parent
LARGE = 400_000
MEDIUM = 20_000


class PlainPickle(Serializer):
    @staticmethod
    def serialize(obj: Any) -> bytes:
        return cloudpickle.dumps(obj)

    @staticmethod
    def deserialize(payload: bytes) -> Any:
        return pickle.loads(payload)


@pytest.fixture
def on_scaler(client: Client) -> Iterator[Client]:
    wait_until(lambda: client.n_workers == 2)
    register()
    with joblib.parallel_config("scaler", client=client):
        yield client


def square(number: int) -> int:
    return number * number


def describe(array: Any) -> tuple[bool, float, int]:
    return array.flags.writeable, float(array.sum()), os.getpid()


def write(array: Any) -> float:
    array[0] = 7.0
    return float(array[0])


def both_ends(array: Any) -> tuple[float, float]:
    return float(array[0]), float(array[-1])


def shape_and_sum(array: Any) -> tuple[tuple[int, ...], int]:
    return array.shape, int(array.astype("int64").sum())


def make(number: int) -> Any:
    import numpy

    return numpy.full(LARGE, number)


def fail_at_three(number: int) -> int:
    if number == 3:
        raise KeyError("three")
    time.sleep(30)
    return number


def squares_inside(count: int, n_jobs: int | None, backend: str | None = None) -> tuple[int, bool]:
    """Their sum, and whether they ran in this process."""
    import joblib

    found = joblib.Parallel(n_jobs=n_jobs, backend=backend)(joblib.delayed(square_here)(i) for i in range(count))
    return sum(each for each, _ in found), {process for _, process in found} == {os.getpid()}


def square_here(number: int) -> tuple[int, int]:
    return number * number, os.getpid()


def run(function: Any, items: Any, *more: Any, **options: Any) -> Any:
    return joblib.Parallel(**options)(joblib.delayed(function)(item, *more) for item in items)


def test_calls_run_on_the_cluster_and_give_their_results_in_order(on_scaler: Client) -> None:
    assert run(square, range(1000)) == [number * number for number in range(1000)]
    assert os.getpid() not in {process for _, process in run(square_here, range(20))}
    expected = ("square_here", __name__)
    wait_until(lambda: expected in [(each.name, each.module) for each in on_scaler.cluster_info().functions])


def test_all_workers_are_used_by_default(on_scaler: Client) -> None:
    assert joblib.effective_n_jobs(-1) == 2
    assert joblib.Parallel()._effective_n_jobs() == 2


def test_one_job_runs_here(on_scaler: Client) -> None:
    assert {process for _, process in run(square_here, range(3), n_jobs=1)} == {os.getpid()}


def test_large_arrays_are_mapped_read_only(on_scaler: Client) -> None:
    array = numpy.ones(LARGE)
    assert {found[:2] for found in run(describe, [array] * 8)} == {(False, float(LARGE))}
    with pytest.raises(ValueError, match="read-only"):
        run(write, [array] * 2)
    array[0] = 3.0  # the next call sends it again
    assert {found[1] for found in run(describe, [array] * 2)} == {LARGE + 2.0}


def test_copy_on_write_arrays_may_be_changed(on_scaler: Client) -> None:
    array = numpy.ones(LARGE)
    assert run(write, [array] * 4, mmap_mode="c") == [7.0] * 4 and array[0] == 1.0
    assert run(write, [array] * 4, max_nbytes=None) == [7.0] * 4 and array[0] == 1.0


def test_arrays_of_medium_size_are_copies(on_scaler: Client) -> None:
    array = numpy.ones(MEDIUM)
    assert run(write, [array] * 8, batch_size=1) == [7.0] * 8 and array[0] == 1.0
    assert run(write, [array] * 8) == [7.0] * 8 and array[0] == 1.0


def test_arrays_of_medium_size_may_change_from_call_to_call(on_scaler: Client) -> None:
    """joblib takes as many calls at a time as there are jobs."""
    array = numpy.ones(MEDIUM)

    def calls() -> Iterator[Any]:
        for number in range(40):
            array[:] = number // 16  # several batches with the same content
            yield joblib.delayed(both_ends)(array)

    found = joblib.Parallel(n_jobs=2, batch_size=1)(calls())
    assert found == [(number // 16, number // 16) for number in range(40)]


def test_arrays_of_medium_size_with_gaps_or_without_buffers(on_scaler: Client) -> None:
    rows = numpy.arange(4 * MEDIUM).reshape(-1, 4)
    dates = numpy.arange(MEDIUM).astype("datetime64[s]")
    for array in (rows[:, :3], rows.T, rows[::-1], dates):
        assert run(shape_and_sum, [array] * 6, batch_size=1) == [shape_and_sum(array)] * 6


def test_an_array_of_medium_size_gets_another_shape(on_scaler: Client) -> None:
    array = numpy.arange(MEDIUM)

    def calls() -> Iterator[Any]:
        for number in range(20):
            array.shape = (-1, 2) if number >= 10 else (MEDIUM,)
            yield joblib.delayed(shape_and_sum)(array)

    found = [shape for shape, _ in joblib.Parallel(n_jobs=2, batch_size=1)(calls())]
    assert found == [(MEDIUM,)] * 10 + [(MEDIUM // 2, 2)] * 10


def names_of(array: numpy.ndarray) -> tuple[str, ...]:
    return array.dtype.names


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_array_of_medium_size_gets_other_field_names(on_scaler: Client) -> None:
    array = numpy.zeros(MEDIUM, dtype=[("x", "i4"), ("y", "i4")])

    def calls() -> Iterator[Any]:
        for number in range(20):
            array.dtype.names = ("y", "x") if number >= 10 else ("x", "y")
            yield joblib.delayed(names_of)(array)

    assert joblib.Parallel(n_jobs=2, batch_size=1)(calls()) == [("x", "y")] * 10 + [("y", "x")] * 10


def test_a_worker_without_joblib_is_told_so(on_scaler: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The import fails in this process instead, which runs the batch like a worker."""
    backend = ScalerBackend(client=on_scaler)
    arguments: list[Any] = []
    payload, nested_at = backend._pickle([NestedHere(backend)], arguments)
    for name in [name for name in sys.modules if name.partition(".")[0] == "joblib" or name.endswith(".joblib")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [NoJoblib(), *sys.meta_path])
    with pytest.raises(ModuleNotFoundError, match="this worker does not have joblib. Install it on all workers"):
        backend._function_of([])(payload, nested_at, *arguments)


class NestedHere:
    def __init__(self, backend: ScalerBackend) -> None:
        self.backend = backend.get_nested_backend()[0]


class NoJoblib:
    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] == "joblib" or name.endswith(".joblib"):
            raise ModuleNotFoundError(f"No module named {name!r}", name="joblib")


def test_a_custom_serializer_carries_batches(combo: SchedulerClusterCombo) -> None:
    register()
    with (
        Client(combo.get_address(), serializer=PlainPickle) as client,
        joblib.parallel_config("scaler", client=client),
    ):
        for size in (MEDIUM, LARGE):
            array = numpy.ones(size)
            assert run(both_ends, [array] * 6, batch_size=1) == [(1.0, 1.0)] * 6


def test_very_many_arrays_of_medium_size(on_scaler: Client) -> None:
    arrays = [numpy.full(1500, number) for number in range(600)]
    assert run(total_of_all, [arrays] * 4, batch_size=1) == [1500 * sum(range(600))] * 4
    arguments: list[Any] = []
    backend = joblib.parallel.get_active_backend()[0]
    for _ in range(2):
        arguments.clear()
        backend._pickle([(total_of_all, (arrays,), {})], arguments)
    assert 0 < len(arguments) <= 256
    backend.terminate()


def total_of_all(arrays: list[numpy.ndarray]) -> int:
    return int(sum(array.sum() for array in arrays))


def test_memory_that_all_write_to_is_refused(on_scaler: Client) -> None:
    with pytest.raises(ValueError, match="tasks on several hosts cannot write to the same memory"):
        run(square, range(3), mmap_mode="r+")


def test_objects_are_released_after_the_call(on_scaler: Client) -> None:
    """At once, and also if the caller keeps the arrays."""
    large, medium = numpy.ones(LARGE), numpy.ones(MEDIUM)
    gc.collect()
    gc.disable()
    try:
        run(describe, [large] * 4)
        run(describe, [medium] * 4, batch_size=1)
        wait_until(lambda: on_scaler.cluster_info().stores[0].objects == 0)
    finally:
        gc.enable()
    large.resize(2 * LARGE, refcheck=False)  # nothing refers to it


def test_the_batch_size_follows_the_time_of_execution(on_scaler: Client) -> None:
    """joblib's own measure contains the time that a batch waits for the earlier ones."""
    backend = ScalerBackend(on_scaler)
    future = on_scaler.submit(square, 3)
    assert future.result() == 9
    backend.batch_completed(1, 1000.0)
    assert backend.compute_batch_size() == 1
    backend._measure(1, future)
    assert backend._smoothed_batch_duration == future.profiling_info().duration_s


def test_a_batch_ends_with_its_last_reference(on_scaler: Client) -> None:
    backend = joblib.parallel.get_active_backend()[0]
    array = numpy.ones(MEDIUM)
    alive = weakref.ref(array)
    gc.collect()
    gc.disable()
    try:
        backend._pickle([(describe, (array,), {})], [])
        del array
        assert alive() is None
    finally:
        gc.enable()


def test_large_results_arrive(on_scaler: Client) -> None:
    assert [int(array[-1]) for array in run(make, range(6))] == list(range(6))


def test_an_exception_cancels_the_other_calls(on_scaler: Client) -> None:
    began = time.monotonic()
    with pytest.raises(KeyError, match="three"):
        run(fail_at_three, [3, 1, 2, 4])
    assert time.monotonic() - began < 28
    assert run(square, [5]) == [25]


def test_an_argument_that_does_not_pickle(on_scaler: Client) -> None:
    """Whether this thread or a callback sends it."""
    for count in (1, 30):
        with pytest.raises(TypeError, match="lock"):
            run(lambda item: None, [*range(count), threading.Lock()], batch_size=1)
    assert run(square, [5]) == [25]


def double(values: list[int]) -> list[int]:
    return [2 * value for value in values]


def test_futures_and_references_stand_for_their_values(on_scaler: Client) -> None:
    nothing, three = on_scaler.submit(str.strip, ""), on_scaler.submit(square, 3)
    none = on_scaler.submit([].clear)
    (scattered,) = on_scaler.scatter([list(range(100_000))])
    large = on_scaler.submit(double, scattered)
    reference = on_scaler.send_object({"sent": 1})
    calls = joblib.Parallel()(
        joblib.delayed(lambda *values: values)(nothing, none, [three, {"inside": three}], reference, number, none)
        for number in range(20)
    )
    assert calls == [("", None, [9, {"inside": 9}], {"sent": 1}, number, None) for number in range(20)]
    assert joblib.Parallel()(joblib.delayed(sum)(each) for each in (scattered, large)) == [4999950000, 9999900000]
    many = [on_scaler.submit(square, number) for number in range(3000)]
    assert joblib.Parallel(batch_size=1)(joblib.delayed(sum)(many[:count]) for count in (3000, 2)) == [8995500500, 1]


def test_a_future_that_failed_fails_the_call(on_scaler: Client) -> None:
    failed = on_scaler.submit(int, "x")
    with pytest.raises(ValueError, match="invalid literal"):
        joblib.Parallel()(joblib.delayed(square)(each) for each in (1, failed))
    with Client(on_scaler.address) as other, pytest.raises(ValueError, match="a future of another client"):
        joblib.Parallel()(joblib.delayed(square)(other.submit(square, number)) for number in range(3))


def test_calls_of_parallel_do_not_disturb_one_another(on_scaler: Client) -> None:
    kept = run(square, range(20), return_as="generator")
    dropped = run(time.sleep, [20, 20], return_as="generator")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about tasks that were cancelled
        del dropped
    assert list(kept) == [number * number for number in range(20)]


def test_a_timeout_ends_the_call(on_scaler: Client) -> None:
    from multiprocessing import TimeoutError as JoblibTimeout

    with pytest.raises(JoblibTimeout):
        run(time.sleep, [20, 20], timeout=0.2)
    assert run(square, [5]) == [25]


def test_generators(on_scaler: Client) -> None:
    assert list(run(square, range(5), return_as="generator")) == [0, 1, 4, 9, 16]
    assert sorted(run(square, range(5), return_as="generator_unordered")) == [0, 1, 4, 9, 16]


def test_a_context_of_parallel_serves_several_calls(on_scaler: Client) -> None:
    with joblib.Parallel(n_jobs=2) as parallel:
        for _ in range(3):
            assert parallel(joblib.delayed(square)(number) for number in range(4)) == [0, 1, 4, 9]


def test_nested_calls_use_the_cluster_if_they_say_so(on_scaler: Client) -> None:
    """More of them than there are workers, each of which waits for others."""
    assert run(squares_inside, [5] * 6, 2, batch_size=1) == [(30, False)] * 6
    assert run(squares_inside, [5] * 6, 2, "scaler", batch_size=1) == [(30, False)] * 6
    assert run(squares_inside, [5] * 6, None) == [(30, True)] * 6


def test_the_backend_needs_a_client() -> None:
    register()
    with pytest.raises(TypeError, match=r"pass client=Client\(\.\.\.\) to parallel_config"):
        joblib.parallel_config("scaler")
    with pytest.raises(TypeError, match=r"pass client=Client\(\.\.\.\)"):
        ScalerBackend(client="tcp://127.0.0.1:1")


_FORKS = "a fork cannot use the client of its parent, and a process of loky does not know the backend"
_LEAVES = "processes that another backend starts in a task end with the worker, without removing their semaphores"
_WARNS = "it expects a warning that inner calls run one after the other; here they run in parallel"
_THREADS = "it expects threads for inner calls; here they use the cluster, or run one after the other"
_ARRAYS = "it expects the type numpy.memmap; here a mapped array is a numpy.ndarray"
_LOKY = "it expects the class or the processes of loky"
_INITIALIZER = "it passes an initializer, which is refused"
JOBLIB_TESTS_NOT_RUN = {
    "test_auto_memmap_on_arrays_from_generator": _ARRAYS,
    "test_backend_context_manager": _LOKY,
    "test_error_capture": _LOKY,
    "test_initializer_context": _INITIALIZER,
    "test_initializer_parallel": _INITIALIZER,
    "test_memmapping_leaks": _ARRAYS,
    "test_multiple_generator_call_separated_gc": "it expects that only one generator can be used; here several can",
    "test_nested_backend_context_manager": _THREADS,
    "test_nested_loop[back_compat_backend-scaler]": _FORKS,
    "test_nested_loop[loky-scaler]": _FORKS,
    "test_nested_loop[multiprocessing-scaler]": _FORKS,
    "test_nested_loop[scaler-back_compat_backend]": _LEAVES,
    "test_nested_loop[scaler-loky]": _LEAVES,
    "test_nested_loop[scaler-multiprocessing]": _LEAVES,
    "test_nested_parallel_warnings[multiprocessing-scaler-True]": _FORKS,
    "test_nested_parallel_warnings[scaler-multiprocessing-True]": _WARNS,
    "test_nested_parallel_warnings[threading-scaler-True]": _WARNS,
    "test_nested_parallelism_limit": _THREADS,
    "test_thread_bomb_mitigation": "it expects RecursionError; here NoWorkerError says how deeply calls may be nested",
    "test_parallel_with_unpicklable_functions_in_args": "it takes long: it starts nine programs, all like another one",
}
"""The tests of joblib that do not run with this backend, and why."""

OF_PROCESSES = "scaler or exception_with_loky or functions_loky or threadpool_limitation_in_child_context"


def test_joblibs_own_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "test_parallel.py").write_text(source_of_joblib_tests())
    monkeypatch.syspath_prepend(str(tmp_path))  # workers import what the tests define
    monkeypatch.setenv("JOBLIB_TEMP_FOLDER", str(tmp_path))  # other backends leave folders behind
    left_out = [f"--deselect=test_parallel.py::{name}" for name in JOBLIB_TESTS_NOT_RUN]
    plugins = ["-p", "tests.support.joblib_backend", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir=.", *plugins, "-k", OF_PROCESSES]
    with SchedulerClusterCombo(n_workers=2) as combo:
        finished = subprocess.run(
            [*command, *left_out, "test_parallel.py"],
            cwd=tmp_path,
            env={**child_environment(), "PYTHONPATH": str(ROOT), "SCALER_ADDRESS_OF_TESTS": combo.get_address()},
            capture_output=True,
            text=True,
            timeout=180,
        )
    assert finished.returncode == 0, finished.stdout[-5000:]
    assert " failed" not in finished.stdout and " passed" in finished.stdout


# ---- threads of libraries, managers, initializers --------------------------------------------------------------------


def limits_of_threads() -> tuple[set[int], str | None]:
    found = importlib.import_module("threadpoolctl").threadpool_info()
    return {library["num_threads"] for library in found}, os.environ.get("OMP_NUM_THREADS")


def test_the_number_of_threads_of_libraries(client: Client) -> None:
    pytest.importorskip("threadpoolctl")
    register()
    usual = client.submit(limits_of_threads).result()[1]
    with joblib.parallel_config("scaler", client=client, inner_max_num_threads=3):
        limits = joblib.Parallel()(joblib.delayed(limits_of_threads)() for _ in range(4))
    assert {variable for _, variable in limits} == {"3"}
    assert all(threads <= {3} for threads, _ in limits)
    assert {each.result()[1] for each in [client.submit(limits_of_threads) for _ in range(4)]} == {usual}


def put(queue: Any, value: int) -> None:
    queue.put(value)


def test_a_queue_of_a_manager_is_an_argument(on_scaler: Client) -> None:
    with multiprocessing.Manager() as manager:
        queue = manager.Queue()
        joblib.Parallel()(joblib.delayed(put)(queue, value) for value in range(5))
        assert sorted(queue.get() for _ in range(5)) == list(range(5))


def test_a_lock_of_threading_is_refused_with_the_reason(on_scaler: Client) -> None:
    with pytest.raises(TypeError, match=r"Use client\.lock\(name\)"):
        joblib.Parallel()(joblib.delayed(put)(threading.Lock(), 1) for _ in range(2))


def test_an_initializer_is_refused(client: Client) -> None:
    register()
    with pytest.raises(ValueError, match="Cannot use an initializer"):
        joblib.parallel_config("scaler", client=client, initializer=print)
    with joblib.parallel_config("scaler", client=client), pytest.raises(ValueError, match="Cannot use an initializer"):
        joblib.Parallel(initializer=print)(joblib.delayed(square)(1) for _ in range(2))


def test_each_call_has_a_progress_of_its_own(on_scaler: Client) -> None:
    for _ in range(2):
        joblib.Parallel(n_jobs=2, batch_size=1)(joblib.delayed(square_of_it)(number) for number in range(50))

    def maps() -> list[tuple[int, int]]:
        found = on_scaler.cluster_info().maps
        return [(each.total, each.unfinished) for each in found if each.function == "square_of_it"]

    wait_until(lambda: maps() == [(50, 0)] * 2)  # descriptions may be a moment old


@pytest.mark.parametrize(("pre_dispatch", "is_open"), [("2*n_jobs", True), ("all", False)])
def test_monitors_know_the_number_of_batches_if_all_are_submitted_at_once(
    on_scaler: Client, tmp_path: Path, pre_dispatch: str, is_open: bool
) -> None:
    go = tmp_path / "go"

    def look() -> None:
        try:  # descriptions may be a moment old
            wait_until(
                lambda: any(each.unfinished and each.is_open is is_open for each in on_scaler.cluster_info().maps)
            )
        finally:
            go.touch()

    with ThreadPoolExecutor(1) as threads:
        looking = threads.submit(look)
        parallel = joblib.Parallel(n_jobs=2, batch_size=1, pre_dispatch=pre_dispatch)
        parallel(joblib.delayed(wait_for)(go) for _ in range(6))
        looking.result()


def wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)


def square_of_it(number: int) -> int:
    return number * number
