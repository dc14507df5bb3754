"""The executor behaves as those of the standard library, whose own tests assert the same."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler import Client, Executor
from tests.cluster.conftest import Gate
from tests.support import functions
from tests.support.commands import child_environment
from tests.support.waiting import wait_until


@pytest.fixture
def executor(client: Client) -> Iterator[Executor]:
    with client.as_executor() as made:
        yield made


@pytest.fixture
def single_executor(single_client: Client) -> Iterator[Executor]:
    with single_client.as_executor() as made:
        yield made


# ---- submit and map ------------------------------------------------------------------------------------------------


def test_it_is_an_executor(executor: Executor) -> None:
    assert isinstance(executor, concurrent.futures.Executor)
    future = executor.submit(pow, 2, 8)
    assert isinstance(future, concurrent.futures.Future) and future.result() == 256
    assert executor.submit(sorted, [1, 2], reverse=True).result() == [2, 1]


def test_libraries_that_keep_some_calls_in_flight_see_the_number_of_workers(executor: Executor) -> None:
    """Dask reads it where an executor is its scheduler."""
    array = pytest.importorskip("dask.array")
    wait_until(lambda: executor._max_workers == 2)
    assert array.ones((40, 40), chunks=10).sum().compute(scheduler=executor) == 1600


def test_every_keyword_belongs_to_the_function(executor: Executor) -> None:
    def keywords(**values: int) -> dict[str, int]:
        return values

    expected = {"self": 1, "fn": 2, "profiling": 3, "timeout_seconds": 4}
    assert executor.submit(keywords, **expected).result() == expected
    assert executor.submit(keywords, **expected).result() == expected


@pytest.mark.parametrize("options", [{}, {"chunksize": 3}, {"chunksize": 100}, {"buffersize": 2, "chunksize": 2}])
def test_map(executor: Executor, options: dict[str, int]) -> None:
    assert list(executor.map(pow, range(10), range(10), **options)) == list(map(pow, range(10), range(10)))
    assert list(executor.map(pow, [], **options)) == []


@pytest.mark.parametrize("options", [{}, {"chunksize": 3}, {"buffersize": 2}])
def test_map_shows_a_bar(executor: Executor, capsys: pytest.CaptureFixture[str], options: dict[str, int]) -> None:
    pytest.importorskip("tqdm")
    assert list(executor.map(abs, range(10), progress=True, **options)) == list(range(10))
    assert "abs: 100%" in capsys.readouterr().err


def test_map_without_bars_submits_nothing(executor: Executor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    with pytest.raises(ImportError, match="neither tqdm nor rich is installed"):
        next(executor.map(Path.touch, [tmp_path / "called"], progress=True))
    executor.shutdown()
    assert not (tmp_path / "called").exists()


def test_map_raises_at_the_item_that_failed(executor: Executor) -> None:
    results = executor.map(divmod, [1, 1, 1, 1], [2, 3, 0, 5])
    assert [next(results), next(results)] == [(0, 1), (0, 1)]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_map_has_one_time_limit(executor: Executor, gate: Gate) -> None:
    results = []
    assert list(executor.map(abs, [-1, -1])) == [1, 1]  # the workers have started
    with pytest.raises(TimeoutError):
        for result in executor.map(wait_if_last, [0, 1, 2], [gate.paths] * 3, timeout=5):
            results.append(result)
    assert results == [0, 1]
    gate.open()  # the executor waits for its tasks


def wait_if_last(number: int, paths: tuple[str, str]) -> int:
    return functions.wait_at_gate(*paths, number) if number == 2 else number


def test_map_takes_ahead_no_more_than_the_buffer(executor: Executor) -> None:
    taken: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(20):
            taken.append(number)
            yield number

    results = executor.map(abs, numbers(), buffersize=4)
    assert taken == [0, 1, 2, 3]
    assert next(results) == 0 and taken == [0, 1, 2, 3, 4]
    assert list(results) == list(range(1, 20))


def test_the_arguments_of_map_are_checked(executor: Executor) -> None:
    with pytest.raises(ValueError, match="chunksize must be >= 1"):
        executor.map(abs, [1], chunksize=0)
    with pytest.raises(ValueError, match="buffersize must be None or > 0"):
        executor.map(abs, [1], buffersize=0)
    with pytest.raises(TypeError, match="buffersize must be an integer or None"):
        executor.map(abs, [1], buffersize="1")  # type: ignore[arg-type]


def test_a_map_that_is_left_cancels_what_has_not_started(
    single_client: Client, single_executor: Executor, gate: Gate
) -> None:
    started, path = gate.paths
    results = single_executor.map(functions.wait_at_gate, [started] * 5, [path] * 5, timeout=2)
    with pytest.raises(TimeoutError):
        next(results)
    wait_until(lambda: sum(single_client.cluster_info().unfinished) == 1)  # the map does not wait for its cancels
    gate.open()
    assert single_executor.submit(abs, -1).result() == 1
    assert len(gate.waiting_pids) == 1


def test_wait_and_as_completed(executor: Executor) -> None:
    futures = [executor.submit(functions.sleep_and_return, 0.05 * (3 - place), place) for place in range(3)]
    assert {future.result() for future in concurrent.futures.as_completed(futures, timeout=30)} == {0, 1, 2}
    done, missing = concurrent.futures.wait(futures)
    assert done == set(futures) and not missing


def test_asyncio_runs_functions_in_it(executor: Executor) -> None:
    async def run() -> int:
        return await asyncio.get_running_loop().run_in_executor(executor, pow, 2, 5)

    assert asyncio.run(run()) == 32


# ---- cancel --------------------------------------------------------------------------------------------------------


def test_only_what_has_not_started_is_cancelled(single_executor: Executor, gate: Gate) -> None:
    running = single_executor.submit(functions.wait_at_gate, *gate.paths, "done")
    wait_until(lambda: bool(gate.waiting_pids))
    waiting = [single_executor.submit(abs, -number) for number in range(3000)]
    assert not running.running() and "pending" in repr(running)
    assert not running.cancel()
    assert running.running() and not running.cancelled() and "running" in repr(running)
    assert waiting[0].cancel() and waiting[0].cancel() and waiting[1500].cancel() and waiting[-1].cancel()
    assert waiting[0].cancelled() and waiting[0].done() and not waiting[0].running()
    gate.open()
    assert running.result() == "done" and not running.cancel()
    assert sum(future.result() for future in waiting if not future.cancelled()) == sum(range(3000)) - 1500 - 2999
    with pytest.raises(concurrent.futures.CancelledError):
        waiting[1500].result(60)


def test_the_futures_of_a_client_can_spare_what_runs(single_client: Client, gate: Gate) -> None:
    running = single_client.submit(functions.wait_at_gate, *gate.paths, "done")
    wait_until(lambda: bool(gate.waiting_pids))
    waiting = single_client.submit(abs, -1)
    assert waiting.cancel(running=False) and not running.cancel(running=False)
    gate.open()
    assert running.result() == "done"


def test_an_executor_can_interrupt_what_runs(single_executor: Executor, gate: Gate) -> None:
    running = single_executor.submit(functions.wait_at_gate, *gate.paths)
    wait_until(lambda: bool(gate.waiting_pids))
    assert running.cancel(running=True) and running.cancelled()
    assert single_executor.submit(abs, -1).result() == 1


def test_callbacks_are_called_for_what_is_cancelled(single_executor: Executor, gate: Gate) -> None:
    running = single_executor.submit(functions.wait_at_gate, *gate.paths)
    wait_until(lambda: bool(gate.waiting_pids))
    called: list[object] = []
    future = single_executor.submit(abs, -1)
    future.add_done_callback(called.append)
    assert future.cancel() and called == [future]
    gate.open()
    running.result()


# ---- shutdown ------------------------------------------------------------------------------------------------------


def test_nothing_can_be_submitted_after_shutdown(client: Client) -> None:
    executor = client.as_executor()
    future = executor.submit(functions.sleep_and_return, 0.3, 1)
    executor.shutdown()
    executor.shutdown()
    assert future.done()
    with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
        executor.submit(pow, 2, 5)
    assert client.submit(pow, 2, 5).result() == 32


def test_a_callback_may_shut_down(client: Client, gate: Gate) -> None:
    executor = client.as_executor()
    ended: list[bool] = []

    def shut_down(future: concurrent.futures.Future[None]) -> None:
        executor.shutdown()
        ended.append(future.done())

    executor.submit(functions.wait_at_gate, *gate.paths).add_done_callback(shut_down)
    gate.open()
    wait_until(lambda: ended == [True])


def test_shutdown_waits_for_callbacks(client: Client, gate: Gate) -> None:
    ended: list[object] = []
    executor = client.as_executor()

    def end_during_shutdown(future: concurrent.futures.Future[int]) -> None:
        with pytest.raises(RuntimeError, match="after shutdown"):
            wait_until(lambda: executor.submit(abs, -1) is None)
        ended.append(future.result())

    executor.submit(functions.wait_at_gate, *gate.paths, 7).add_done_callback(end_during_shutdown)
    gate.open()  # the callback waits in another thread until the shutdown has begun
    executor.shutdown()
    assert ended == [7]


def test_shutdown_cancels_what_has_not_started(single_client: Client, gate: Gate) -> None:
    executor = single_client.as_executor()
    running = executor.submit(functions.wait_at_gate, *gate.paths, "done")
    wait_until(lambda: bool(gate.waiting_pids))
    waiting = [executor.submit(abs, number) for number in range(500)]
    executor.shutdown(wait=False, cancel_futures=True)
    assert all(future.cancelled() for future in waiting) and not running.done()
    gate.open()
    assert running.result() == "done"


def test_a_cluster_of_its_own() -> None:
    with Executor(n_workers=1) as executor:
        small, large = executor.submit(pow, 2, 5), executor.submit(bytes, 5_000_000)
    assert small.result() == 32 and len(large.result()) == 5_000_000


def test_shutdown_without_waiting_lets_calls_finish(combo) -> None:  # type: ignore[no-untyped-def]
    executor = Executor(combo.get_address())
    futures = [executor.submit(functions.sleep_and_return, 0.2, bytes(2_000_000)) for _ in range(4)]
    executor.shutdown(wait=False)
    assert [len(future.result()) for future in futures] == [2_000_000] * 4


def test_an_executor_that_is_dropped_lets_calls_finish(combo) -> None:  # type: ignore[no-untyped-def]
    futures = list(map(Executor(combo.get_address()).submit, [functions.sleep_and_return] * 3, [0.2] * 3, range(3)))
    gc.collect()
    assert [future.result() for future in futures] == [0, 1, 2]


def test_it_needs_either_an_address_or_workers() -> None:
    for arguments in ({}, {"address": "tcp://127.0.0.1:1", "n_workers": 1}):
        with pytest.raises(ValueError, match="either an address or n_workers"):
            Executor(**arguments)  # type: ignore[arg-type]
    for n_workers in (0, -1):
        with pytest.raises(ValueError, match="n_workers must be greater than 0"):
            Executor(n_workers=n_workers)


# ---- the exit of the interpreter -----------------------------------------------------------------------------------


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100, env=child_environment()
    )


@pytest.mark.parametrize("ending", ["", "executor.shutdown(wait=False)", "del executor"])
def test_the_interpreter_waits_for_calls(ending: str) -> None:
    program = f"""
import time, scaler
def late(future): print("late", future.result())
executor = scaler.Executor(n_workers=1)
def nap(): time.sleep(0.5); return 7
executor.submit(nap).add_done_callback(late)
{ending}
"""
    finished = run(program)
    assert (finished.stdout, finished.stderr, finished.returncode) == ("late 7\n", "", 0)


def test_nothing_can_be_submitted_at_the_exit() -> None:
    program = """
import atexit, scaler
@atexit.register
def last():
    try: executor.submit(abs, 1)
    except RuntimeError as error: print(error)
executor = scaler.Executor(n_workers=1)
"""
    assert run(program).stdout == "cannot schedule new futures after interpreter shutdown\n"


def test_an_executor_cannot_be_sent(executor: Executor) -> None:
    with pytest.raises(TypeError, match=r"An executor cannot be sent or pickled: .*Client\(\)\.as_executor"):
        executor.submit(lambda: executor.submit(len, ""))


def test_a_forked_child_is_told_to_make_its_own(executor: Executor) -> None:
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            executor.submit(len, "")
        except RuntimeError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    os.close(writer)
    with open(reader) as file:
        assert file.read().startswith("Cannot use this executor here: it was created before its process was forked")
    assert executor.submit(len, "ab").result() == 2
