"""The commands: flags and their effects, log lines, files, environment, exit codes, signals, what stays behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import warnings
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest
import zmq

import scaler_gui
import scaler_protocol
import scaler_scheduler
import scaler_worker
from scaler import Client
from scaler.utility.exceptions import MissingObjects, TaskTimeoutError
from scaler_protocol.messages import PROTOCOL_MAJOR, PROTOCOL_MINOR
from scaler_protocol.monitor.subscription import Subscription
from tests.cluster.conftest import Gate
from tests.support import functions, leftovers
from tests.support.commands import (
    Command,
    Stopwatch,
    alive,
    child_environment,
    command_line,
    io_threads,
    is_bound,
    run_command,
    start_cluster,
    start_scheduler,
)
from tests.support.ports import free_address, free_port
from tests.support.waiting import wait_until

TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d{4}"


def monitor_address(folder: Path) -> str:
    return f"ipc://{folder}/monitor"


def snapshot(address: str) -> dict[str, Any]:
    """What ``scaler_top --json`` says."""
    done = run_command("scaler_top", address, "--json", "--timeout", 5)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def find(value: Any, key: str) -> list[Any]:
    """Every value of ``key`` anywhere in a JSON document."""
    found = []
    if isinstance(value, dict):
        found += [item for name, item in value.items() if name == key]
        value = list(value.values())
    if isinstance(value, list):
        found += [each for item in value for each in find(item, key)]
    return found


# ---- log lines -------------------------------------------------------------------------------------------------


def test_scheduler_log_lines() -> None:
    port = free_port()
    with start_scheduler(f"tcp://127.0.0.1:{port}") as scheduler:
        scheduler.wait_for_output("monitor address")
        lines = scheduler.output.splitlines()
    assert re.fullmatch(rf"\[INFO\]{TIME}: logging to \('/dev/stdout',\)", lines[0])
    assert re.fullmatch(rf"\[INFO\]{TIME}: use event loop: builtin", lines[1])
    expected = rf"\[INFO\]{TIME}: Scheduler: monitor address is ipc:///tmp/127\.0\.0\.1_{port}_monitor"
    assert any(re.fullmatch(expected, line) for line in lines), lines


def test_cluster_log_lines() -> None:
    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 4) as cluster:
        for number in range(4):
            cluster.wait_for_output(rf"Worker\[{number}\] started")
        lines = cluster.output.splitlines()
    assert re.fullmatch(rf"\[INFO\]{TIME}: logging to \('/dev/stdout',\)", lines[0])
    starting = (
        rf"\[INFO\]{TIME}: ClusterProcess: starting 4 workers, heartbeat_interval_seconds=2, "
        r"object_retention_seconds=3600"
    )
    assert any(re.fullmatch(starting, line) for line in lines), lines
    for number in range(4):
        assert any(re.fullmatch(rf"\[INFO\]{TIME}: Worker\[{number}\] started", line) for line in lines), lines


def test_scaler_worker_is_the_same_program() -> None:
    address = free_address()
    with start_scheduler(address), Command(command_line("scaler_worker", address, "-n", 1)) as cluster:
        cluster.wait_for_output(r"Worker\[0\] started")


# ---- help, bad input, where settings come from -----------------------------------------------------------------


SCHEDULER_FLAGS = [
    "--protected",
    "-p",
    "--event-loop",
    "-e",
    "--monitor-address",
    "-ma",
    "--worker-timeout-seconds",
    "-wt",
    "--load-balance-seconds",
    "-ls",
    "--per-worker-queue-size",
    "-qs",
    "--io-threads",
    "-it",
    "--max-number-of-tasks-waiting",
    "-mt",
    "--client-timeout-seconds",
    "-ct",
    "--object-retention-seconds",
    "-ot",
    "--load-balance-trigger-times",
    "-lbt",
    "--logging-paths",
    "-lp",
    "--logging-level",
    "-ll",
    "--logging-config-file",
    "-lc",
    "--log-format",
    "--prometheus-address",
    "--config",
    "--no-protected",
]

CLUSTER_FLAGS = [
    "--num-of-workers",
    "-n",
    "--heartbeat-interval",
    "-hi",
    "--death-timeout-seconds",
    "-ds",
    "--garbage-collect-interval-seconds",
    "-gc",
    "--hard-processor-suspend",
    "-hps",
    "--preload",
    "--worker-names",
    "-wn",
    "--task-timeout-seconds",
    "-tts",
    "--trim-memory-threshold-bytes",
    "-tm",
    "--event-loop",
    "-el",
    "--io-threads",
    "-it",
    "--per-worker-capabilities",
    "--logging-paths",
    "--logging-level",
    "--logging-config-file",
    "--log-format",
    "--grace-seconds",
    "--echo-streamed-output",
    "--config",
]


@pytest.mark.parametrize(
    ("name", "flags"),
    [("scaler_scheduler", SCHEDULER_FLAGS), ("scaler_cluster", CLUSTER_FLAGS), ("scaler_worker", CLUSTER_FLAGS)],
)
def test_help_names_every_flag(name: str, flags: list[str]) -> None:
    done = run_command(name, "-h")
    assert done.returncode == 0
    missing = [flag for flag in flags if not re.search(rf"(?<![\w-]){flag}(?![\w-])", done.stdout)]
    assert missing == []


@pytest.mark.parametrize(
    ("name", "distribution"),
    [
        ("scaler_scheduler", scaler_scheduler),
        ("scaler_top", scaler_scheduler),
        ("scaler_ui", scaler_scheduler),
        ("scaler_cluster", scaler_worker),
        ("scaler_symphony_cluster", scaler_worker),
        ("scaler_gui", scaler_gui),
        ("scaler_keygen", scaler_protocol),
    ],
)
def test_the_version_of_every_command(name: str, distribution: ModuleType) -> None:
    done = run_command(name, "--version")
    assert done.returncode == 0
    of = distribution.__name__.replace("_", "-")
    protocol = f"protocol {PROTOCOL_MAJOR}.{PROTOCOL_MINOR}"
    assert done.stdout == f"{name} {distribution.__version__} ({of}, {protocol})\n"


@pytest.mark.parametrize(
    ("name", "arguments", "hint"),
    [
        ("scaler_scheduler", [], "address"),
        ("scaler_scheduler", ["tcp://127.0.0.1:0", "--protectd"], "--protected"),
        ("scaler_scheduler", ["tcp://127.0.0.1:0", "--event-loop", "twisted"], "event-loop"),
        ("scaler_scheduler", ["tcp://127.0.0.1:0", "--io-threads", "many"], "io-threads"),
        ("scaler_scheduler", ["tcp://127.0.0.1:0", "--config", "/nonexistent.toml"], "/nonexistent.toml"),
        ("scaler_scheduler", ["tcp://127.0.0.1:0", "--logging-level", "LOUD"], "logging-level"),
        ("scaler_scheduler", ["tcp://127.0.0.1:0", "--logging-paths", "/dev/null/log"], "/dev/null/log"),
        ("scaler_scheduler", ["127.0.0.1:2345"], "tcp://"),
        ("scaler_scheduler", ["http://127.0.0.1:2345"], "http"),
        ("scaler_scheduler", ["tcp://127.0.0.1:99999"], "99999"),
        ("scaler_scheduler", ["tcp://127.0.0.1:2345", "--monitor-address", "nonsense"], "nonsense"),
        ("scaler_cluster", [], "address"),
        ("scaler_cluster", ["nonsense"], "nonsense"),
        ("scaler_cluster", ["tcp://127.0.0.1:2345", "-n", "-1"], "num-of-workers"),
        ("scaler_cluster", ["tcp://127.0.0.1:2345", "-n", "2", "--worker-names", "a"], "names"),
        ("scaler_cluster", ["tcp://127.0.0.1:2345", "--preload", "no_such_module:f"], "no_such_module"),
        ("scaler_cluster", ["tcp://127.0.0.1:2345", "--per-worker-capabilities", "gpu=many"], "gpu"),
        ("scaler_top", ["nonsense"], "nonsense"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(name: str, arguments: list[str], hint: str) -> None:
    done = run_command(name, *arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and hint in lines[0].lower(), done.stderr


def test_a_busy_port_is_bad_input() -> None:
    address = free_address()
    with start_scheduler(address):
        done = run_command("scaler_scheduler", address)
        assert done.returncode == 2
        assert len(done.stderr.strip().splitlines()) == 1 and address in done.stderr, done.stderr
        with Client(address):
            pass


@pytest.mark.parametrize("host", ["0.0.0.0", "*"])
def test_a_public_address_is_refused_without_keys(host: str) -> None:
    done = run_command("scaler_scheduler", f"tcp://{host}:{free_port()}")
    assert done.returncode == 2
    assert "--insecure" in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_a_public_address_with_insecure() -> None:
    port = free_port()
    command = Command(command_line("scaler_scheduler", f"tcp://0.0.0.0:{port}", "--insecure"))
    with command:
        wait_until(lambda: is_bound(f"tcp://127.0.0.1:{port}"))
        with start_cluster(f"tcp://127.0.0.1:{port}", "-n", 1), Client(f"tcp://127.0.0.1:{port}") as client:
            assert client.submit(functions.square, 3).result(timeout=60) == 9


def test_precedence_of_settings(tmp_path: Path) -> None:
    file = tmp_path / "scaler.toml"
    address = f"ipc://{tmp_path}/from-file"
    file.write_text(f'[scheduler]\nevent-loop = "uvloop"\nmonitor-address = "{address}"\nprotected = false\n')

    def log(*flags: str, **environment: str) -> str:
        with start_scheduler(free_address(), "--config", file, *flags, **environment) as scheduler:
            scheduler.wait_for_output("monitor address is")
            return scheduler.output

    from_file = log()
    assert "use event loop: uvloop" in from_file and f"monitor address is {address}" in from_file
    other = f"ipc://{tmp_path}/environment"
    from_environment = log(SCALER_SCHEDULER_MONITOR_ADDRESS=other)
    assert f"monitor address is {other}" in from_environment and "uvloop" in from_environment
    flag = f"ipc://{tmp_path}/flag"
    assert f"monitor address is {flag}" in log("-ma", flag, SCALER_SCHEDULER_MONITOR_ADDRESS=other)


def test_cluster_settings_from_file_and_environment(tmp_path: Path) -> None:
    file = tmp_path / "scaler.toml"
    file.write_text("[cluster]\nnum-of-workers = 3\nheartbeat-interval = 1\n[scheduler]\nprotected = true\n")
    address = free_address()
    with start_scheduler(address):
        with start_cluster(address, "--config", file) as cluster:
            cluster.wait_for_output("starting 3 workers, heartbeat_interval_seconds=1,")
        with start_cluster(address, "--config", file, SCALER_CLUSTER_NUM_OF_WORKERS="1") as cluster:
            cluster.wait_for_output("starting 1 workers")


def test_an_unknown_key_names_the_nearest(tmp_path: Path) -> None:
    file = tmp_path / "scaler.toml"
    file.write_text("[scheduler]\nio-thread = 1\n")
    done = run_command("scaler_scheduler", free_address(), "--config", file)
    assert done.returncode == 2
    assert "io-thread" in done.stderr and "io-threads" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_broken_file_is_bad_input(tmp_path: Path) -> None:
    file = tmp_path / "scaler.toml"
    file.write_text("[scheduler\n")
    done = run_command("scaler_scheduler", free_address(), "--config", file)
    assert done.returncode == 2 and str(file) in done.stderr and len(done.stderr.strip().splitlines()) == 1


# ---- the scheduler's flags -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "protected"),
    [
        ((), True),
        (("--protected",), True),
        (("-p", "True"), True),
        (("--no-protected",), False),
        (("-p", "False"), False),
        (("--protected", "False"), False),
    ],
)
def test_protected(flags: tuple[str, ...], protected: bool) -> None:
    address = free_address()
    with start_scheduler(address, *flags) as scheduler:
        with Client(address) as client:
            if protected:
                with pytest.raises(ValueError, match="protected"):
                    client.shutdown()
            else:
                client.shutdown()
        if not protected:
            assert scheduler.wait(60) == 0
        else:
            assert scheduler.process.poll() is None


@pytest.mark.parametrize("flag", ["-e", "--event-loop"])
def test_scheduler_event_loop(flag: str) -> None:
    address = free_address()
    with start_scheduler(address, flag, "uvloop") as scheduler, start_cluster(address, "-n", 1), Client(address) as c:
        scheduler.wait_for_output("use event loop: uvloop")
        assert c.map(functions.square, range(100)) == [n * n for n in range(100)]


def test_cluster_event_loop() -> None:
    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 1, "-el", "uvloop") as cluster, Client(address) as c:
        cluster.wait_for_output("use event loop: uvloop")
        assert c.map(functions.square, range(100)) == [n * n for n in range(100)]


def test_io_threads_of_a_cluster() -> None:
    """A listener without a local socket, such as libzmq's, is spoken to through libzmq."""
    with zmq.Context() as context, context.socket(zmq.ROUTER) as listener:
        address = f"tcp://127.0.0.1:{listener.bind_to_random_port('tcp://127.0.0.1')}"
        with start_cluster(address, "-n", 1, "-it", 2) as cluster:
            wait_until(lambda: io_threads(cluster.pid) == 2)


