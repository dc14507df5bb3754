"""Tests that heed no signal do not hold up the run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.commands import child_environment

CONFTEST = """
from tests.support.watchdog import Watchdog

def pytest_configure(config):
    config.pluginmanager.register(Watchdog(config, grace_seconds=0.5))
"""
DEAF = """
import signal, subprocess, sys, threading

def deaf():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
"""
NEVER_ENDS = """
def test_first():
    pass

def test_waits():
    deaf()
    threading.Event().wait()

def test_another():
    pass
"""


def run(folder: Path, tests: str, conftest: str = CONFTEST, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(conftest)
    (folder / "test_deaf.py").write_text(DEAF + tests)
    command = [sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir", folder, "--timeout", "0.5", *options]
    return subprocess.run(
        [*command, folder], env=child_environment(), capture_output=True, text=True, timeout=50, cwd=folder
    )


def test_a_test_that_waits_for_a_child_fails_alone(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
def test_waits():
    deaf()
    assert subprocess.run([sys.executable, "-c", "import time; time.sleep(1000)"]).returncode == 0

def test_another():
    pass
""",
    )
    assert done.returncode == 1
    assert "1 failed, 1 passed" in done.stdout.splitlines()[-1]


def test_a_test_that_never_ends_ends_the_run_with_its_closing_line(tmp_path: Path) -> None:
    done = run(tmp_path, NEVER_ENDS)
    assert done.returncode == 1
    assert "FAILED test_deaf.py::test_waits - does not end" in done.stdout
    assert "1 failed, 1 passed" in done.stdout.splitlines()[-1]
    assert "in test_waits" in done.stderr


def test_a_test_that_never_ends_fails_alone_where_another_process_reports(tmp_path: Path) -> None:
    done = run(tmp_path, NEVER_ENDS, CONFTEST, "-n1")
    assert done.returncode == 1
    assert "crashed while running 'test_deaf.py::test_waits'" in done.stdout
    assert "1 failed, 2 passed" in done.stdout.splitlines()[-1]
    assert "in test_waits" in done.stderr


def test_a_thread_that_a_test_leaves_behind_ends_with_the_run(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
def test_leaves():
    threading.Thread(target=threading.Event().wait).start()
""",
        "from tests.support import watchdog\n\nwatchdog.END_SECONDS = 0.5\n" + CONFTEST,
    )
    assert done.returncode == 1
    assert "left a thread behind" in done.stdout
    assert "1 passed" in done.stdout.splitlines()[-1]
