"""``scaler_symphony_cluster``: what its flags do, what it says, how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from scaler import Client
from tests.cluster.conftest import Gate
from tests.support import functions
from tests.support.commands import Stopwatch, child_environment, command_line, io_threads, run_command, start_scheduler
from tests.support.ports import free_address
from tests.support.symphony import SERVICE, Rig, Symphony, api_environment, start_symphony_cluster
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def symphony() -> Iterator[Symphony]:
    with Symphony() as running:
        yield running


def snapshot_of(address: str) -> dict[str, Any]:
    """What monitors are told."""
    host, port = address.removeprefix("tcp://").rsplit(":", 1)
    line = command_line("scaler_top", f"ipc:///tmp/{host}_{port}_monitor", "--json")
    done = subprocess.run(line, env=child_environment(), capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


# ---- bad input ---------------------------------------------------------------------------------------------------


def refusal(symphony: Symphony, *arguments: object, **environment: str) -> str:
    done = run_command("scaler_symphony_cluster", *arguments, **{**symphony.environment, **environment})
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.count("\n") == 1 and "Traceback" not in done.stderr
    return done.stderr


def test_without_soamapi() -> None:
    done = run_command("scaler_symphony_cluster", free_address(), SERVICE)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "soamapi" in done.stderr and "Install Symphony's client on this host" in done.stderr


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (
            "raise OSError('libsoam.so: no such file')",
            "the Python API of IBM Spectrum Symphony: libsoam.so: no such file. Install Symphony's",
        ),
        (
            "",
            "soamapi.py: it is not the Python API of IBM Spectrum Symphony, because it has no Message.",
        ),
    ],
)
def test_a_module_that_is_no_soamapi(content: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "soamapi.py").write_text(content)
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    done = run_command("scaler_symphony_cluster", free_address(), SERVICE, PYTHONPATH=path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert text in done.stderr


def test_an_unknown_service(symphony: Symphony) -> None:
    text = refusal(symphony, free_address(), "NoSuchService")
    assert "application NoSuchService is not registered" in text and "Check that the service is registered" in text


def test_a_refused_login(tmp_path: Path) -> None:
    with Symphony(SOAMAPI_USER="Somebody") as symphony:
        text = refusal(symphony, free_address(), SERVICE)
    assert "user Guest cannot log in" in text and "the user Guest may use it" in text


def test_symphony_is_not_there(tmp_path: Path) -> None:
    environment = api_environment(SOAMAPI_BROKER=str(tmp_path / "none"))
    done = run_command("scaler_symphony_cluster", free_address(), SERVICE, **environment)
    assert done.returncode == 2 and "not reachable" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((SERVICE, "--base-concurrency", "0"), "0 is less than 1. Give 1 or more."),
        ((SERVICE, "-n", "-3"), "-3 is less than 1"),
        ((SERVICE, "-n", "many"), "'many' is not a whole number"),
        ((SERVICE, "-hi", "0"), "less than"),
        ((SERVICE, "-el", "none"), "not one of builtin, uvloop"),
        ((SERVICE, "--worker-name", ""), "the name of a worker must not be empty"),
        (("",), "the name of a service in Symphony must not be empty"),
        ((SERVICE, "--base-concurency", "2"), "Did you mean --base-concurrency?"),
        ((), "Missing argument SERVICE"),
    ],
)
def test_flags_that_make_no_sense(symphony: Symphony, arguments: tuple[str, ...], text: str) -> None:
    assert text in refusal(symphony, free_address(), *arguments)


def test_help_names_everything() -> None:
    done = run_command("scaler_symphony_cluster", "-h")
    assert done.returncode == 0
    for flag in (
        "--base-concurrency",
        "-n",
        "--worker-name",
        "-w",
        "-hi",
        "-ds",
        "-el",
        "-it",
        "--grace-seconds",
        "-lp",
    ):
        assert re.search(rf"(^|[\s,]){flag}\b", done.stdout), flag


def test_an_address_that_is_none(symphony: Symphony) -> None:
    assert "is not an address" in refusal(symphony, "localhost", SERVICE)


# ---- flags -------------------------------------------------------------------------------------------------------


def test_monitors_see_an_agent_like_any_other(symphony: Symphony, gate: Gate) -> None:
    with Rig("-n", 3, "-w", "grid", "-hi", "0.1") as rig, Client(rig.address) as client:
        future = client.submit(functions.wait_at_gate, *gate.paths, 1)
        wait_until(lambda: gate.waiting_pids)

        def one_is_busy() -> dict[str, Any] | None:
            snapshot = snapshot_of(rig.address)
            return snapshot if sum(worker["has_task"] for worker in snapshot["workers"]) == 1 else None

        snapshot = wait_until(one_is_busy)
        assert snapshot["agents"][0]["name"] == "grid" and snapshot["agents"][0]["pid"] == rig.command.pid
        assert [worker["name"] for worker in snapshot["workers"]] == ["grid-0", "grid-1", "grid-2"]
        assert all(worker["initialized"] for worker in snapshot["workers"])
        reports = snapshot["received"]["Heartbeat"]
        wait_until(lambda: snapshot_of(rig.address)["received"]["Heartbeat"] > reports + 5, what="a report each 0.1 s")
        gate.open()
        assert future.result(timeout=60) == 1


def test_log_lines(symphony: Symphony, tmp_path: Path) -> None:
    address, path = free_address(), tmp_path / "log"
    flags = ("-n", 2, "-hi", 3, "-lp", "/dev/stdout", path, "-ll", "DEBUG", "-el", "uvloop")
    with start_scheduler(address), start_symphony_cluster(symphony, address, *flags) as command:
        assert "uvloop" in Path(f"/proc/{command.pid}/maps").read_text()
        assert command.terminate() == 0
        lines = path.read_text().splitlines()
    stamp = r"\[INFO\]\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d{4}: "
    expected = [
        rf"logging to \('/dev/stdout', '{path}'\)",
        "use event loop: uvloop",
        "ClusterProcess: starting 2 workers, heartbeat_interval_seconds=3, object_retention_seconds=3600",
        r"Worker\[0\] started",
        r"Worker\[1\] started",
        "ClusterProcess: exiting: stopped",
    ]
    assert [bool(re.fullmatch(stamp + text, line)) for text, line in zip(expected, lines, strict=True)] == [True] * 6


def test_the_logging_level(symphony: Symphony) -> None:
    done = run_command(
        "scaler_symphony_cluster", free_address(), SERVICE, "-ll", "ERROR", "-ds", "0.5", **symphony.environment
    )
    assert done.returncode == 1
    assert re.fullmatch(
        r"\[ERROR\]\S+ \S+: ClusterProcess: exiting: no connection to the scheduler for 0.5 seconds\n", done.stdout
    )


def test_a_logging_configuration_file(symphony: Symphony, tmp_path: Path) -> None:
    configuration, log = tmp_path / "logging.ini", tmp_path / "own.log"
    configuration.write_text(
        f"[loggers]\nkeys=root\n[handlers]\nkeys=file\n[formatters]\nkeys=\n[logger_root]\nlevel=INFO\nhandlers=file\n"
        f"[handler_file]\nclass=FileHandler\nargs=('{log}',)\n"
    )
    line = command_line("scaler_symphony_cluster", free_address(), SERVICE, "-lc", configuration, "-ds", "0.5")
    subprocess.run(line, env=child_environment(**symphony.environment), capture_output=True, timeout=60)
    assert "Worker[0] started" in log.read_text()


def test_io_threads(symphony: Symphony) -> None:
    """A listener without a local socket, such as libzmq's, is spoken to through libzmq."""
    with zmq.Context() as context, context.socket(zmq.ROUTER) as listener:
        address = f"tcp://127.0.0.1:{listener.bind_to_random_port('tcp://127.0.0.1')}"
        with start_symphony_cluster(symphony, address, "-it", 4) as command:
            wait_until(lambda: io_threads(command.pid) == 4)


