"""Futures behave as those of concurrent.futures, with nobody waiting too."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import pickle
import re
import threading
import time
import traceback
import weakref
from functools import partial
from pathlib import Path

import pytest

from scaler import Client
from scaler.utility.exceptions import DeserializeObjectError, ScalerError, TaskExceptionNotSerializableError
from tests.cluster.conftest import Gate
from tests.support import functions
from tests.support.commands import Stopwatch
from tests.support.waiting import wait_until


class CustomError(Exception):
    def __init__(self, text: str, number: int) -> None:
        super().__init__(text, number)
        self.text, self.number = text, number


def raise_custom() -> None:
    raise CustomError("custom", 7)


def raise_chained() -> None:
    try:
        functions.raise_value_error("the cause")
    except ValueError as error:
        raise KeyError("the effect") from error


def raise_unpicklable() -> None:
    error = RuntimeError("holds a lock")
    error.lock = threading.Lock()  # type: ignore[attr-defined]
    raise error


class RefusesToLoad(Exception):
    def __reduce__(self):  # type: ignore[no-untyped-def]
        return (int, ("not a number",))


def raise_unloadable() -> None:
    raise RefusesToLoad("text of it")


# ---- state and waiting -----------------------------------------------------------------------------------------


def test_running_right_after_submit(client: Client, gate: Gate) -> None:
    future = client.submit(functions.wait_at_gate, *gate.paths)
    assert future.running() and not future.done() and not future.cancelled()
    gate.open()
    future.result()
    assert future.done() and not future.running() and not future.cancelled()


def test_it_is_a_standard_future(client: Client) -> None:
    assert isinstance(client.submit(functions.square, 3), concurrent.futures.Future)


def test_result_timeout(client: Client, gate: Gate) -> None:
    future = client.submit(functions.wait_at_gate, *gate.paths, "late")
    watch = Stopwatch()
    with pytest.raises(concurrent.futures.TimeoutError):
        future.result(timeout=0.1)
    with pytest.raises(TimeoutError):
        future.exception(timeout=0.1)
    with pytest.raises(TimeoutError):
        future.result(timeout=0)
    assert 0.2 <= watch.seconds < 30
    gate.open()
    assert future.result(timeout=60) == "late"
    assert future.result(0) == "late"
    assert future.exception(0) is None


def test_polling_done_makes_progress(client: Client) -> None:
    futures = [client.submit(functions.square, number) for number in range(100)]
    deadline = time.monotonic() + 30
    while not all(future.done() for future in futures):
        assert time.monotonic() < deadline
    assert [future.result() for future in futures] == [n * n for n in range(100)]


def test_polling_a_single_future_without_pause(client: Client) -> None:
    for number in range(20):
        future = client.submit(functions.square, number)
        deadline = time.monotonic() + 30
        while not future.done():
            assert time.monotonic() < deadline
        assert future.result() == number * number


def test_callback_fires_with_nobody_waiting(client: Client) -> None:
    called = threading.Event()
    seen = []

    def callback(future: concurrent.futures.Future[int]) -> None:
        seen.append(future.result())
        called.set()

    client.submit(functions.square, 3).add_done_callback(callback)
    assert called.wait(60)
    assert seen == [9]


def test_callback_on_a_finished_future_runs_at_once(client: Client) -> None:
    future = client.submit(functions.square, 3)
    future.result()
    seen = []
    future.add_done_callback(lambda done: seen.append(done.result()))
    assert seen == [9]


def test_callback_that_fails_hurts_nothing(client: Client) -> None:
    future = client.submit(functions.square, 3)
    future.add_done_callback(lambda _: 1 / 0)
    assert future.result() == 9
    assert client.submit(functions.square, 4).result() == 16


def test_callback_may_submit(client: Client) -> None:
    chained: list[concurrent.futures.Future[int]] = []
    client.submit(functions.square, 3).add_done_callback(
        lambda done: chained.append(client.submit(functions.square, done.result()))
    )
    wait_until(lambda: chained)
    assert chained[0].result(timeout=60) == 81


def test_callback_may_wait_for_another_future(client: Client) -> None:
    answers: list[int] = []
    client.submit(functions.square, 3).add_done_callback(
        lambda done: answers.append(client.submit(functions.square, done.result()).result(timeout=60))
    )
    wait_until(lambda: answers)
    assert answers == [81]


def test_wait(client: Client, gate: Gate) -> None:
    quick = [client.submit(functions.square, number) for number in range(10)]
    slow = client.submit(functions.wait_at_gate, *gate.paths)
    done, pending = concurrent.futures.wait([*quick, slow], timeout=60, return_when=concurrent.futures.FIRST_COMPLETED)
    assert done and slow in pending
    done, pending = concurrent.futures.wait(quick, timeout=60)
    assert done == set(quick) and not pending
    gate.open()
    done, pending = concurrent.futures.wait([*quick, slow], timeout=60)
    assert slow in done and not pending


def test_wait_times_out(client: Client, gate: Gate) -> None:
    slow = client.submit(functions.wait_at_gate, *gate.paths)
    done, pending = concurrent.futures.wait([slow], timeout=0.1)
    assert not done and pending == {slow}


def test_wait_for_first_exception(client: Client, gate: Gate) -> None:
    slow = client.submit(functions.wait_at_gate, *gate.paths)
    failing = client.submit(functions.raise_value_error, "bad")
    done, _ = concurrent.futures.wait([slow, failing], timeout=60, return_when=concurrent.futures.FIRST_EXCEPTION)
    assert failing in done and slow not in done


def test_as_completed(client: Client, gate: Gate) -> None:
    slow = client.submit(functions.wait_at_gate, *gate.paths, -1)
    quick = [client.submit(functions.square, number) for number in range(50)]
    order = []
    for future in concurrent.futures.as_completed([slow, *quick], timeout=60):
        order.append(future.result())
        if len(order) == 50:
            gate.open()
    assert order[-1] == -1 and sorted(order[:-1]) == [n * n for n in range(50)]


def test_as_completed_times_out(client: Client, gate: Gate) -> None:
    slow = client.submit(functions.wait_at_gate, *gate.paths)
    with pytest.raises(TimeoutError):
        list(concurrent.futures.as_completed([slow], timeout=0.1))


def test_await(client: Client) -> None:
    async def main() -> list[int]:
        first = await client.submit(functions.square, 3)
        rest = await asyncio.gather(*[client.submit(functions.square, number) for number in range(20)])
        return [first, *rest]

    assert asyncio.run(main()) == [9, *[n * n for n in range(20)]]


def test_await_keeps_the_loop_running(client: Client, gate: Gate) -> None:
    async def main() -> str:
        future = client.submit(functions.wait_at_gate, *gate.paths, "value")
        asyncio.get_running_loop().call_later(0.05, gate.open)
        return await future

    assert asyncio.run(main()) == "value"


def test_await_of_a_failure(client: Client) -> None:
    async def main() -> None:
        await client.submit(functions.raise_value_error, "bad")

    with pytest.raises(ValueError, match="bad"):
        asyncio.run(main())


def test_wrap_future(client: Client) -> None:
    async def main() -> int:
        return await asyncio.wrap_future(client.submit(functions.square, 3))

    assert asyncio.run(main()) == 9


def test_results_come_with_a_busy_caller(client: Client) -> None:
    """The caller's thread holds the interpreter; a callback runs all the same."""
    seen: list[int] = []
    client.submit(functions.square, 3).add_done_callback(lambda done: seen.append(done.result()))
    deadline = time.monotonic() + 30
    while not seen and time.monotonic() < deadline:
        sum(range(1000))
    assert seen == [9]