def test_io_threads_of_a_scheduler() -> None:
    """On Linux libzmq serves none of its connections, and starts no thread."""
    show = "lambda context: sys.exit(context.get(zmq.IO_THREADS))"
    code = f"import sys, zmq; from scaler_scheduler import cli; cli.RouterSocket = {show}; cli.main()"
    line = [sys.executable, "-c", code, free_address(), "--io-threads", "3"]
    assert subprocess.run(line, capture_output=True, timeout=60).returncode == 3


def test_monitor_address(tmp_path: Path) -> None:
    address, monitor = free_address(), monitor_address(tmp_path)
    with start_scheduler(address, "-ma", monitor) as scheduler, start_cluster(address, "-n", 2):
        scheduler.wait_for_output(re.escape(f"monitor address is {monitor}"))
        with Client(address) as client:
            client.map(functions.square, range(123))
            wait_until(lambda: 123 in find(snapshot(monitor), "success"))
        scheduler.terminate()
    assert not (tmp_path / "monitor").exists()


def test_a_monitor_accepts_the_address_of_the_scheduler() -> None:
    address = free_address()
    with zmq.Context() as context, closing(Subscription(context, address)) as early:
        assert early.receive() is None
        with start_scheduler(address):
            assert snapshot(address)["scheduler"]["address"] == address
            assert wait_until(early.receive).message.scheduler.address == address


