"""Clients: several at once, threads, clear, disconnect, shutdown, protected mode."""

from __future__ import annotations

import gc
import inspect
import os
import pickle
import signal
import subprocess
import sys
import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

import scaler
from scaler import Client, Cluster, ScalerFuture, Scheduler, SchedulerClusterCombo
from scaler.utility.exceptions import ClientQuitException
from tests.cluster.conftest import Gate
from tests.support import functions
from tests.support.commands import Stopwatch, alive, child_environment, start_cluster, start_scheduler
from tests.support.ports import free_address
from tests.support.short_clients import come_and_go
from tests.support.waiting import wait_until


def test_module_paths() -> None:
    from scaler.client.future import ScalerFuture
    from scaler.client.object_reference import ObjectReference
    from scaler.cluster.combo import SchedulerClusterCombo as Combo
    from scaler.utility.exceptions import ScalerError

    assert ScalerFuture is scaler.ScalerFuture and Combo is SchedulerClusterCombo
    assert ObjectReference is scaler.ObjectReference
    assert issubclass(ScalerError, Exception)


def parameters(callable_object: object) -> list[str]:
    named = inspect.signature(callable_object).parameters  # type: ignore[arg-type]
    assert all(p.kind is not p.VAR_KEYWORD for p in named.values()), callable_object
    return list(named)


def test_signatures_name_real_parameters() -> None:
    assert parameters(Client)[:6] == [
        "address", "profiling", "timeout_seconds", "heartbeat_interval_seconds", "serializer", "stream_output",
    ]  # fmt: skip
    assert parameters(SchedulerClusterCombo)[:25] == [
        "n_workers", "address", "monitor_address", "worker_io_threads", "scheduler_io_threads",
        "max_number_of_tasks_waiting", "heartbeat_interval_seconds", "client_timeout_seconds",
        "worker_timeout_seconds", "object_retention_seconds", "task_timeout_seconds", "death_timeout_seconds",
        "load_balance_seconds", "load_balance_trigger_times", "garbage_collect_interval_seconds",
        "trim_memory_threshold_bytes", "per_worker_queue_size", "hard_processor_suspend", "protected", "event_loop",
        "logging_paths", "logging_level", "logging_config_file", "per_worker_capabilities", "preload",
    ]  # fmt: skip
    assert parameters(Cluster)[:3] == ["address", "n_workers", "worker_names"]
    assert parameters(Scheduler)[0] == "address"
    verbose = parameters(Client.submit_verbose)
    assert verbose[1:] == [
        "fn", "args", "kwargs", "capabilities", "priority", "retries", "rerun", "timeout_seconds", "memory_bytes",
        "profiling", "key", "pure", "reserialize",
    ]  # fmt: skip


def test_defaults_of_the_combo() -> None:
    defaults = {n: p.default for n, p in inspect.signature(SchedulerClusterCombo).parameters.items()}
    expected = {
        "address": None, "monitor_address": None, "worker_io_threads": 1, "scheduler_io_threads": 1,
        "max_number_of_tasks_waiting": -1, "heartbeat_interval_seconds": 2, "client_timeout_seconds": 60,
        "worker_timeout_seconds": 60, "object_retention_seconds": 3600, "task_timeout_seconds": 0,
        "death_timeout_seconds": 300,
        "load_balance_seconds": 1, "load_balance_trigger_times": 2, "garbage_collect_interval_seconds": 30,
        "trim_memory_threshold_bytes": 1073741824, "per_worker_queue_size": 1000, "hard_processor_suspend": False,
        "protected": True, "event_loop": "builtin", "logging_paths": ("/dev/stderr",), "logging_level": "WARNING",
        "logging_config_file": None, "per_worker_capabilities": None, "preload": None,
    }  # fmt: skip
    assert {name: defaults[name] for name in expected} == expected


def test_two_clients_do_not_see_each_other(combo: SchedulerClusterCombo) -> None:
    with Client(combo.get_address()) as first, Client(combo.get_address()) as second:
        assert first.identity != second.identity
        assert len({first.identity, second.identity}) == 2
        futures = [(one.submit(functions.square, n), n * n) for n in range(200) for one in (first, second)]
        assert all(future.result(timeout=60) == expected for future, expected in futures)


