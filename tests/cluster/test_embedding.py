"""Scaler typed into ``python -``, a script without a main guard, a notebook's kernel."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.commands import Stopwatch, child_environment, run_python
from tests.support.waiting import wait_until

QUICK_START = """
import math
from scaler import Client, SchedulerClusterCombo

def double(value):
    return 2 * value

class Point:
    def __init__(self, x):
        self.x = x

def shift(point, by):
    return Point(point.x + by)

cluster = SchedulerClusterCombo(n_workers=2)
with Client(address=cluster.get_address()) as client:
    print(client.map(math.sqrt, [(i,) for i in range(3)]))
    print(client.map(double, range(4)))
    future = client.submit(shift, Point(1), by=2)
    print(future.result().x)
"""


def processes_using(marker: str) -> list[psutil.Process]:
    """Processes that carry the marker in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if marker in process.environ().values():
                found.append(process)
        except psutil.Error:
            pass
    return found


def expect_quick_start(completed: subprocess.CompletedProcess[str]) -> None:
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout.splitlines() == ["[0.0, 1.0, 1.4142135623730951]", "[0, 2, 4, 6]", "3"], completed.stderr
    assert not completed.stderr


def test_quick_start_piped_into_python() -> None:
    expect_quick_start(run_python(QUICK_START + "cluster.shutdown()\n"))


STREAMING = """
import sys
import threading
from scaler import Client, SchedulerClusterCombo
def talk(number):
    print(f"out {number}")
    print(f"error {number}", file=sys.stderr)
with SchedulerClusterCombo(2) as cluster, Client(cluster.get_address(), stream_output=True) as client:
    client.map(talk, range(3))
"""


def test_streamed_output_is_written_once() -> None:
    completed = run_python(STREAMING)
    assert sorted(completed.stdout.splitlines()) == ["out 0", "out 1", "out 2"]
    assert sorted(completed.stderr.splitlines()) == ["error 0", "error 1", "error 2"]


WAITING = """
from scaler import Client
client = Client("tcp://127.0.0.1:9", timeout_seconds=1.5)
print(type(client.submit(abs, 1).exception()).__name__)
"""


def test_waiting_for_a_scheduler_is_one_line_on_stderr() -> None:
    completed = run_python(WAITING)
    assert completed.stdout == "DisconnectedError\n"
    (line,) = completed.stderr.splitlines()
    assert line.endswith("Start one there with: scaler_scheduler tcp://127.0.0.1:9")


DYING = """
import os, sys
from scaler import Client, SchedulerClusterCombo
def die():
    print("last words", file=sys.stderr)
    os._exit(3)
with SchedulerClusterCombo(1) as cluster, Client(cluster.get_address(), stream_output=True) as client:
    error = client.submit_verbose(die, rerun=False).exception()
    print(error.certificates[0]["stderr"])
"""


def test_streamed_errors_are_in_the_certificate_of_a_death() -> None:
    assert run_python(DYING).stdout == "['last words']\n"


def test_script_without_main_guard(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(QUICK_START + "cluster.shutdown()\n")
    expect_quick_start(
        subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, timeout=40, env=child_environment()
        )
    )


@pytest.mark.parametrize("ending", ["", "raise SystemExit(0)\n", "client = Client(cluster.get_address())\n"])
def test_a_script_that_forgets_shutdown_exits_promptly(ending: str, tmp_path: Path) -> None:
    marker = str(tmp_path)
    watch = Stopwatch()
    expect_quick_start(run_python(QUICK_START + ending, SCALER_TEST_MARKER=marker))
    assert watch.seconds < 50
    wait_until(lambda: not processes_using(marker), what="nothing of the script is left")


def test_a_script_that_fails_leaves_nothing(tmp_path: Path) -> None:
    marker = str(tmp_path)
    completed = run_python(QUICK_START + "1 / 0\n", SCALER_TEST_MARKER=marker)
    assert completed.returncode == 1 and "ZeroDivisionError" in completed.stderr
    wait_until(lambda: not processes_using(marker), what="nothing of the script is left")