def test_max_number_of_tasks_waiting(tmp_path: Path) -> None:
    """Beyond it the scheduler takes little more from the client, which keeps the rest itself; none is refused."""

    def taken(*flags: object) -> int:
        address, monitor = free_address(), monitor_address(tmp_path)
        with start_scheduler(address, "-ma", monitor, *flags), Client(address) as client:
            futures = [client.submit(len, bytes(20_000)) for _ in range(2_000)]
            for _ in range(5):
                client.explain(futures[0])
            unassigned = wait_until(lambda: snapshot(monitor)["tasks"]["unassigned"])
            with start_cluster(address, "-n", 2):
                assert [future.result(timeout=60) for future in futures] == [20_000] * 2_000
            return unassigned

    assert taken("-mt", 100) < 1_000 < taken()


def sent_and_unassigned(monitor: str) -> tuple[int, int]:
    shown = snapshot(monitor)
    return sum(find(shown["agents"], "sent")), shown["tasks"]["unassigned"]


def test_per_worker_queue_size(tmp_path: Path, gate: Gate) -> None:
    def most_sent(*flags: object) -> int:
        address, monitor = free_address(), monitor_address(tmp_path)
        with start_scheduler(address, "-ma", monitor, *flags), start_cluster(address, "-n", 1):
            with Client(address) as client:
                client.map(functions.square, range(5_000))  # the scheduler learns that they are short
                blocker = client.submit(functions.wait_at_gate, *gate.paths)
                crowd = [client.submit(functions.square, number) for number in range(500)]
                wait_until(lambda: gate.waiting_pids)
                wait_until(lambda: sum(sent_and_unassigned(monitor)) == 1 + len(crowd))
                sent, _ = sent_and_unassigned(monitor)
                gate.open()
                [future.result(timeout=60) for future in [blocker, *crowd]]
                gate.gate.unlink()
                gate.started.unlink()
                return sent

    assert most_sent("-qs", 2) < 50 < most_sent()  # an agent whose answers take long may have more


