"""A real agent with real worker processes, and a scheduler that says what the test wants said."""

from __future__ import annotations

import importlib
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from scaler_protocol.messages import (
    CHUNK_SIZE_BYTES,
    Cancel,
    Goodbye,
    Heartbeat,
    ObjectChunk,
    ObjectCredit,
    ObjectKey,
    ObjectRelease,
    ObjectRequest,
    Output,
    Status,
    TaskColumn,
    TaskOptions,
    Withdrawn,
)
from tests.support import functions
from tests.support.commands import Command, alive, start_cluster
from tests.support.ports import free_address
from tests.support.waiting import wait_until
from tests.unit.worker import fake_scheduler
from tests.unit.worker.fake_scheduler import FakeScheduler
from tests.unit.worker.playbook import CLIENT


@contextmanager
def agent(workers: int = 1, *flags: object) -> Iterator[tuple[FakeScheduler, Command]]:
    with FakeScheduler() as scheduler, start_cluster(scheduler.address, "-n", workers, *flags) as command:
        scheduler.wait_for_agent()
        yield scheduler, command


@pytest.fixture(scope="module")
def shared() -> Iterator[FakeScheduler]:
    with agent(2, "--heartbeat-interval", 0.1) as (scheduler, _):
        yield scheduler


@pytest.fixture
def scheduler(shared: FakeScheduler) -> FakeScheduler:
    shared.results.clear()
    shared.others.clear()
    return shared


def ok(scheduler: FakeScheduler, task: int) -> object:
    status, payload = scheduler.results[task][:2]
    assert status == Status.SUCCESS, (status, payload)
    return pickle.loads(payload)


def sleep(seconds: float, started: str = "") -> None:
    """``started`` is a file that appears when the task runs."""
    import time

    if started:
        functions.note(started)
    time.sleep(seconds)


def wait_until_started(scheduler: FakeScheduler, started: Path, count: int = 1) -> None:
    scheduler.serve(lambda: len(functions.notes(started)) == count)


def test_results_of_many_kinds(scheduler: FakeScheduler) -> None:
    values = [None, 1, 2.5, "text", b"bytes", True, [1, {"a": (2, 3)}], {4, 5}, len, range(3)]
    scheduler.submit(lambda value: value, [(value,) for value in values])
    scheduler.wait_for_results(len(values))
    assert [ok(scheduler, task) for task in range(len(values))] == values


def test_a_function_under_the_name_of_another_does_not_run(
    scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake_scheduler, "digest", lambda data: b"the name of sqrt")
    scheduler.submit(lambda value: value, [(4,)])
    scheduler.wait_for_results(1)
    assert scheduler.results[0][0] == Status.OBJECT_MISSING


def test_keyword_arguments(scheduler: FakeScheduler) -> None:
    scheduler.submit(lambda a, *, b: (a, b), [(1, 2)], keywords=("b",))
    scheduler.wait_for_results(1)
    assert ok(scheduler, 0) == (1, 2)


def test_a_serializer_of_the_users(scheduler: FakeScheduler) -> None:
    class Marked:
        @staticmethod
        def serialize(value: object) -> bytes:
            import cloudpickle

            return b"!" + cloudpickle.dumps(value)

        @staticmethod
        def deserialize(data: bytes) -> object:
            import pickle

            assert type(data) is bytes and data[:1] == b"!"
            return pickle.loads(data[1:])

    scheduler.submit(lambda value: value + 1, [(4,)], serializer=Marked)
    scheduler.wait_for_results(1)
    status, payload = scheduler.results[0][:2]
    assert status == Status.SUCCESS and Marked.deserialize(payload) == 5


def test_what_does_not_load_fails_its_own_task(scheduler: FakeScheduler) -> None:
    class Unloadable:
        def __reduce__(self) -> object:
            return (importlib.import_module, ("no_such_module_at_all",))

    scheduler.submit(lambda value: 1, [(Unloadable(),), (2,)])
    scheduler.wait_for_results(2)
    status, payload = scheduler.results[0][:2]
    assert status == Status.DESERIALIZE_FAILED and pickle.loads(payload)[1] == "ModuleNotFoundError"
    assert ok(scheduler, 1) == 1


