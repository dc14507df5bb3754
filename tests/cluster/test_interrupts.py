"""Ctrl-C while tasks are submitted and results stream in: the call is interrupted, no future is lost."""

from __future__ import annotations

import gc
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial

import pytest

from scaler import Client, ScalerFuture
from tests.cluster.conftest import Gate
from tests.support import functions
from tests.support.waiting import wait_until

ROUNDS = 40
TASKS = 400
AGAIN_SECONDS = 0.01
NUDGE_SECONDS = 0.05


class Interruption(BaseException):
    pass


@pytest.fixture
def interrupting() -> Iterator[None]:
    def interrupt(*_: object) -> None:
        raise Interruption

    gc.collect()  # of what earlier tests have left: each finalizer delays the interruption
    before = signal.signal(signal.SIGALRM, interrupt)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "unraisablehook", interrupt_again)
        yield
        signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def interrupt_again(unraisable: sys.UnraisableHookArgs) -> None:
    """A finalizer, or a callback of a weak reference, has swallowed the interruption."""
    if isinstance(unraisable.exc_value, Interruption):
        signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)


@pytest.mark.timeout(110)  # kept by the watchdog: the timer and the signal of pytest-timeout are in use here
@pytest.mark.usefixtures("interrupting")
def test_no_future_is_lost_when_its_client_is_interrupted(client: Client) -> None:
    chance = random.Random(7)
    for _ in range(ROUNDS):
        futures: list[ScalerFuture] = []
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0005, 0.03))
                for number in range(TASKS):
                    futures.append(client.submit(abs, -number))
                for future in futures:
                    future.result(timeout=60)
                time.sleep(0.05)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except Interruption:
            pass
        assert [future.result(timeout=60) for future in futures] == list(range(len(futures)))


def test_a_callback_waits_for_a_future_of_the_same_message(client: Client) -> None:
    results = []
    first, second = client.submit(abs, -1), client.submit(abs, -2)
    second.add_done_callback(lambda _: None)
    first.add_done_callback(lambda _: results.append(second.result(60)))
    assert client.submit(abs, -3).result(60) == 3 and first.result(60) == 1
    assert second.result(60) == 2


def interrupt_in(
    call: Callable[[], object],
    when: Callable[[], object],
    error: type[BaseException] = Interruption,
    timeout_seconds: float = 60.0,
) -> None:
    """Interrupt ``call``, in the main thread, once ``when`` is true; it raises ``error``. If that is not true in time,
    interrupt it, too, and raise AssertionError: it would wait for much longer, and not say why."""
    main = threading.get_ident()
    is_over = threading.Event()
    failures: list[AssertionError] = []

    def interrupt() -> None:
        try:
            wait_until(when, timeout_seconds)
        except AssertionError as failure:
            failures.append(failure)
        signal.pthread_kill(main, signal.SIGALRM)
        while not is_over.wait(NUDGE_SECONDS):  # a signal just before a lock blocks is handled after the next one
            signal.pthread_kill(main, signal.SIGUSR1)

    watcher = threading.Thread(target=interrupt)
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        with pytest.raises(error):
            watcher.start()
            call()
    finally:
        is_over.set()
        watcher.join()
        signal.signal(signal.SIGUSR1, before)
    if failures:
        raise failures[0]


class Finalized:
    """An interruption comes in the middle of its finalizer, which swallows it."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGALRM)


@pytest.mark.usefixtures("interrupting")
@pytest.mark.timeout(110)
def test_an_interruption_that_a_finalizer_swallows_comes_again() -> None:
    with pytest.raises(Interruption):
        Finalized()
        threading.Event().wait(60)


@pytest.mark.usefixtures("interrupting")
@pytest.mark.timeout(110)
def test_a_moment_that_does_not_come_is_a_failure_and_not_a_wait() -> None:
    with pytest.raises(AssertionError, match="not within"):
        interrupt_in(lambda: threading.Event().wait(60), lambda: False, timeout_seconds=0.1)


WAITS: dict[str, Callable[[Client, tuple[str, str]], object]] = {
    "imap": lambda client, paths: list(client.imap(functions.wait_at_gate, [paths[0]], [paths[1]])),
    "imap_unordered": lambda client, paths: list(client.imap_unordered(functions.wait_at_gate, [paths[0]], [paths[1]])),
    "map": lambda client, paths: client.map(functions.wait_at_gate, [paths[0]] * 3, [paths[1]] * 3),
    "starmap": lambda client, paths: client.starmap(functions.wait_at_gate, [paths] * 3),
    "get": lambda client, paths: client.get(
        {"a": paths[0], "b": paths[1], "c": (functions.wait_at_gate, "a", "b")}, ["c"]
    ),
}


@pytest.mark.parametrize("name", WAITS)
@pytest.mark.usefixtures("interrupting")
@pytest.mark.timeout(110)
def test_a_call_that_is_interrupted_frees_its_worker(single_client: Client, gate: Gate, name: str) -> None:
    interrupt_in(lambda: WAITS[name](single_client, gate.paths), lambda: gate.waiting_pids)
    assert single_client.submit(functions.square, 3).result(timeout=60) == 9  # the gate is still closed


@pytest.mark.usefixtures("interrupting")
@pytest.mark.timeout(110)
def test_an_interrupted_gather_cancels_its_futures(single_client: Client, gate: Gate) -> None:
    futures = [single_client.submit(functions.wait_at_gate, *gate.paths) for _ in range(3)]
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Interruption):
        patch.setattr(ScalerFuture, "result", lambda *_: signal.raise_signal(signal.SIGALRM))
        single_client.gather({"all": futures})
    assert all(future.cancelled() for future in futures)
    assert single_client.submit(functions.square, 3).result(timeout=60) == 9  # the gate is still closed


@pytest.mark.parametrize("progress", [False, True])
@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.timeout(110)
def test_ctrl_c_cancels_all_futures_of_a_gather(
    single_client: Client, gate: Gate, progress: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    futures = [single_client.submit(functions.wait_at_gate, *gate.paths) for _ in range(3)]
    other = single_client.submit(functions.square, 3)
    gather = partial(single_client.gather, {"all": futures}, progress=progress)
    interrupt_in(gather, lambda: gate.waiting_pids and main_thread_waits(), KeyboardInterrupt)
    assert all(future.cancelled() for future in futures)
    assert other.result(timeout=60) == 9  # the gate is still closed
    shown = capsys.readouterr().err
    assert ("0/3" in shown) == progress and "1/3" not in shown and "3/3" not in shown


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.timeout(110)
def test_the_bar_of_an_interrupted_graph_does_not_become_full(
    single_client: Client, gate: Gate, capsys: pytest.CaptureFixture[str]
) -> None:
    names = dict(zip(("started", "gate"), gate.paths, strict=True))
    graph = {**names, "wait": (functions.wait_at_gate, "started", "gate"), "type": (type, "wait")}
    get = partial(single_client.get, graph, ["type"], progress=True)
    interrupt_in(get, lambda: gate.waiting_pids and main_thread_waits(), KeyboardInterrupt)
    shown = capsys.readouterr().err
    assert "0/2" in shown and "1/2" not in shown and "2/2" not in shown


def raise_keyboard_interrupt() -> None:
    raise KeyboardInterrupt


def test_a_gather_in_which_a_task_fails_leaves_the_other_futures(single_client: Client) -> None:
    futures = [single_client.submit(raise_keyboard_interrupt), single_client.submit(functions.square, 3)]
    with pytest.raises(KeyboardInterrupt):
        single_client.gather(futures)
    assert futures[1].result(timeout=60) == 9


FUTURE_WAITS: dict[str, Callable[[Client, Future], object]] = {
    "result": lambda client, future: future.result(),
    "exception": lambda client, future: future.exception(),
    "wait": lambda client, future: client.wait([future]),
    "wait with progress": lambda client, future: client.wait([future], progress=True),
}


WAITING_FILES = ("/scaler/shell/client_io.py", "/concurrent/futures/_base.py")


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """SIGALRM raises what Ctrl-C does."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    yield
    signal.signal(signal.SIGALRM, before)