def test_scheduler_logging_flags(tmp_path: Path) -> None:
    log = tmp_path / "scheduler.log"
    with start_scheduler(free_address(), "--logging-paths", log, "/dev/stdout", "--logging-level", "INFO") as scheduler:
        scheduler.wait_for_output("monitor address")
        assert f"logging to ('{log}', '/dev/stdout')" in log.read_text()
    with start_scheduler(free_address(), "-ll", "ERROR") as scheduler:
        assert scheduler.terminate() == 0
        assert "monitor address" not in scheduler.output


def test_cluster_logging_flags(tmp_path: Path) -> None:
    address, log = free_address(), tmp_path / "cluster.log"
    with start_scheduler(address), Command(command_line("scaler_cluster", address, "-n", 1, "-lp", log)) as cluster:
        wait_until(lambda: log.exists() and "Worker[0] started" in log.read_text())
        assert "Worker" not in cluster.output


def test_logging_config_file(tmp_path: Path) -> None:
    log, file = tmp_path / "configured.log", tmp_path / "logging.conf"
    file.write_text(
        "[loggers]\nkeys=root\n[handlers]\nkeys=file\n[formatters]\nkeys=plain\n"
        "[logger_root]\nlevel=INFO\nhandlers=file\n"
        f"[handler_file]\nclass=FileHandler\nformatter=plain\nargs=({str(log)!r},)\n"
        "[formatter_plain]\nformat=CONFIGURED %(message)s\n"
    )
    address = free_address()
    with start_scheduler(address, "--logging-config-file", file) as scheduler:
        wait_until(lambda: log.exists() and "CONFIGURED Scheduler: monitor address" in log.read_text())
        assert "monitor address" not in scheduler.output
        log.unlink()
        with Command(command_line("scaler_cluster", address, "-n", 1, "-lc", file)):
            wait_until(lambda: log.exists() and "CONFIGURED Worker[0] started" in log.read_text())