def test_a_busy_client_does_not_starve_another(combo: SchedulerClusterCombo) -> None:
    with Client(combo.get_address()) as busy, Client(combo.get_address()) as other:
        crowd = [busy.submit(functions.spin_and_square, number, 0.005) for number in range(1_500)]
        assert other.submit(functions.square, 3).result(timeout=60) == 9
        assert not crowd[-1].done()
        [future.cancel() for future in crowd]


def test_threads_share_a_client(client: Client) -> None:
    def work(base: int) -> list[int]:
        futures = [client.submit(functions.square, base + number) for number in range(500)]
        return [future.result(timeout=60) for future in futures]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(work, range(0, 8000, 1000)))
    assert answers == [[(base + n) ** 2 for n in range(500)] for base in range(0, 8000, 1000)]


def test_threads_submitting_and_waiting_one_by_one(client: Client) -> None:
    def work(base: int) -> bool:
        return all(client.submit(functions.square, base + n).result(timeout=60) == (base + n) ** 2 for n in range(200))

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(0, 6000, 1000)))


def test_threads_mapping_at_once(client: Client) -> None:
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda base: client.map(functions.add, range(2000), [base] * 2000), range(4)))
    assert answers == [[base + n for n in range(2000)] for base in range(4)]


def test_clear_cancels_and_leaves_the_client_usable(client: Client, gate: Gate) -> None:
    futures = [client.submit(functions.wait_at_gate, *gate.paths) for _ in range(10)]
    finished = client.submit_verbose(functions.square, (3,), priority=9)
    wait_until(lambda: gate.waiting_pids)
    client.clear()
    assert all(future.cancelled() for future in futures)
    assert client.submit(functions.square, 4).result(timeout=60) == 16
    assert finished.cancelled() or finished.result() == 9


def test_clear_of_one_client_leaves_the_other(combo: SchedulerClusterCombo, gate: Gate) -> None:
    with Client(combo.get_address()) as first, Client(combo.get_address()) as second:
        kept = [second.submit(functions.sleep_and_return, 0.001, number) for number in range(200)]
        gone = [first.submit(functions.wait_at_gate, *gate.paths) for _ in range(200)]
        first.clear()
        assert [future.result(timeout=60) for future in kept] == list(range(200))
        assert all(future.cancelled() for future in gone)


def test_disconnect_cancels_what_is_unfinished(combo: SchedulerClusterCombo, gate: Gate) -> None:
    client = Client(combo.get_address())
    finished = client.submit(functions.square, 3)
    assert finished.result() == 9
    futures = [client.submit(functions.wait_at_gate, *gate.paths) for _ in range(5)]
    watch = Stopwatch()
    client.disconnect()
    assert watch.seconds < 20
    assert all(future.cancelled() for future in futures)
    assert finished.result() == 9
    client.disconnect()
    with pytest.raises(ClientQuitException, match=r"^client is already stopped\.$"):
        client.submit(functions.square, 3)


def test_every_call_after_disconnect_says_so(combo: SchedulerClusterCombo) -> None:
    client = Client(combo.get_address())
    client.disconnect()
    for call in (
        lambda: client.submit_verbose(functions.square, (3,)),
        lambda: client.map(functions.square, [1]),
        lambda: client.map(functions.square, []),
        lambda: client.starmap(functions.square, [(1,)]),
        lambda: list(client.imap(functions.square, [1])),
        lambda: list(client.imap_unordered(functions.square, [1])),
        client.clear,
        client.shutdown,
    ):
        with pytest.raises(ClientQuitException, match="client is already stopped"):
            call()
    client.disconnect()


def test_disconnect_wakes_threads_that_wait(combo: SchedulerClusterCombo, gate: Gate) -> None:
    client = Client(combo.get_address())
    future = client.submit(functions.wait_at_gate, *gate.paths)
    with ThreadPoolExecutor(2) as pool:
        waiters = [pool.submit(future.result, 30), pool.submit(wait, [future], 30)]
        wait_until(lambda: gate.waiting_pids)
        client.disconnect()
        with pytest.raises(CancelledError):
            waiters[0].result(timeout=60)
        assert waiters[1].result(timeout=60).done == {future}