def main_thread_waits() -> bool:
    main = threading.main_thread().ident
    codes = [frame.f_code for frame, _ in traceback.walk_stack(sys._current_frames()[main or 0])]
    return any(code.co_name == "wait" and code.co_filename.endswith(WAITING_FILES) for code in codes)


def wait_until_interrupted(client: Client, future: Future, gate: Gate, name: str, error: type[BaseException]) -> None:
    interrupt_in(lambda: FUTURE_WAITS[name](client, future), lambda: gate.waiting_pids and main_thread_waits(), error)


@pytest.mark.parametrize("name", FUTURE_WAITS)
@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.timeout(110)
def test_ctrl_c_cancels_exactly_the_futures_that_are_waited_for(single_client: Client, gate: Gate, name: str) -> None:
    future = single_client.submit(functions.wait_at_gate, *gate.paths)
    other = single_client.submit(functions.square, 3)
    wait_until_interrupted(single_client, future, gate, name, KeyboardInterrupt)
    assert future.cancelled()
    assert other.result(timeout=60) == 9  # the gate is still closed


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.timeout(110)
def test_ctrl_c_cancels_the_graph_whose_future_is_waited_for(single_client: Client, gate: Gate) -> None:
    names = dict(zip(("started", "gate"), gate.paths, strict=True))
    graph = {**names, "wait": (functions.wait_at_gate, "started", "gate"), "type": (type, "wait")}
    futures = single_client.get(graph, ["wait", "type"], block=False)
    wait_until_interrupted(single_client, futures["type"], gate, "result", KeyboardInterrupt)
    assert futures["wait"].cancelled()
    assert single_client.submit(functions.square, 3).result(timeout=60) == 9  # the gate is still closed


@pytest.mark.parametrize("name", FUTURE_WAITS)
@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.timeout(110)
def test_ctrl_c_leaves_the_futures_of_an_executor(single_client: Client, gate: Gate, name: str) -> None:
    with single_client.as_executor() as executor:
        future = executor.submit(functions.wait_at_gate, *gate.paths, "opened")
        wait_until_interrupted(single_client, future, gate, name, KeyboardInterrupt)
        gate.open()
        assert future.result(timeout=60) == "opened"


@pytest.mark.parametrize("name", FUTURE_WAITS)
@pytest.mark.usefixtures("interrupting")
@pytest.mark.timeout(110)
def test_another_exception_of_a_signal_handler_leaves_the_futures(single_client: Client, gate: Gate, name: str) -> None:
    future = single_client.submit(functions.wait_at_gate, *gate.paths, "opened")
    wait_until_interrupted(single_client, future, gate, name, Interruption)
    gate.open()
    assert future.result(timeout=60) == "opened"


class Holder:
    def __init__(self, value: object) -> None:
        self.value = value


@pytest.mark.usefixtures("interrupting")
@pytest.mark.timeout(110)
def test_an_interrupted_creation_makes_no_actor(single_client: Client, gate: Gate) -> None:
    late = single_client.submit(functions.wait_at_gate, *gate.paths, "opened")
    interrupt_in(lambda: single_client.actor(Holder, late), lambda: gate.waiting_pids)
    gate.open()
    assert late.result(timeout=60) == "opened"
    assert single_client.submit(functions.square, 3).result(timeout=60) == 9, "an actor has the only worker"