def test_a_result_that_does_not_pickle(scheduler: FakeScheduler) -> None:
    def generator() -> object:
        return (each for each in ())

    scheduler.submit(generator, [()])
    scheduler.wait_for_results(1)
    status, payload = scheduler.results[0][:2]
    assert status == Status.EXCEPTION and pickle.loads(payload)[1] == "TypeError"


def test_an_exception_that_does_not_pickle(scheduler: FakeScheduler) -> None:
    def fail() -> None:
        raise ValueError(each for each in ())

    scheduler.submit(fail, [()])
    scheduler.wait_for_results(1)
    status, payload = scheduler.results[0][:2]
    assert status == Status.EXCEPTION_NOT_SERIALIZABLE and pickle.loads(payload)[:2] == (b"", "ValueError")


def test_sys_exit_is_an_exception_of_the_task(scheduler: FakeScheduler) -> None:
    scheduler.submit(lambda: sys.exit(3), [()])
    scheduler.wait_for_results(1)
    status, payload = scheduler.results[0][:2]
    assert status == Status.EXCEPTION and pickle.loads(payload)[1] == "SystemExit"


def test_a_fork_that_comes_back_is_not_a_second_worker_process(scheduler: FakeScheduler) -> None:
    def fork() -> int:
        import os

        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)
        return 7

    scheduler.submit(fork, [()] * 3)
    scheduler.wait_for_results(3)
    assert [ok(scheduler, task) for task in range(3)] == [7, 7, 7]


def test_a_task_knows_its_name_and_so_do_its_subprocesses(scheduler: FakeScheduler) -> None:
    def look() -> tuple[str, str, bytes]:
        import os
        import subprocess

        printed = subprocess.check_output("printf %s $SCALER_PARENT", shell=True)
        return os.environ["SCALER_PARENT"], dict(os.environ)["SCALER_PARENT"], printed

    scheduler.submit(look, [()], first=18_000_000_000)
    scheduler.wait_for_results(1)
    name = f"{CLIENT.hex()}:18000000000:1:0"
    assert ok(scheduler, 18_000_000_000) == (name, name, name.encode())


def test_worker_processes_draw_different_random_numbers(scheduler: FakeScheduler, tmp_path: Path) -> None:
    def draw(started: str) -> float:
        import random

        functions.note(started)
        wait_until(lambda: len(functions.notes(started)) == 2)  # so each draws in a worker process of its own
        return random.random()

    scheduler.submit(draw, [(str(tmp_path / "started"),)] * 2)
    scheduler.wait_for_results(2)
    one, other = (ok(scheduler, task) for task in range(2))
    assert one != other


def test_what_a_task_prints_is_sent_when_asked_for(scheduler: FakeScheduler) -> None:
    scheduler.submit(lambda: print("hello"), [()], options=TaskOptions(stream_output=True))
    scheduler.wait_for_results(1)
    assert b"".join(each.data for each in scheduler.of(Output)) == b"hello\n"


def test_profiling_tells_the_memory_peak(scheduler: FakeScheduler) -> None:
    def use() -> None:
        bytearray(50_000_000)

    scheduler.submit(use, [()], options=TaskOptions(profiling=True))
    scheduler.submit(use, [()], first=1)
    scheduler.wait_for_results(2)
    assert scheduler.results[0][4] > 50_000_000 and scheduler.results[1][4] == 0


def test_cpu_time_is_not_duration(scheduler: FakeScheduler) -> None:
    scheduler.submit(sleep, [(0.1,)])
    scheduler.wait_for_results(1)
    assert scheduler.results[0][2] > 90_000 and scheduler.results[0][3] < 50_000