def test_log_format() -> None:
    address = free_address()
    with start_scheduler(address, "--log-format", "json") as scheduler:
        with start_cluster(address, "-n", 1, "--log-format", "json") as cluster:
            cluster.wait_for_output(r"Worker\[0\] started")
            assert "Worker[0] started" in [json.loads(line)["message"] for line in cluster.output.splitlines()]
        messages = [json.loads(line)["message"] for line in scheduler.output.splitlines()]
    assert any(message.startswith("Scheduler: monitor address is ") for message in messages)


# ---- the cluster's flags ---------------------------------------------------------------------------------------


def test_number_of_workers_and_their_names(tmp_path: Path, gate: Gate) -> None:
    address, monitor = free_address(), monitor_address(tmp_path)
    with start_scheduler(address, "-ma", monitor), start_cluster(address, "-n", 2, "-wn", "left,right"):
        with Client(address) as client:
            futures = [client.submit(functions.wait_at_gate, *gate.paths) for _ in range(3)]
            wait_until(lambda: len(set(gate.waiting_pids)) == 2)
            wait_until(lambda: sorted(find(snapshot(monitor)["workers"], "name")) == ["left", "right"])
            assert len(gate.waiting_pids) == 2
            gate.open()
            [future.result(timeout=60) for future in futures]


def test_heartbeat_interval(tmp_path: Path) -> None:
    address, monitor = free_address(), monitor_address(tmp_path)

    def heartbeats() -> int:
        return snapshot(monitor)["received"].get("Heartbeat", 0)

    with start_scheduler(address, "-ma", monitor), start_cluster(address, "-n", 1, "-hi", 0.2) as cluster:
        cluster.wait_for_output("heartbeat_interval_seconds=0.2,")
        watch = Stopwatch()
        wait_until(lambda: heartbeats() > 4 + watch.seconds)  # usually there is one in two seconds


def test_task_timeout_seconds() -> None:
    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 1, "-tts", 1), Client(address) as client:
        with pytest.raises(TaskTimeoutError):
            client.submit(functions.sleep_and_return, 30).result(timeout=60)
        assert client.submit(functions.sleep_and_return, 0.1, 5).result(timeout=60) == 5