def test_a_killed_script_leaves_nothing(tmp_path: Path) -> None:
    marker = str(tmp_path)
    child = subprocess.Popen(
        [sys.executable, "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=child_environment(SCALER_TEST_MARKER=marker),
    )
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write(QUICK_START + "print('ready', flush=True)\nimport time; time.sleep(60)\n")
    child.stdin.close()
    try:
        for line in child.stdout:
            if line.startswith("ready"):
                break
        assert len(processes_using(marker)) > 2
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    wait_until(lambda: not processes_using(marker), what="nothing of the script is left")


def test_modules_beside_the_script_load_on_the_workers(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("def triple(value):\n    return 3 * value\n")
    script = tmp_path / "script.py"
    script.write_text(
        "from scaler import Client, SchedulerClusterCombo\nimport beside\n"
        "with SchedulerClusterCombo(1) as combo, Client(combo.get_address()) as client:\n"
        "    print('answer', client.map(beside.triple, range(3)))\n"
    )
    environment = child_environment()
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=40, env=environment)
    assert "answer [0, 3, 6]" in done.stdout, done.stdout + done.stderr


def test_an_interactive_interpreter() -> None:
    done = subprocess.run(
        [sys.executable, "-i", "-q"],
        input=QUICK_START.replace("\n\nclass", "\n\n\nclass") + "\ncluster.shutdown()\nexit()\n",
        capture_output=True,
        text=True,
        timeout=40,
        env=child_environment(),
    )
    assert "[0, 2, 4, 6]" in done.stdout, done.stdout + done.stderr


def test_a_forked_child_of_the_program_is_not_hurt_and_does_not_hurt() -> None:
    """multiprocessing with fork in a program that holds a client."""
    source = """
import math, multiprocessing
from scaler import Client, SchedulerClusterCombo
with SchedulerClusterCombo(1) as combo, Client(combo.get_address()) as client:
    assert client.submit(math.sqrt, 4).result() == 2
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.map(math.sqrt, [9]) == [3]
    assert client.submit(math.sqrt, 16).result() == 4
print("good")
"""
    done = run_python(source)
    assert "good" in done.stdout, done.stdout + done.stderr


def test_a_notebook_kernel() -> None:
    manager_module = pytest.importorskip("jupyter_client.manager")
    pytest.importorskip("ipykernel")
    manager, kernel = manager_module.start_new_kernel(
        kernel_name="python3", env=child_environment(), startup_timeout=40
    )
    try:
        printed: list[str] = []

        def hook(message: dict) -> None:  # type: ignore[type-arg]
            content = message["content"]
            printed.append(content.get("text", "") or "\n".join(content.get("traceback", [])))

        reply = kernel.execute_interactive(QUICK_START, timeout=40, output_hook=hook)
        assert reply["content"]["status"] == "ok", printed
        assert "[0, 2, 4, 6]" in "".join(printed)
        awaited = "client = Client(cluster.get_address())\nprint('awaited', await client.submit(double, 21))"
        reply = kernel.execute_interactive(awaited, timeout=40, output_hook=hook)
        assert reply["content"]["status"] == "ok", printed
        assert "awaited 42" in "".join(printed)
        reply = kernel.execute_interactive("client.disconnect(); cluster.shutdown()", timeout=40, output_hook=hook)
        assert reply["content"]["status"] == "ok", printed
    finally:
        kernel.stop_channels()
        manager.shutdown_kernel(now=True)


NOTEBOOK = """
import time
from pathlib import Path
from scaler import Client, SchedulerClusterCombo
cluster = SchedulerClusterCombo(n_workers=2)
client = Client(cluster.get_address())
def note_and_wait(path, gate):
    Path(path).touch()
    while not Path(gate).exists():
        time.sleep(0.01)
    return "kept"
def value(): return "first"
kept = client.submit(note_and_wait, {kept!r}, {gate!r})
assert client.submit(value).result() == "first"
client
"""


def test_an_interrupted_cell_of_a_notebook_cancels_what_it_waits_for(tmp_path: Path) -> None:
    manager_module = pytest.importorskip("jupyter_client.manager")
    pytest.importorskip("ipykernel")
    paths = {name: str(tmp_path / name) for name in ("kept", "gate", "cell")}
    manager, kernel = manager_module.start_new_kernel(
        kernel_name="python3", env=child_environment(), startup_timeout=40
    )
    shown: list[str] = []

    def run(source: str) -> dict[str, Any]:
        def hook(message: dict[str, Any]) -> None:
            content = message["content"]
            shown.append(
                content.get("text", "") + str(content.get("data", "")) + "\n".join(content.get("traceback", []))
            )

        content: dict[str, Any] = kernel.execute_interactive(source, timeout=60, output_hook=hook)["content"]
        return content

    def interrupt() -> None:
        wait_until((tmp_path / "cell").exists, 40)
        manager.interrupt_kernel()

    try:
        assert run(NOTEBOOK.format(**paths))["status"] == "ok", shown
        assert "<table>" in "".join(shown)
        interruption = threading.Thread(target=interrupt)
        interruption.start()
        reply = run(f"client.map(note_and_wait, [{paths['cell']!r}] * 3, [{paths['gate'] + '-none'!r}] * 3)")
        interruption.join()
        assert reply["status"] == "error" and reply["ename"] == "KeyboardInterrupt", shown
        assert run("assert not kept.done()")["status"] == "ok", shown
        assert run("def value(): return 'second'\nassert client.submit(value).result(60) == 'second'")["status"] == "ok"
        (tmp_path / "gate").touch()
        assert run("assert kept.result(60) == 'kept'")["status"] == "ok", shown
        assert run("client.disconnect(); cluster.shutdown()")["status"] == "ok", shown
    finally:
        kernel.stop_channels()
        manager.shutdown_kernel(now=True)
