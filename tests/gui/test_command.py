"""The command ``scaler_gui`` as a process: bad input, signals, and under an X server with a real cluster."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from PySide6.QtGui import QImage

from scaler import Client
from scaler_protocol.address import default_monitor_address
from tests.support.commands import Command, child_environment, command_line, run_command, start_cluster, start_scheduler
from tests.support.ports import free_address
from tests.support.process_limit import LimitedUser, needs_users
from tests.support.waiting import wait_until

WORKERS = 2
TASKS, FAILURES = 3000, 7
PLENTY = 1000

PROBE = """
import json, sys
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication
from scaler_gui import application, cli, main_window

class Window(main_window.MainWindow):
    def showEvent(self, event):
        super().showEvent(event)
        self.looks = QTimer(self, interval=100)
        self.looks.timeout.connect(self.look)
        self.looks.start()

    def look(self):
        model = self.monitor.model
        tasks = model.snapshot.tasks if model.snapshot else None
        known = {"success": tasks and tasks.success, "failed": tasks and tasks.failed, "log": model.log.total,
                 "workers": len(model.worker_rows), "rows": len(model.stream_rows()), "trouble": self.banner.text(),
                 "bars": len(self.docks.panes["stream"].canvas.bars or ())}
        print(json.dumps(known), flush=True)

application.MainWindow = Window
cli.main(sys.argv[1:])
"""
"""The command, with a window that says what it knows."""

GRAB = """
import sys
from PySide6.QtGui import QGuiApplication
application = QGuiApplication([])
application.primaryScreen().grabWindow(0).save(sys.argv[1])
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return child_environment(XDG_CONFIG_HOME=str(tmp_path / "config"), QT_QPA_PLATFORM="offscreen")


@contextmanager
def x_server() -> Iterator[str]:
    """The name of a display."""
    if shutil.which("Xvfb") is None:
        pytest.skip("Xvfb is not installed")
    read_fd, write_fd = os.pipe()
    command = ["Xvfb", "-displayfd", str(write_fd), "-screen", "0", "1600x1000x24", "-nolisten", "tcp"]
    with subprocess.Popen(command, pass_fds=[write_fd], stderr=subprocess.DEVNULL) as server:
        os.close(write_fd)
        try:
            yield ":" + os.read(read_fd, 32).decode().strip()
        finally:
            os.close(read_fd)
            server.terminate()


def last_line(window: Command) -> str:
    lines = [line for line in window.output.splitlines() if line.startswith("{")]
    return lines[-1] if lines else ""


def wait_for_line(window: Command, start: str) -> None:
    """Until the window knows what ``start`` says."""
    try:
        wait_until(lambda: last_line(window).startswith(start), 20)
    except AssertionError:
        raise AssertionError(f"{start} is awaited, the window says {last_line(window)}") from None


def colours_of(picture: Path) -> int:
    image = QImage(str(picture))
    assert not image.isNull()
    return len({image.pixel(x, y) for x in range(0, image.width(), 2) for y in range(0, image.height(), 2)})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["host:1"], "is not an address"),
        (["inproc://x"], "cannot be reached from another process"),
        (["--nonsense"], "Unknown option --nonsense"),
        (["--timeout", "0"], "less than 0.1"),
        (["--config", "/nowhere.toml"], "Cannot read /nowhere.toml"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], words: str) -> None:
    done = run_command("scaler_gui", *arguments, QT_QPA_PLATFORM="offscreen")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1 and words in done.stderr


def test_help_needs_no_screen() -> None:
    done = run_command("scaler_gui", "-h", QT_QPA_PLATFORM="nonsense")
    assert done.returncode == 0 and done.stdout.startswith("usage: scaler_gui")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems always have one")
def test_no_display_is_one_line() -> None:
    nothing = dict.fromkeys(("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"), "")
    done = run_command("scaler_gui", "ipc:///tmp/x", **nothing)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1 and "no display" in done.stderr


def limited_memory(mebibytes: int, source: str) -> list[str]:
    """A program with so much address space."""
    limit = mebibytes * 1024 * 1024
    begin = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}))"
    return [sys.executable, "-c", f"{begin}\n{source}", "ipc:///tmp/nobody"]


@pytest.mark.skipif(sys.platform != "linux", reason="others have no such limit")
@pytest.mark.parametrize("mebibytes", [120, 250, 350])
def test_too_little_memory_for_a_window_is_one_line(environment: dict[str, str], mebibytes: int) -> None:
    with Command(limited_memory(mebibytes, "from scaler_gui import cli; cli.main()"), environment) as window:
        assert window.wait() == 2
        assert window.output.startswith("scaler_gui: Cannot continue: ") and "ulimit -v" in window.output
        assert len(window.output.splitlines()) == 1


def test_memory_that_is_used_up_later_is_one_line(environment: dict[str, str], tmp_path: Path) -> None:
    source = PROBE.replace("model = self.monitor.model", "raise MemoryError")
    with Command([sys.executable, "-c", source, f"ipc://{tmp_path}/nobody"], environment) as window:
        assert window.wait() == 2
        lines = [line for line in window.output.splitlines() if "propagateSizeHints" not in line]
        assert len(lines) == 1 and lines[0].startswith("scaler_gui: Cannot continue: this process has no memory left.")