def test_many_threads_wait_for_one_future(client: Client, gate: Gate) -> None:
    future = client.submit(functions.wait_at_gate, *gate.paths, "value")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(future.result, 20) for _ in range(8)]
        gate.open()
        assert [waiter.result(timeout=60) for waiter in waiting] == ["value"] * 8


def test_finished_futures_are_not_kept(client: Client) -> None:
    future = client.submit(functions.square, 3)
    future.result()
    reference = weakref.ref(future)
    del future
    gc.collect()
    wait_until(lambda: reference() is None, what="future collected")


def test_abandoned_futures_still_run(client: Client, tmp_path: Path) -> None:
    path = str(tmp_path / "ran")
    client.submit(functions.note, path)
    gc.collect()
    wait_until(lambda: functions.notes(path))


# ---- cancelling ------------------------------------------------------------------------------------------------


def test_cancelling_a_queued_task(single_client: Client, gate: Gate, tmp_path: Path) -> None:
    path = str(tmp_path / "ran")
    blocker = single_client.submit(functions.wait_at_gate, *gate.paths, "kept")
    wait_until(lambda: gate.waiting_pids)
    queued = [single_client.submit(functions.note, path) for _ in range(20)]
    assert all(future.cancel() for future in queued)
    assert all(future.cancelled() and future.done() for future in queued)
    for future in queued:
        with pytest.raises(concurrent.futures.CancelledError):
            future.result(timeout=1)
        with pytest.raises(concurrent.futures.CancelledError):
            future.exception(timeout=1)
    last = single_client.submit(functions.square, 3)
    for _ in range(3):
        single_client.explain(blocker)  # round trips: the cancels have overtaken nothing, they arrived
    gate.open()
    assert (blocker.result(), last.result()) == ("kept", 9)
    assert functions.notes(path) == []