def test_a_large_argument_and_a_large_result(scheduler: FakeScheduler) -> None:
    key = ObjectKey(CLIENT, 2**64 - 1)
    data = pickle.dumps(b"y" * (3 * CHUNK_SIZE_BYTES))

    def answer(body: object) -> None:
        if isinstance(body, ObjectRequest):
            for offset in range(0, len(data), CHUNK_SIZE_BYTES):
                scheduler.send(ObjectChunk(key, len(data), offset, data[offset : offset + CHUNK_SIZE_BYTES]))

    scheduler.on_body = answer
    scheduler.submit(lambda value: value * 4, [(key,)])
    scheduler.wait_for_results(1)
    scheduler.on_body = lambda body: None
    result = ObjectKey(CLIENT, 0)
    size = int.from_bytes(scheduler.results[0][1], "little")
    scheduler.send(ObjectRequest(result))

    def received() -> int:
        return sum(len(chunk.data) for chunk in scheduler.of(ObjectChunk))

    seen = 0
    while seen < size:
        scheduler.serve(lambda seen=seen: received() > seen)  # type: ignore[misc]
        seen = received()
        scheduler.send(ObjectCredit(result, seen))
    whole = b"".join(chunk.data for chunk in scheduler.of(ObjectChunk))
    assert pickle.loads(whole) == b"y" * (12 * CHUNK_SIZE_BYTES)
    scheduler.send(ObjectRelease((key, result)))


def test_a_running_task_is_interrupted(scheduler: FakeScheduler, tmp_path: Path) -> None:
    scheduler.submit(sleep, [(30, str(tmp_path / "started"))] * 4)
    wait_until_started(scheduler, tmp_path / "started", 2)
    cancelled = time.monotonic()
    scheduler.send(Cancel((TaskColumn(CLIENT, (0, 1, 2, 3)),)))
    scheduler.wait_for_results(4)
    assert time.monotonic() - cancelled < 1.0
    assert {row[0] for row in scheduler.results.values()} == {Status.CANCELLED}


def test_a_task_that_ignores_its_interrupt_is_killed(scheduler: FakeScheduler, tmp_path: Path) -> None:
    scheduler.submit(functions.swallow_interrupts, [(str(tmp_path / "started"), 30)])
    wait_until_started(scheduler, tmp_path / "started")
    cancelled = time.monotonic()
    scheduler.send(Cancel((TaskColumn(CLIENT, (0,)),)))
    scheduler.wait_for_results(1)
    assert 1.5 < time.monotonic() - cancelled < 4 and scheduler.results[0][0] == Status.CANCELLED


def test_time_and_memory_limits(scheduler: FakeScheduler) -> None:
    def hoard() -> None:
        import time

        kept = bytearray(200_000_000)
        time.sleep(30)
        del kept

    scheduler.submit(sleep, [(30,)], options=TaskOptions(timeout_seconds=0.3))
    scheduler.submit(hoard, [()], first=1, options=TaskOptions(memory_bytes=100_000_000))
    scheduler.wait_for_results(2)
    assert [scheduler.results[task][0] for task in range(2)] == [Status.TIMED_OUT, Status.MEMORY_EXCEEDED]


@pytest.mark.parametrize("how", ["exit", "kill", "fault"])
def test_a_death_has_a_certificate(scheduler: FakeScheduler, how: str) -> None:
    import json

    def die(how: str) -> None:
        import os
        import signal
        import sys

        print("last words", file=sys.stderr, flush=True)
        if how == "exit":
            os._exit(9)
        os.kill(os.getpid(), signal.SIGKILL if how == "kill" else signal.SIGSEGV)

    scheduler.submit(die, [(how,)])
    scheduler.submit(lambda: 5, [()] * 20, first=1)
    scheduler.wait_for_results(21)
    status, payload = scheduler.results[0][:2]
    certificate = json.loads(payload)
    assert status == Status.PROCESSOR_DIED
    assert (certificate["signal"], certificate["exit_code"]) == {
        "exit": (None, 9), "kill": ("SIGKILL", None), "fault": ("SIGSEGV", None)
    }[how]  # fmt: skip
    assert certificate["stderr"] == ["last words"] and certificate["peak_memory"] > 1_000_000
    assert not certificate["out_of_memory"] and ("in die" in certificate["stack"]) is (how == "fault")
    assert all(ok(scheduler, task) == 5 for task in range(1, 21))


