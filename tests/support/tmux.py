"""A real terminal: a program in tmux, its screen and its keys."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests.support.commands import alive, child_environment
from tests.support.waiting import wait_until

EXIT_MARK = "program ended with"


class Tmux:
    """Runs one program in a terminal of a given size. The terminal outlives the program: what it printed last, and its
    exit code, can be read. Leaving the context ends both."""

    def __init__(self, arguments: list[str], width: int = 80, height: int = 24, term: str = "screen-256color") -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="scaler-tmux-")
        self._socket = str(Path(self._folder.name) / "socket")
        environment = child_environment(LC_ALL="C.UTF-8")
        program = f"TERM={term} {shlex.join(arguments)}; echo {EXIT_MARK} $?; exec sleep 1000"
        self._tmux(
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            str(width),
            "-y",
            str(height),
            program,
            environment=environment,
        )
        self.server_pid = int(self._tmux("display-message", "-p", "#{pid}"))

    @property
    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.screen.splitlines()]

    @property
    def coloured_screen(self) -> str:
        """With escape sequences."""
        return self._tmux("capture-pane", "-p", "-e")

    @property
    def pane_pid(self) -> int:
        return int(self._tmux("display-message", "-p", "#{pane_pid}"))

    def press(self, *keys: str) -> None:
        """Keys by their tmux names: ``q``, ``Enter``, ``Escape``, ``PageDown``."""
        self._tmux("send-keys", *keys)

    def resize(self, width: int, height: int) -> None:
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def wait_for(self, text: str, timeout_seconds: float = 60.0) -> str:
        """The screen, as soon as it shows ``text``."""
        return self._wait(lambda screen: text in screen, repr(text), timeout_seconds)

    def wait_without(self, text: str, timeout_seconds: float = 60.0) -> str:
        return self._wait(lambda screen: text not in screen, f"no {text!r}", timeout_seconds)

    def wait_for_exit(self, timeout_seconds: float = 60.0) -> int:
        """The program's exit code."""
        screen = self.wait_for(EXIT_MARK, timeout_seconds)
        match = re.search(rf"{EXIT_MARK} (\d+)", screen)
        assert match, screen
        return int(match[1])

    def __enter__(self) -> Tmux:
        return self

    def __exit__(self, *_: Any) -> None:
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], check=False, capture_output=True, timeout=10)
        wait_until(lambda: not alive(self.server_pid), what="tmux has ended")
        self._folder.cleanup()

    def _wait(self, wanted: Any, what: str, timeout_seconds: float) -> str:
        seen = ""

        def found() -> str:
            nonlocal seen
            seen = self.screen
            return seen if wanted(seen) else ""

        try:
            return wait_until(found, timeout_seconds, what)
        except AssertionError as error:
            raise AssertionError(f"{error}; the screen is:\n{seen}") from None

    def _tmux(self, *arguments: str, environment: dict[str, str] | None = None) -> str:
        result = subprocess.run(
            ["tmux", "-S", self._socket, *arguments],
            env=environment or dict(os.environ),
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
        return result.stdout