def test_cancelling_a_running_task_frees_its_slot(single_client: Client, gate: Gate) -> None:
    future = single_client.submit(functions.wait_at_gate, *gate.paths)
    wait_until(lambda: gate.waiting_pids)
    assert future.cancel() is True
    assert future.cancelled()
    assert single_client.submit(functions.process_id).result(timeout=60) == gate.waiting_pids[0]


def test_an_interrupted_task_sees_an_exception_that_except_exception_misses(
    single_client: Client, gate: Gate, tmp_path: Path
) -> None:
    path = str(tmp_path / "seen")

    def run(started: str, gate_path: str) -> None:
        try:
            try:
                functions.wait_at_gate(started, gate_path)
            except Exception:
                functions.note(path, "swallowed")
        except BaseException as error:
            functions.note(path, type(error).__name__)
            raise

    future = single_client.submit(run, *gate.paths)
    wait_until(lambda: gate.waiting_pids)
    future.cancel()
    wait_until(lambda: functions.notes(path))
    assert functions.notes(path) == ["TaskCancelled"]


@pytest.mark.parametrize("refuse", [functions.loop_in_c, functions.swallow_interrupts])
def test_a_task_that_ignores_cancelling_is_killed(single_client: Client, gate: Gate, refuse) -> None:  # type: ignore[no-untyped-def]
    argument = 20_000_000_000 if refuse is functions.loop_in_c else 30.0
    future = single_client.submit(refuse, str(gate.started), argument)
    wait_until(lambda: gate.waiting_pids)
    watch = Stopwatch()
    assert future.cancel()
    assert single_client.submit(functions.process_id).result(timeout=60) not in gate.waiting_pids
    assert watch.seconds > 1.0


def test_cancelling_a_finished_task_is_false(client: Client) -> None:
    future = client.submit(functions.square, 3)
    future.result()
    assert future.cancel() is False
    assert not future.cancelled() and future.result() == 9


def test_cancelling_twice(client: Client, gate: Gate) -> None:
    future = client.submit(functions.wait_at_gate, *gate.paths)
    assert future.cancel() and future.cancel()


def test_cancelling_calls_callbacks_and_wakes_waiters(client: Client, gate: Gate) -> None:
    future = client.submit(functions.wait_at_gate, *gate.paths)
    seen: list[bool] = []
    future.add_done_callback(lambda done: seen.append(done.cancelled()))
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiter = pool.submit(future.exception, 20)
        future.cancel()
        with pytest.raises(concurrent.futures.CancelledError):
            waiter.result(timeout=60)
    assert seen == [True]


