"""A command as a child process: it is ready, it ends, it never outlives the script."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from scaler_protocol.command import BadInput, ChildCommand
from tests.support.commands import alive
from tests.support.waiting import wait_until

HERE = Path(__file__).parent
MODULE = "command_under_test"


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(HERE))


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    path = tmp_path / "mark"
    path.touch()
    return path


@pytest.fixture
def child(mark: Path) -> Iterator[ChildCommand]:
    command = ChildCommand(MODULE, ["serve", f"--mark={mark}", "-lp", "/dev/null"])
    yield command
    command.kill()


def test_start_ready_terminate_join(child: ChildCommand, mark: Path) -> None:
    child.start()
    facts = child.wait_ready(10)
    assert facts["pid"] == child.pid
    assert child.wait_ready() is facts
    child.terminate()
    child.join(10)
    assert child.exit_code == 0
    assert not mark.exists()


def test_it_imports_what_the_script_imports_and_hides_how(child: ChildCommand) -> None:
    child.start()
    facts = child.wait_ready(10)
    assert str(HERE) in facts["path"]
    assert facts["pythonpath"] == os.environ.get("PYTHONPATH")


def test_everything_is_harmless_when_repeated(child: ChildCommand) -> None:
    child.terminate()
    child.join(1)
    child.start()
    pid = child.pid
    child.start()
    assert child.pid == pid
    child.wait_ready(10)
    for _ in range(2):
        child.terminate()
    for _ in range(2):
        child.join(10)
    assert child.exit_code == 0, "a repeated terminate is not a second signal"
    child.terminate()
    child.kill()


def test_it_can_be_started_again(child: ChildCommand, mark: Path) -> None:
    for _ in range(2):
        mark.touch()
        child.start()
        child.wait_ready(10)
        child.terminate()
        child.join(10)


def test_a_second_signal_ends_at_once_and_cleans_up(mark: Path) -> None:
    child = ChildCommand(MODULE, ["stubborn", f"--mark={mark}", "-lp", "/dev/null"])
    child.start()
    child.wait_ready(10)
    child.terminate()
    with pytest.raises(TimeoutError):
        child.join(0.2)
    child.kill()
    assert child.exit_code == 128 + signal.SIGINT
    assert not mark.exists()


def test_a_refusal_is_an_exception_in_the_script(capfd: pytest.CaptureFixture[str]) -> None:
    child = ChildCommand(MODULE, ["refuse"])
    child.start()
    with pytest.raises(BadInput, match="this address is refused"):
        child.wait_ready(10)
    child.join(10)
    assert child.exit_code == 2
    assert capfd.readouterr().err == ""


def test_an_end_before_ready_is_an_exception() -> None:
    child = ChildCommand(MODULE, ["crash"])
    child.start()
    with pytest.raises(RuntimeError, match="exit code 7"):
        child.wait_ready(10)


def test_not_ready_in_time() -> None:
    child = ChildCommand(MODULE, ["silent"])
    child.start()
    with pytest.raises(TimeoutError):
        child.wait_ready(0.1)
    child.kill()
    assert not child.is_alive


SCRIPT = """
import os, sys, threading
sys.path.insert(0, {here!r})
from scaler_protocol.command import ChildCommand
options = ["--mark={mark}", "-lp", "/dev/null", "--parent-patience-seconds={patience}"]
child = ChildCommand({module!r}, ["{kind}", *options])
starter = threading.Thread(target=child.start)   # the child must outlive the thread that starts it
starter.start(); starter.join()
print(child.wait_ready()["pid"], flush=True)
{then}
"""


@pytest.mark.parametrize("ending", ["forgets", "killed"])
def test_it_ends_with_the_script_without_main_guard(mark: Path, ending: str) -> None:
    then = "sys.stdin.read()" if ending == "killed" else ""
    text = SCRIPT.format(here=str(HERE), module=MODULE, kind="stubborn", mark=mark, then=then, patience=0)
    script = subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert script.stdin is not None and script.stdout is not None
    with script:
        pid = int(script.stdout.readline())
        if ending == "killed":
            assert psutil.pid_exists(pid)
            script.kill()
        started = time.monotonic()
        wait_until(lambda: not alive(pid))
        script.wait(10)
    assert time.monotonic() - started < 3
    assert not mark.exists()


@pytest.mark.parametrize(("kind", "patience"), [("serve", 60), ("stubborn", 0.1)])
def test_it_ends_cleanly_when_its_script_is_killed_if_it_has_the_time(mark: Path, kind: str, patience: float) -> None:
    """The one that does not end by itself has too little."""
    then = "sys.stdin.read()"
    text = SCRIPT.format(here=str(HERE), module=MODULE, kind=kind, mark=mark, then=then, patience=patience)
    script = subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert script.stdout is not None
    with script:
        pid = int(script.stdout.readline())
        script.kill()
        wait_until(lambda: not alive(pid))
    assert not mark.exists()


def run_command(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(HERE / f"{MODULE}.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=20, **options)  # type: ignore[call-overload]


def test_bad_input_is_one_line_and_exit_code_2() -> None:
    done = run_command("refuse")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "under_test: this address is refused\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_from_a_terminal(number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, str(HERE / f"{MODULE}.py"), "serve"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None and process.stderr is not None
        while "serving" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(number)
        assert process.wait(10) == 0
        assert process.stderr.read() == ""