@needs_users
@pytest.mark.parametrize("limit", [1, 2, 4])
def test_too_few_threads_for_a_window_are_one_line(tmp_path: Path, limit: int) -> None:
    user = user_of(tmp_path)
    with Command(user.command(limit, command_line("scaler_gui", "ipc:///tmp/x")), user.environment, cwd="/") as window:
        assert window.wait() == 2
        assert len(window.output.splitlines()) == 1 and "ulimit -u" in window.output


@needs_users
def test_a_window_that_may_start_no_more_threads_is_drawn(tmp_path: Path) -> None:
    """Qt would wait forever for those that paint. The user may have many threads until it is shown, and then one."""
    user = user_of(tmp_path)
    source = PROBE.replace(
        "self.looks.start()", "self.looks.start(); resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))"
    )
    source = source.replace("import json, sys", "import json, resource, sys")
    arguments = [sys.executable, "-c", source, f"ipc://{tmp_path}/nobody"]
    with Command(user.command(PLENTY, arguments), user.environment, cwd="/") as window:
        window.wait_for_output("Nothing heard from")
        window.signal(signal.SIGINT)
        assert window.wait() == 0 and "QThread" not in window.output


def user_of(folder: Path) -> LimitedUser:
    for each in (folder, *folder.parents[:2]):
        each.chmod(0o755)
    user = LimitedUser(folder)
    user.environment["QT_QPA_PLATFORM"] = "offscreen"
    return user


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_good_order(environment: dict[str, str], tmp_path: Path, number: int) -> None:
    with Command([sys.executable, "-c", PROBE, f"ipc://{tmp_path}/nobody"], environment) as window:
        window.wait_for_output("Nothing heard from")
        window.signal(number)
        assert window.wait() == 0
        assert "Traceback" not in window.output
    assert "layout" in next(tmp_path.rglob("scaler_gui.ini")).read_text(), "the layout is remembered"


def test_flags_come_from_files_and_the_environment_too(environment: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "scaler.toml"
    path.write_text(f'[gui]\nreplay = "{tmp_path}"\n')
    with Command([sys.executable, "-c", PROBE, "--config", str(path)], environment) as window:
        window.wait_for_output("no event logs")


def test_silence_is_told_after_the_time_given(environment: dict[str, str], tmp_path: Path) -> None:
    address = free_address()
    with start_scheduler(address) as scheduler:
        command = [sys.executable, "-c", PROBE, default_monitor_address(address), "--timeout", "1"]
        with Command(command, environment) as window:
            window.wait_for_output('"success": 0')
            scheduler.remember_family()
            scheduler.terminate()
            window.wait_for_output("scheduler has been silent")
            with start_scheduler(address):
                window.wait_for_output("has restarted")
            window.terminate()


def test_a_real_cluster_under_an_x_server(environment: dict[str, str], tmp_path: Path) -> None:
    """Counts are the truth, every task has its bar, and there is something to see."""
    address = free_address()
    picture = tmp_path / "screen.png"
    with x_server() as display, start_scheduler(address), start_cluster(address, "-n", WORKERS):
        on_screen = {**environment, "QT_QPA_PLATFORM": "xcb", "DISPLAY": display}
        command = [sys.executable, "-c", PROBE, default_monitor_address(address)]
        with Command(command, on_screen) as window:
            window.wait_for_output(f'"workers": {WORKERS}, "rows": {WORKERS}')  # named: what happens is recorded now
            with Client(address) as client:
                assert client.map(abs, range(TASKS)) == list(range(TASKS))
                for future in [client.submit(int, "no number") for _ in range(FAILURES)]:
                    assert isinstance(future.exception(), ValueError)
            truth = f'{{"success": {TASKS}, "failed": {FAILURES}, "log": {TASKS + FAILURES}, "workers": {WORKERS}'
            wait_for_line(window, truth)
            wait_until(lambda: '"bars": 0' not in last_line(window), 10, "bars in the stream")
            subprocess.run([sys.executable, "-c", GRAB, str(picture)], env=on_screen, check=True, timeout=30)
            assert window.terminate() == 0
    assert colours_of(picture) > 50


def test_the_command_itself_shows_a_window(environment: dict[str, str], tmp_path: Path) -> None:
    picture = tmp_path / "screen.png"
    with x_server() as display:
        on_screen = {**environment, "QT_QPA_PLATFORM": "xcb", "DISPLAY": display}
        with Command(command_line("scaler_gui", f"ipc://{tmp_path}/nobody"), on_screen) as window:

            def seen() -> bool:
                subprocess.run([sys.executable, "-c", GRAB, str(picture)], env=on_screen, check=True, timeout=30)
                return colours_of(picture) > 20

            wait_until(seen, 20, "a window")
            assert window.terminate() == 0
            assert window.output == ""