def test_what_a_dead_worker_process_had_started_ends_with_it(scheduler: FakeScheduler, tmp_path: object) -> None:
    note = f"{tmp_path}/pid"

    def start(note: str) -> None:
        import os
        import subprocess

        child = subprocess.Popen(["sleep", "60"])
        with open(note, "w") as file:
            file.write(str(child.pid))
        os._exit(1)

    scheduler.submit(start, [(note,)])
    scheduler.wait_for_results(1)
    with open(note) as file:
        pid = int(file.read())
    scheduler.serve(lambda: not alive(pid), 3)


def is_half_busy(report: Heartbeat) -> bool:
    """Without those that are just started anew."""
    return {each.has_task for each in report.workers if each.pid} == {True, False}


def test_status_reports(scheduler: FakeScheduler, tmp_path: Path) -> None:
    started, gate = tmp_path / "started", tmp_path / "gate"
    scheduler.submit(functions.wait_at_gate, [(str(started), str(gate))])
    wait_until_started(scheduler, started)
    scheduler.heartbeats.clear()
    scheduler.serve(lambda: any(is_half_busy(each) for each in scheduler.heartbeats[-1:]))
    report = scheduler.heartbeats[-1]
    scheduler.serve(lambda: len(scheduler.heartbeats[-1].running_tasks) == 1)
    (running,) = scheduler.heartbeats[-1].running_tasks
    gate.touch()
    assert [each.pid for each in report.workers if each.has_task] == [running.pid]
    assert running.worker in (0, 1) and running.rss_bytes > 1_000_000 and not running.blocked
    assert len(report.workers) == 2
    assert report.rss_bytes > 1_000_000 and all(each.rss_bytes > 1_000_000 for each in report.workers)
    scheduler.wait_for_results(1)


# ---- life and death of the agent ---------------------------------------------------------------------------------


def test_log_lines() -> None:
    with agent(2) as (scheduler, command):
        scheduler.serve(lambda: "Worker[0] started" in command.output and "Worker[1] started" in command.output)
        assert (
            "ClusterProcess: starting 2 workers, heartbeat_interval_seconds=2, object_retention_seconds=3600"
            in command.output
        )


def test_sigterm_lets_running_tasks_end(tmp_path: Path) -> None:
    with agent() as (scheduler, command):
        scheduler.submit(sleep, [(0.5, str(tmp_path / "started"))] * 3)
        wait_until_started(scheduler, tmp_path / "started")
        command.signal(signal.SIGTERM)
        scheduler.serve(lambda: command.process.poll() is not None)
        assert command.process.returncode == 0
        assert set(scheduler.results) == {0} and scheduler.of(Goodbye)
        assert {task for each in scheduler.of(Withdrawn) for column in each.columns for task in column.tasks} == {1, 2}


def test_the_grace_time(tmp_path: Path) -> None:
    with agent(1, "--grace-seconds", 0.3) as (scheduler, command):
        scheduler.submit(sleep, [(30, str(tmp_path / "started"))])
        wait_until_started(scheduler, tmp_path / "started")
        command.signal(signal.SIGTERM)
        scheduler.serve(lambda: command.process.poll() is not None, 3)


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_outlives_the_agent(kill: signal.Signals, tmp_path: Path) -> None:
    with agent(2) as (scheduler, command):
        scheduler.submit(sleep, [(30, str(tmp_path / "started"))])
        wait_until_started(scheduler, tmp_path / "started")
        family = [process.pid for process in command.family()]
        assert len(family) == 3
        command.signal(kill)
        if kill != signal.SIGKILL:
            command.signal(signal.SIGINT if kill == signal.SIGTERM else signal.SIGTERM)
        scheduler.serve(lambda: not any(alive(pid) for pid in [command.pid, *family]), 3)


def is_zygote(process: psutil.Process) -> bool:
    """Worker processes, its forks, have the same command line; it came first."""
    return process == min(psutil.Process(process.ppid()).children(), key=psutil.Process.create_time)


