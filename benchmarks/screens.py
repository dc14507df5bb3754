"""The three screens, watching with their task streams open, as a user has them: a terminal, a browser, a window.

Programs that are not installed (Chromium, scaler-gui) are omitted.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import pty
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_TERMINAL_ROWS, _TERMINAL_COLUMNS = 50, 160
_STREAM_KEY = b"7"
_BROWSER_OPTIONS = ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-sandbox")


@contextmanager
def screens(monitor_address: str) -> Iterator[dict[str, int]]:
    """Process numbers by name. They take some seconds until they show something."""
    running: dict[str, subprocess.Popen[str]] = {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        try:
            running["top"] = _top(monitor_address)
            running["ui"], url = _ui(monitor_address)
            _start_browser(running, f"{url}#/stream", home)
            _start_gui(running, monitor_address, home)
            yield {name: process.pid for name, process in running.items()}
        finally:
            for process in running.values():
                process.terminate()
                process.wait()


def _top(address: str) -> subprocess.Popen[str]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _TERMINAL_ROWS, _TERMINAL_COLUMNS, 0, 0))
    process = subprocess.Popen(
        ["setsid", "--ctty", sys.executable, "-m", "scaler_scheduler.top", address],
        stdin=theirs, stdout=theirs, stderr=theirs, text=True, env={**os.environ, "TERM": "xterm-256color"},
    )  # fmt: skip
    os.close(theirs)
    threading.Thread(target=_use_terminal, args=(ours,), daemon=True).start()
    return process


def _use_terminal(terminal: int) -> None:
    """Goes to the task stream once something is shown; drops the output."""
    try:
        os.read(terminal, 65536)
        os.write(terminal, _STREAM_KEY)
        while os.read(terminal, 65536):
            pass
    except OSError:  # the program has ended
        os.close(terminal)


def _ui(address: str) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "scaler_scheduler.web", address, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().split()[-1]


def _start_browser(running: dict[str, subprocess.Popen[str]], url: str, home: str) -> None:
    browser = shutil.which("chromium")
    if browser is not None:
        options = [*_BROWSER_OPTIONS, f"--user-data-dir={home}/browser", "--remote-debugging-port=0"]
        running["browser"] = subprocess.Popen(
            [browser, *options, url], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True
        )


def _start_gui(running: dict[str, subprocess.Popen[str]], address: str, home: str) -> None:
    if importlib.util.find_spec("PySide6") is None or importlib.util.find_spec("scaler_gui") is None:
        return
    settings = Path(home) / "settings"
    settings.mkdir()
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "XDG_CONFIG_HOME": str(settings)}
    running["gui"] = subprocess.Popen([sys.executable, "-m", "scaler_gui", address], env=environment, text=True)