def test_death_timeout_seconds() -> None:
    address = free_address()
    with Command(command_line("scaler_cluster", address, "-n", 1, "-ds", 2)) as cluster:
        watch = Stopwatch()
        cluster.wait(60)
        assert 1.5 < watch.seconds < 50


def test_death_timeout_counts_from_the_loss_of_the_scheduler() -> None:
    address = free_address()
    with start_scheduler(address) as scheduler, start_cluster(address, "-n", 1, "-ds", 2) as cluster:
        with Client(address) as client:
            client.submit(functions.sleep_and_return, 2.5).result(timeout=60)
        assert cluster.process.poll() is None
        scheduler.kill()
        cluster.wait(60)


def test_preload(tmp_path: Path) -> None:
    (tmp_path / "prepared.py").write_text("TABLE = {}\ndef fill():\n    TABLE['answer'] = 42\n")
    path = f"{child_environment()['PYTHONPATH']}{os.pathsep}{tmp_path}"
    address = free_address()

    def look_up() -> int | None:
        module = sys.modules.get("prepared")
        return module.TABLE["answer"] if module else None

    with start_scheduler(address), start_cluster(address, "-n", 1, "--preload", "prepared:fill", PYTHONPATH=path):
        with Client(address) as client:
            assert client.submit(look_up).result(timeout=60) == 42


def test_capabilities(gate: Gate) -> None:
    address = free_address()
    with start_scheduler(address), Client(address) as client:
        with (
            start_cluster(address, "-n", 1, "--per-worker-capabilities", "linux,gpu=1") as able,
            start_cluster(address, "-n", 1),
        ):
            agents = {
                client.submit_verbose(functions.parent_process_id, capabilities={"gpu": 1}).result(timeout=60)
                for _ in range(10)
            }
            assert agents == {able.pid}
            assert client.map(functions.square, range(4), capabilities={"linux": 1}) == [0, 1, 4, 9]


def test_a_capability_that_comes_later() -> None:
    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 1), Client(address) as client:
        waiting = client.submit_verbose(functions.square, (3,), capabilities={"gpu": 1})
        assert client.map(functions.square, range(100)) == [n * n for n in range(100)]
        assert not waiting.done()
        with start_cluster(address, "-n", 1, "--per-worker-capabilities", "gpu=1"):
            assert waiting.result(timeout=60) == 9


def test_garbage_collect_interval() -> None:
    """A cycle that holds memory is freed by the idle worker process itself."""
    address = free_address()

    def leave_cycle(path: str) -> None:
        import gc

        class Noisy:
            def __del__(self) -> None:
                functions.note(path)

        gc.disable()
        cycle = [Noisy()]
        cycle.append(cycle)  # type: ignore[arg-type]

    path = f"/tmp/scaler-test-gc-{os.getpid()}"
    try:
        with start_scheduler(address), start_cluster(address, "-n", 1, "-gc", 1), Client(address) as client:
            client.submit(leave_cycle, path).result(timeout=60)
            wait_until(lambda: functions.notes(path), what="the cycle was collected")
    finally:
        Path(path).unlink(missing_ok=True)


def test_trim_memory_threshold() -> None:
    """Memory that freed objects left in the allocator goes back to the system."""
    address = free_address()

    def scatter() -> int:
        blocks = [bytes(100_000 if number % 2 else 1_000) for number in range(4_000)]
        kept.extend(blocks[0::2])
        return psutil.Process().memory_info().rss

    kept: list[bytes] = []

    def resident() -> int:
        return psutil.Process().memory_info().rss

    with start_scheduler(address), Client(address) as client:
        with start_cluster(address, "-n", 1, "-gc", 1, "-tm", 1_000_000):
            full = client.submit(scatter).result(timeout=60)
            wait_until(lambda: client.submit(resident).result(timeout=60) < full - 100_000_000, what="memory trimmed")


def test_worker_processes_are_replaced_after_a_number_of_tasks() -> None:
    address = free_address()
    with (
        start_scheduler(address),
        Client(address) as client,
        start_cluster(address, "-n", 1, "--max-tasks-per-worker", 3),
    ):
        pids = client.map(lambda _: os.getpid(), range(9))
        assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [3, 3, 3]