def test_cancelling_one_leaves_its_neighbours(client: Client) -> None:
    futures = [client.submit(functions.spin_and_square, number) for number in range(2000)]
    cancelled = {number for number in range(0, 2000, 7) if futures[number].cancel()}
    for number, future in enumerate(futures):
        if number in cancelled:
            assert future.cancelled()
        else:
            assert future.result(timeout=60) == number * number


def test_late_interrupts_hit_nobody_else(single_client: Client) -> None:
    """Cancel tasks that are just about to end, many times: no other task ever sees it."""
    for number in range(60):
        victim = single_client.submit(functions.spin_and_square, number, 0.002)
        neighbour = single_client.submit(functions.spin_and_square, number, 0.001)
        functions.spin_and_square(0, 0.0001 * (number % 30))
        victim.cancel()
        assert neighbour.result(timeout=60) == number * number


# ---- exceptions ------------------------------------------------------------------------------------------------


def test_exception_keeps_type_and_message(client: Client) -> None:
    future = client.submit(functions.raise_value_error, "bad thing")
    with pytest.raises(ValueError, match="^bad thing$"):
        future.result()
    error = future.exception()
    assert type(error) is ValueError


def test_exception_keeps_its_attributes(client: Client) -> None:
    with pytest.raises(CustomError) as caught:
        client.submit(raise_custom).result()
    assert (caught.value.text, caught.value.number) == ("custom", 7)


def test_exception_shows_the_remote_traceback(client: Client) -> None:
    with pytest.raises(ValueError) as caught:
        client.submit(functions.raise_value_error, "bad").result()
    text = "".join(traceback.format_exception(caught.value))
    assert "in raise_value_error" in text and "functions.py" in text and "raise ValueError(text)" in text


def test_chained_exceptions_show_both(client: Client) -> None:
    with pytest.raises(KeyError) as caught:
        client.submit(raise_chained).result()
    text = "".join(traceback.format_exception(caught.value))
    assert "the cause" in text and "the effect" in text


def test_a_traceback_appears_once_and_shows_the_users_frames_only(client: Client) -> None:
    future = client.submit(raise_chained)
    for _ in range(2):
        with pytest.raises(KeyError) as caught:
            future.result()
        text = "".join(traceback.format_exception(caught.value))
        assert text.count("in raise_chained") == 2  # the cause and the effect
        assert not [name for name in ("scaler/client", "scaler_worker", "cloudpickle", ".pyx") if name in text]
    assert type(caught.value.__context__) is ValueError
    with pytest.raises(TypeError) as caught_call:
        client.submit(partial(pow, "x"), 2).result()
    text = "".join(traceback.format_exception(caught_call.value))
    assert "scaler_worker" not in text and ".pyx" not in text


class Holder:
    def __init__(self) -> None:
        self.lock = threading.Lock()


def make_holder(number: int) -> list[Holder]:
    return [Holder()]


def test_a_result_that_cannot_be_pickled_names_the_function_and_the_part(client: Client) -> None:
    text = (
        "Cannot send the result of make_holder(): item 0 of list: attribute 'lock' of Holder: "
        "cannot pickle '_thread.lock' object"
    )
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$") as caught:
        client.submit(make_holder, 1).result()
    assert "cloudpickle" not in "".join(traceback.format_exception(caught.value))
    with pytest.raises(TypeError) as caught_map:
        client.map(make_holder, [1, 2])
    assert caught_map.value.__notes__ == ["Raised by item 0 of map(), counting from 0: make_holder(1)"]
    assert client.submit(functions.square, 3).result() == 9


def test_exception_class_of_the_main_program(client: Client) -> None:
    class LocalError(Exception):
        pass

    def run() -> None:
        raise LocalError("local")

    with pytest.raises(Exception, match="local") as caught:
        client.submit(run).result()
    assert type(caught.value).__name__ == "LocalError"


def test_raising_the_same_failure_twice(client: Client) -> None:
    future = client.submit(functions.raise_value_error, "bad")
    for _ in range(3):
        with pytest.raises(ValueError, match="bad"):
            future.result()


def test_system_exit_is_the_tasks_failure(client: Client) -> None:
    def leave() -> None:
        raise SystemExit(3)

    error = client.submit(leave).exception(timeout=60)
    assert error is not None
    assert client.submit(functions.square, 3).result() == 9