def test_a_future_is_cancelled_for_a_thread_that_notices_the_end_first(
    combo: SchedulerClusterCombo, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(combo.get_address())
    future = client.submit(functions.wait_at_gate, *gate.paths)
    with ThreadPoolExecutor(1) as pool:
        waiter = pool.submit(future.result, 30)
        wait_until(lambda: gate.waiting_pids)
        assert not wait([future], 0).done
        finish = ScalerFuture.finish

        def finish_late(self: ScalerFuture[Any], outcome: Any) -> None:
            client._client_io._leader_waker.wake()
            wait([waiter], 0.3)
            finish(self, outcome)

        monkeypatch.setattr(ScalerFuture, "finish", finish_late)
        client.disconnect()
        with pytest.raises(CancelledError):
            waiter.result(timeout=60)


def test_leaving_the_context_frees_the_workers(combo: SchedulerClusterCombo, gate: Gate) -> None:
    with Client(combo.get_address()) as leaving:
        leaving.submit(functions.wait_at_gate, *gate.paths)
        leaving.submit(functions.wait_at_gate, *gate.paths)
        wait_until(lambda: len(gate.waiting_pids) == 2)
    with Client(combo.get_address()) as client:
        assert client.submit(functions.square, 3).result(timeout=60) == 9


def test_a_client_forgotten_by_its_program_stops(combo: SchedulerClusterCombo) -> None:
    threads = threading.active_count()
    client = Client(combo.get_address())
    assert client.submit(functions.square, 3).result() == 9
    client.disconnect()
    del client
    wait_until(lambda: threading.active_count() <= threads, what="the client's threads ended")


def test_many_clients_in_a_row_leave_nothing(combo: SchedulerClusterCombo) -> None:
    def round_trip() -> None:
        with Client(combo.get_address()) as client:
            assert client.submit(functions.square, 3).result() == 9

    def open_descriptors() -> int:
        gc.collect()  # the parts of a client refer to one another
        return len(os.listdir("/proc/self/fd"))

    round_trip()
    before = open_descriptors()
    for _ in range(30):
        round_trip()
    assert open_descriptors() <= before + 2


def test_clients_that_leave_at_once_are_forgotten_at_once(combo: SchedulerClusterCombo) -> None:
    """The scheduler answers clients that have gone meanwhile, and whose last words it has not read."""
    come_and_go(combo.get_address(), 150)
    with Client(combo.get_address()) as client:
        wait_until(lambda: len(client.cluster_info().snapshot.clients) == 1)


def test_a_killed_clients_tasks_end(gate: Gate) -> None:
    address = free_address()
    with start_scheduler(address, "--client-timeout-seconds", 2), start_cluster(address, "-n", 1):
        source = (
            "import sys, time; from scaler import Client; from tests.support import functions\n"
            f"client = Client({address!r})\n"
            "futures = [client.submit(functions.wait_at_gate, *sys.argv[1:3]) for _ in range(3)]\n"
            "time.sleep(60)\n"
        )
        child = subprocess.Popen([sys.executable, "-c", source, *gate.paths], env=child_environment())
        try:
            wait_until(lambda: gate.waiting_pids)
            child.send_signal(signal.SIGKILL)
        finally:
            child.kill()
            child.wait()
        with Client(address) as client:
            watch = Stopwatch()
            assert client.submit(functions.square, 3).result(timeout=60) == 9
            assert watch.seconds < 50
            assert len(gate.waiting_pids) == 1


def test_protected_mode_refuses_shutdown(client: Client) -> None:
    with pytest.raises(ValueError, match=r"^Scheduler is in protected mode\. Can't shutdown$"):
        client.shutdown()
    assert client.submit(functions.square, 3).result() == 9


def test_shutdown_stops_scheduler_and_workers() -> None:
    address = free_address()
    with start_scheduler(address, "--no-protected") as scheduler, start_cluster(address, "-n", 2) as cluster:
        client = Client(address)
        assert client.submit(functions.square, 3).result() == 9
        family = cluster.family()
        client.shutdown()
        assert scheduler.wait(60) == 0
        assert cluster.wait(60) == 0
        wait_until(lambda: not any(alive(process.pid) for process in family))
        client.disconnect()


def test_shutdown_of_the_combo_after_a_clients_shutdown() -> None:
    with SchedulerClusterCombo(1, protected=False) as combo:
        client = Client(combo.get_address())
        client.submit(functions.square, 3).result()
        client.shutdown()
    combo.shutdown()


def test_combo_without_workers_then_a_cluster_joins() -> None:
    with SchedulerClusterCombo(0) as combo, Client(combo.get_address()) as client:
        futures = [client.submit(functions.square, number) for number in range(10)]
        assert not any(future.done() for future in futures)
        cluster = Cluster(combo.get_address(), 2, worker_names=["left", "right"])
        cluster.start()
        try:
            assert [future.result(timeout=60) for future in futures] == [n * n for n in range(10)]
        finally:
            cluster.terminate()
            cluster.join()


def test_scheduler_and_cluster_classes(tmp_path: Path) -> None:
    address = free_address()
    scheduler = Scheduler(address)
    scheduler.start()
    clusters = [Cluster(address, 1), Cluster(address, 1)]
    [cluster.start() for cluster in clusters]
    try:
        with Client(address) as client:
            assert client.map(functions.square, range(100)) == [n * n for n in range(100)]
    finally:
        for process in [*clusters, scheduler]:
            process.terminate()
            process.join()


@pytest.mark.parametrize(
    ("n_workers", "options", "words"),
    [
        (1, {"per_worker_capabilities": {"gpu": "x"}}, r"Cannot use --per-worker-capabilities: 'gpu=x' is not a"),
        (1, {"grace_seconds": "soon"}, "Cannot use --grace-seconds: 'soon' is not a duration"),
        (-1, {}, "Cannot start -1 workers"),
        ("2", {}, "n_workers must be a whole number, not '2'"),
    ],
)
def test_a_combo_refuses_what_its_workers_cannot_use(n_workers: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        SchedulerClusterCombo(n_workers, **options)


def test_a_line_says_why_a_combo_has_no_workers(caplog: pytest.LogCaptureFixture) -> None:
    """That there are too many is known only to the command."""
    with SchedulerClusterCombo(1, per_worker_capabilities=[f"c{number}" for number in range(10_000)]):
        wait_until(lambda: "scaler_cluster has ended, and will not be restarted. Cannot use" in caplog.text)


def test_combo_with_a_module_to_preload() -> None:
    def is_loaded() -> bool:
        return "colorsys" in sys.modules

    with SchedulerClusterCombo(1, preload="colorsys") as combo, Client(combo.get_address()) as client:
        assert client.submit(is_loaded).result(timeout=60)


def test_combo_at_a_given_address_and_ipc(tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/scaler.ipc"
    with SchedulerClusterCombo(1, address=address) as combo:
        assert combo.get_address() == address
        with Client(address) as client:
            assert client.submit(functions.square, 3).result(timeout=60) == 9
    assert not (tmp_path / "scaler.ipc").exists()


def test_seven_workers_join_while_tasks_wait(gate: Gate) -> None:
    with SchedulerClusterCombo(1) as combo, Client(combo.get_address()) as client:
        futures = [client.submit(functions.wait_at_gate, *gate.paths, n) for n in range(8)]
        wait_until(lambda: gate.waiting_pids)
        with start_cluster(combo.get_address(), "-n", 7):
            wait_until(lambda: len(set(gate.waiting_pids)) == 8)
            gate.open()
            assert [future.result(timeout=60) for future in futures] == list(range(8))


def test_a_pickled_client_outside_a_task_reconnects(client: Client) -> None:
    copy = pickle.loads(pickle.dumps(client))
    try:
        assert copy.submit(functions.square, 3).result(timeout=60) == 9
    finally:
        copy.disconnect()