def test_a_worker_process_that_uses_too_much_memory_is_replaced() -> None:
    address = free_address()
    kept: list[bytes] = []

    def grow() -> int:
        kept.append(b"x" * 300_000_000)
        return os.getpid()

    flags = ("-n", 1, "-hi", 0.1, "--recycle-memory-threshold-bytes", 200_000_000)
    with start_scheduler(address), Client(address) as client, start_cluster(address, *flags) as cluster:
        pid = client.submit(grow).result()
        cluster.wait_for_output("its process is replaced when its task has ended")
        wait_until(lambda: not psutil.pid_exists(pid))
        assert client.submit(os.getpid).result() != pid


def test_the_title_of_a_worker_process_names_its_function(gate: Gate) -> None:
    def title(pid: int) -> str:
        return Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0")

    address = free_address()
    with start_scheduler(address), Client(address) as client, start_cluster(address, "-n", 1, "-wn", "vm"):
        waiting = client.submit(functions.wait_at_gate, *gate.paths)
        wait_until(lambda: gate.waiting_pids)
        (pid,) = gate.waiting_pids
        assert title(pid) == "scaler worker vm: wait_at_gate"
        gate.open()
        waiting.result()
        wait_until(lambda: title(pid) == "scaler worker vm")


# ---- signals and what is left behind ---------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_everything_cleanly(number: signal.Signals) -> None:
    address = free_address()
    with start_scheduler(address) as scheduler, start_cluster(address, "-n", 2) as cluster:
        with Client(address) as client:
            client.map(functions.square, range(10))
        members = [*cluster.family(), *scheduler.family()]
        cluster.signal(number)
        assert cluster.wait(60) == 0
        scheduler.signal(number)
        assert scheduler.wait(60) == 0
        assert "Traceback" not in cluster.output + scheduler.output
        wait_until(lambda: not any(alive(member.pid) for member in members))
        assert not is_bound(address)


def test_running_tasks_get_their_grace(gate: Gate) -> None:
    address = free_address()
    with start_scheduler(address), Client(address) as client:
        with start_cluster(address, "-n", 1) as cluster:
            future = client.submit(functions.wait_at_gate, *gate.paths, "value")
            queued = [client.submit(functions.square, n) for n in range(5)]
            wait_until(lambda: gate.waiting_pids)
            cluster.signal(signal.SIGTERM)
            gate.open()
            assert future.result(timeout=60) == "value"
            assert cluster.wait(60) == 0
        with start_cluster(address, "-n", 1):
            assert [one.result(timeout=60) for one in queued] == [n * n for n in range(5)]
    assert len(gate.waiting_pids) == 1


def test_grace_seconds_end(gate: Gate) -> None:
    address = free_address()
    with start_scheduler(address), Client(address) as client:
        with start_cluster(address, "-n", 1, "--grace-seconds", 1) as cluster:
            future = client.submit(functions.wait_at_gate, *gate.paths, "value")
            wait_until(lambda: gate.waiting_pids)
            watch = Stopwatch()
            cluster.signal(signal.SIGTERM)
            cluster.wait(60)
            assert 0.8 < watch.seconds < 9
        gate.open()
        with start_cluster(address, "-n", 1):
            assert future.result(timeout=60) == "value"


def test_a_second_signal_ends_at_once(gate: Gate) -> None:
    address = free_address()
    flags = "-n", 1, "--grace-seconds", 100
    with start_scheduler(address), Client(address) as client, start_cluster(address, *flags) as cluster:
        client.submit(functions.wait_at_gate, *gate.paths)
        wait_until(lambda: gate.waiting_pids)
        members = cluster.family()
        cluster.signal(signal.SIGTERM)
        watch = Stopwatch()
        wait_until(lambda: watch.seconds > 0.3)
        assert cluster.process.poll() is None
        cluster.signal(signal.SIGTERM)
        cluster.wait(60)
        assert watch.seconds < 50
        wait_until(lambda: not any(alive(member.pid) for member in members))