def test_settings_from_file_and_environment(symphony: Symphony, tmp_path: Path) -> None:
    address, path = free_address(), tmp_path / "scaler.toml"
    path.write_text(f'[symphony]\naddress = "{address}"\nservice = "{SERVICE}"\nbase-concurrency = 5\n')
    line = command_line("scaler_symphony_cluster", "--config", path, "-ds", "0.5")
    environment = child_environment(**symphony.environment, SCALER_SYMPHONY_BASE_CONCURRENCY="3")
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=60)
    assert "starting 3 workers" in done.stdout


# ---- the end -----------------------------------------------------------------------------------------------------


def test_a_scheduler_that_stays_away(symphony: Symphony) -> None:
    watch = Stopwatch()
    with start_symphony_cluster(symphony, free_address(), "--death-timeout-seconds", "0.7") as command:
        assert command.wait() == 1 and watch.seconds < 50
        assert "no connection to the scheduler for 0.7 seconds" in command.output


def test_a_symphony_that_stays_away() -> None:
    with Rig("-ds", "1") as rig:
        rig.symphony.faults(refused_sessions=1000)
        rig.symphony.end_sessions()
        assert rig.command.wait() == 1
        assert "Symphony is out of reach for 1 seconds" in rig.command.output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_running_tasks_end(gate: Gate, number: signal.Signals) -> None:
    with Rig("-n", 1, "--grace-seconds", 20) as rig, Client(rig.address) as client:
        running = client.submit(functions.wait_at_gate, *gate.paths, "value")
        wait_until(lambda: gate.waiting_pids)
        rig.command.signal(number)
        waiting = client.submit(functions.square, 3)
        client.explain(waiting)
        gate.open()
        assert running.result(timeout=60) == "value"
        assert rig.command.wait() == 0 and not waiting.done()
        with rig.start_command():
            assert waiting.result(timeout=60) == 9


def test_grace_ends_and_a_second_signal_ends_at_once(gate: Gate) -> None:
    with Rig("-n", 1, "--grace-seconds", 0.3) as rig, Client(rig.address) as client:
        client.submit(functions.wait_at_gate, *gate.paths, "value")
        wait_until(lambda: gate.waiting_pids)
        rig.command.signal(signal.SIGTERM)
        assert rig.command.wait(60) == 0
        with start_symphony_cluster(rig.symphony, rig.address, "-n", 1, "--grace-seconds", 60) as other:
            wait_until(lambda: len(gate.waiting_pids) == 2)
            other.signal(signal.SIGINT)
            other.signal(signal.SIGTERM)
            assert other.wait(60) in (128 + signal.SIGINT, 128 + signal.SIGTERM)
        gate.open()


def test_a_shutdown_of_the_cluster_ends_it() -> None:
    with Rig("-n", 1, scheduler_flags=("--no-protected",)) as rig:
        Client(rig.address).shutdown()
        assert rig.command.wait() == 0 and rig.scheduler.wait() == 0


def test_it_needs_no_client_package(symphony: Symphony) -> None:
    """The host of the command has scaler-worker and scaler-protocol only."""
    code = "import sys; sys.modules['scaler'] = None; import scaler_worker.symphony.agent"
    done = subprocess.run([sys.executable, "-c", code], env=child_environment(**symphony.environment), timeout=60)
    assert done.returncode == 0