def test_a_dead_zygote_is_replaced() -> None:
    with agent(1) as (scheduler, command):
        zygote = next(each for each in command.family() if each.ppid() == command.pid and is_zygote(each))
        scheduler.submit(os.getpid, [()])
        process = ok_pid(scheduler)
        psutil.Process(zygote.pid).kill()
        command.wait_for_output("starting another")
        scheduler.submit(os.getpid, [()])
        assert ok_pid(scheduler) == process
        os.kill(process, signal.SIGKILL)
        scheduler.submit(os.getpid, [()])
        assert ok_pid(scheduler) != process


def ok_pid(scheduler: FakeScheduler) -> int:
    scheduler.results.clear()
    scheduler.wait_for_results(1)
    value = ok(scheduler, 0)
    assert isinstance(value, int)
    return value


def test_the_scheduler_stays_away() -> None:
    with start_cluster(free_address(), "-n", 1, "--death-timeout-seconds", 1) as command:
        assert command.wait(5) == 1


def run_cli(*flags: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scaler_worker.cli", *map(str, flags)]
    return subprocess.run(command, capture_output=True, text=True, timeout=20)


@pytest.mark.parametrize(
    "flags",
    [
        ("tcp://127.0.0.1",),
        ("tcp://127.0.0.1:1", "-n", 0),
        ("tcp://127.0.0.1:1", "-n", 3, "-wn", "a,b"),
        ("tcp://127.0.0.1:1", "-wn", "a,a"),
        ("tcp://127.0.0.1:1", "--preload", "a:b:c"),
        ("tcp://127.0.0.1:1", "--per-worker-capabilities", "gpu=x"),
    ],
)
def test_bad_input_is_one_line_and_code_two(flags: tuple[object, ...]) -> None:
    result = run_cli(*flags)
    assert result.returncode == 2 and len(result.stderr.splitlines()) == 1


def test_a_preload_that_fails_is_said() -> None:
    result = run_cli("tcp://127.0.0.1:1", "-n", 1, "--preload", "no_such_module_at_all")
    assert result.returncode == 2 and "no_such_module_at_all" in result.stderr


def test_worker_names_and_capabilities() -> None:
    with FakeScheduler() as scheduler, start_cluster(
        scheduler.address, "-wn", "left,right", "--per-worker-capabilities", "linux,gpu=2"
    ):  # fmt: skip
        attach = scheduler.wait_for_agent()
        assert attach.worker_names == ("left", "right")
        assert [(each.name, each.amount) for each in attach.capabilities] == [("linux", 1), ("gpu", 2)]


def test_a_certificate_is_of_the_task_that_died_alone() -> None:
    """Not of earlier tasks of the same process, whether Python, C code or a child process wrote to stderr."""
    import json

    def use(how: str) -> int:
        import os
        import subprocess
        import sys

        if how == "print":
            print("an earlier print", file=sys.stderr)
        elif how == "write":
            os.write(2, b"an earlier write")
        elif how == "child":
            subprocess.run(["sh", "-c", "echo an earlier child >&2"], check=True)
        else:
            return len(bytes(300_000_000).replace(b"\0", b"1"))
        return os.getpid()

    def die() -> None:
        import os

        os.write(2, b"mine\nmine, too")
        os._exit(1)

    earlier = ["print", "memory", "write", "child", "print", "write"]
    with agent(1) as (scheduler, _):
        scheduler.submit(use, [(how,) for how in earlier])
        scheduler.submit(die, [()], first=10)
        scheduler.wait_for_results(len(earlier) + 1)
    certificate = json.loads(scheduler.results[10][1])
    assert certificate["pid"] == ok(scheduler, 0) == ok(scheduler, 5)
    assert certificate["stderr"] == ["mine", "mine, too"]
    assert 1_000_000 < certificate["peak_memory"] < 250_000_000


def test_a_time_limit_for_all_tasks() -> None:
    with agent(1, "--task-timeout-seconds", 0.3) as (scheduler, _):
        scheduler.submit(sleep, [(30,)])
        scheduler.wait_for_results(1)
        assert scheduler.results[0][0] == Status.TIMED_OUT


def test_status_reports_come_in_their_interval() -> None:
    with agent(1, "--heartbeat-interval", 0.1) as (scheduler, _):
        scheduler.serve(lambda: len(scheduler.heartbeats) >= 5, 3)
    with agent(1, "--heartbeat-interval", 20) as (scheduler, _):
        scheduler.serve(lambda: bool(scheduler.heartbeats), 10)
        scheduler.serve_for(1.0)
        assert len(scheduler.heartbeats) == 1


def all_are_ready(report: Heartbeat) -> bool:
    return len(report.workers) == 2 and all(worker.initialized for worker in report.workers)


def test_a_worker_is_reported_when_it_is_ready() -> None:
    with agent(2, "--heartbeat-interval", 20) as (scheduler, _):
        scheduler.serve(lambda: any(all_are_ready(each) for each in scheduler.heartbeats), 10)
        scheduler.submit(os.getpid, [()])
        scheduler.wait_for_results(1)
        workers = scheduler.heartbeats[-1].workers
        assert pickle.loads(scheduler.results[0][1]) in [worker.pid for worker in workers]


def test_garbage_is_collected_while_idle(tmp_path: object) -> None:
    def litter(note: str) -> None:
        import gc

        class Cycle:
            def __init__(self) -> None:
                self.me = self

            def __del__(self, open: object = open, note: str = note) -> None:
                open(note, "w").close()  # type: ignore[operator]

        gc.disable()
        Cycle()

    note = f"{tmp_path}/collected"
    with agent(1, "--garbage-collect-interval-seconds", 0.2) as (scheduler, _):
        scheduler.submit(litter, [(note,)])
        scheduler.serve(lambda: os.path.exists(note), 5)


@pytest.mark.parametrize("threshold, trimmed", [(1, True), (1 << 40, False)])
def test_memory_is_given_back_above_the_threshold(threshold: int, trimmed: bool) -> None:
    def fragment() -> int:
        import builtins
        import os

        pieces = [bytes(2000) for _ in range(50_000)]
        builtins.kept = pieces[-1]  # type: ignore[attr-defined]
        return os.getpid()

    flags = ("--garbage-collect-interval-seconds", 0.2, "--trim-memory-threshold-bytes", threshold)
    with agent(1, *flags) as (scheduler, _):
        scheduler.submit(fragment, [()])
        scheduler.wait_for_results(1)
        process = psutil.Process(scheduler_pid := int(str(ok(scheduler, 0))))
        assert process.pid == scheduler_pid
        if trimmed:
            scheduler.serve(lambda: process.memory_info().rss < 80_000_000, 5)
        else:
            scheduler.serve_for(0.8)
            assert process.memory_info().rss >= 80_000_000


def test_preload_is_called_in_each_worker_process() -> None:
    def look() -> bool:
        import sys

        return "this" in sys.modules

    with agent(1, "--preload", "this") as (scheduler, _):
        scheduler.submit(look, [()])
        scheduler.wait_for_results(1)
        assert ok(scheduler, 0) is True


def test_uvloop() -> None:
    pytest.importorskip("uvloop")
    with agent(1, "--event-loop", "uvloop") as (scheduler, command):
        scheduler.submit(lambda value: value, [(each,) for each in range(100)])
        scheduler.wait_for_results(100)
        assert "use event loop: uvloop" in command.output


def test_cluster_from_python() -> None:
    from scaler_worker import Cluster

    with FakeScheduler() as scheduler:
        cluster = Cluster(scheduler.address, 1, worker_names=["only"], logging_paths=("/dev/null",))
        cluster.start()
        assert scheduler.wait_for_agent().worker_names == ("only",)
        cluster.terminate()
        scheduler.serve(lambda: cluster.exit_code is not None)
        cluster.join()
        assert cluster.exit_code == 0


def test_cluster_says_what_is_wrong() -> None:
    from scaler_worker import Cluster

    with pytest.raises(ValueError, match="worker-names"):
        Cluster("tcp://127.0.0.1:1", 2, worker_names=["a"], logging_paths=("/dev/null",)).start()