@pytest.mark.parametrize("victim", ["scheduler", "cluster", "both"])
def test_nothing_stays_behind_whoever_is_killed(victim: str, tmp_path: Path) -> None:
    address, monitor = f"ipc://{tmp_path}/scheduler", monitor_address(tmp_path)
    before = leftovers.present()
    with start_scheduler(address, "-ma", monitor) as scheduler, start_cluster(address, "-n", 2, "-ds", 2) as cluster:
        with Client(address) as client:
            assert len(client.submit(bytes, 5_000_000).result(timeout=60)) == 5_000_000
        members = [*cluster.family(), *scheduler.family()]
        if victim != "cluster":
            scheduler.kill()
        if victim != "scheduler":
            cluster.kill()
        cluster.process.poll() is None and cluster.wait(60)
        scheduler.process.poll() is None and scheduler.terminate()
        wait_until(lambda: not any(alive(member.pid) for member in members), what="every process ended")
        assert not leftovers.shared_memory_since(before)
        if victim == "cluster":
            assert not (tmp_path / "scheduler").exists() and not (tmp_path / "monitor").exists()


def test_ipc_files_of_a_killed_scheduler_do_not_hinder_the_next(tmp_path: Path) -> None:
    address, monitor = f"ipc://{tmp_path}/scheduler", monitor_address(tmp_path)
    with start_scheduler(address, "-ma", monitor) as first:
        first.kill()
        with start_scheduler(address, "-ma", monitor) as second:
            second.wait_for_output("monitor address")
            with Client(address) as client, start_cluster(address, "-n", 1):
                assert client.submit(functions.square, 3).result(timeout=60) == 9
            assert second.terminate() == 0
    assert list(tmp_path.iterdir()) == []


def test_output_of_tasks_appears_at_the_cluster() -> None:
    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 1) as cluster, Client(address) as client:
        client.submit(print, "words of a task").result(timeout=60)
        cluster.wait_for_output("words of a task")


@pytest.mark.parametrize("flags", [(), ("--no-echo-streamed-output",)])
def test_echo_streamed_output(flags: tuple[str, ...]) -> None:
    def talk() -> None:
        print("streamed words")
        print("streamed error", file=sys.stderr)
        warnings.warn("warned words", stacklevel=1)

    address = free_address()
    with start_scheduler(address), start_cluster(address, "-n", 1, *flags) as cluster:
        with Client(address, stream_output=True) as streaming, Client(address) as silent:
            with pytest.warns(UserWarning, match="warned words"):
                streaming.submit(talk).result(timeout=60)
            silent.submit(print, "other words").result(timeout=60)
            cluster.wait_for_output("other words")
        written = [words in cluster.output for words in ("streamed words", "streamed error", "warned words")]
        assert written == [not flags] * 3


def test_object_retention_seconds() -> None:
    """A large result that nobody fetches is dropped after a while."""
    address = free_address()
    with start_scheduler(address, "-ot", 1), start_cluster(address, "-n", 1), Client(address) as client:
        future = client.submit(bytes, 1_000_000)
        wait_until(future.done)
        watch = Stopwatch()
        wait_until(lambda: watch.seconds > 3)
        with pytest.raises(MissingObjects):
            future.result(timeout=60)


def test_hard_processor_suspend(gate: Gate, tmp_path: Path) -> None:
    """A parent whose slot is lent stands still while its child runs."""

    def parent(client: Client, pid_path: str, started: str, gate_path: str) -> str:
        functions.note(pid_path, str(os.getpid()))
        return client.submit(functions.wait_at_gate, started, gate_path, "child").result()

    def is_stopped(pid: int) -> bool:
        return psutil.Process(pid).status() == psutil.STATUS_STOPPED

    address, pid_path = free_address(), str(tmp_path / "parent")
    for flags in ([], ["-hps"]):
        with start_scheduler(address), start_cluster(address, "-n", 1, *flags), Client(address) as client:
            future = client.submit(parent, client, pid_path, *gate.paths)
            wait_until(lambda: gate.waiting_pids)
            pid = int(functions.notes(pid_path)[-1])
            if flags:
                wait_until(lambda: is_stopped(pid))  # noqa: B023
            else:
                assert not is_stopped(pid)
            gate.open()
            assert future.result(timeout=60) == "child"
        gate.gate.unlink()
        gate.started.unlink()