def test_keyboard_interrupt_is_the_tasks_failure(client: Client) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    error = client.submit(interrupt).exception(timeout=60)
    assert isinstance(error, BaseException)
    assert client.submit(functions.square, 3).result() == 9


def test_exception_that_cannot_be_pickled(client: Client) -> None:
    with pytest.raises(TaskExceptionNotSerializableError, match="RuntimeError: holds a lock") as caught:
        client.submit(raise_unpicklable).result(timeout=60)
    assert isinstance(caught.value, ScalerError)


def test_exception_that_cannot_be_loaded_fails_that_future_alone(client: Client) -> None:
    others = [client.submit(functions.square, number) for number in range(100)]
    error = client.submit(raise_unloadable).exception(timeout=60)
    assert isinstance(error, ScalerError)
    assert "RefusesToLoad" in str(error) and "text of it" in str(error)
    assert [future.result() for future in others] == [n * n for n in range(100)]


class LoadsOnlyThere:
    """Loads on a worker, not in the client's process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def __reduce__(self):  # type: ignore[no-untyped-def]
        return (_load_only_in, (functions.process_id(),))


def _load_only_in(pid: int) -> LoadsOnlyThere:
    if functions.process_id() != pid:
        raise ImportError("not here")
    return LoadsOnlyThere(pid)


def test_result_that_cannot_be_loaded_fails_that_future_alone(client: Client) -> None:
    other = client.submit(functions.square, 3)
    with pytest.raises(DeserializeObjectError):
        client.submit(LoadsOnlyThere, 1).result(timeout=60)
    assert other.result() == 9


def test_every_error_pickles() -> None:
    from scaler.utility import exceptions

    names = [
        "ProcessorDiedError", "WorkerDiedError", "NoWorkerError", "MissingObjects", "DisconnectedError",
        "TaskTimeoutError", "TaskMemoryError", "ClientQuitException", "DeserializeObjectError",
        "TaskExceptionNotSerializableError", "TaskNotFoundError",
    ]  # fmt: skip
    for name in names:
        kind = getattr(exceptions, name)
        assert issubclass(kind, ScalerError)
        copy = pickle.loads(pickle.dumps(kind("text")))
        assert type(copy) is kind and "text" in str(copy)
    assert issubclass(exceptions.DisconnectedError, TimeoutError)


def test_a_task_that_raises_what_interrupts_tasks_was_not_cancelled(client: Client) -> None:
    def raises() -> None:
        from scaler_worker.worker_process.errors import TaskCancelled

        raise TaskCancelled("by itself")

    future = client.submit(raises)
    error = future.exception(timeout=60)
    assert type(error).__name__ == "TaskCancelled" and str(error) == "by itself" and not future.cancelled()


# ---- many results at once --------------------------------------------------------------------------------------


def test_callbacks_that_submit_do_not_run_inside_one_another(single_client: Client) -> None:
    running: set[int] = set()
    nested: list[bool] = []
    again: list[concurrent.futures.Future[int]] = []

    def submit_again(_: object) -> None:
        me = threading.get_ident()
        nested.append(me in running)
        running.add(me)
        again.append(single_client.submit(functions.add, 1, 1))
        running.discard(me)

    for _ in range(4):
        futures = [single_client.submit(functions.add, number, 1) for number in range(2000)]
        for future in futures:
            future.add_done_callback(submit_again)
        assert [future.result() for future in futures] == list(range(1, 2001))
    wait_until(lambda: len(again) == 8000)
    assert {future.result() for future in again} == {2}
    assert not any(nested)


def test_a_sum_by_pairs_of_thousands_of_numbers(single_client: Client) -> None:
    """The results of a level arrive together, and each lets a call of the next level be sent."""
    for _ in range(4):
        level = [single_client.submit(functions.add, number, number) for number in range(4096)]
        while len(level) > 1:
            level = [single_client.submit(functions.add, *pair) for pair in zip(level[::2], level[1::2], strict=True)]
        assert level[0].result(timeout=60) == 4095 * 4096
