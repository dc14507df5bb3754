"""A command run as a child process of a script."""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import Any

from scaler_protocol.command.errors import BadInput
from scaler_protocol.command.interpreter import module_command
from scaler_protocol.command.parent import VARIABLE
from scaler_protocol.command.remedies import with_remedy

START_TIMEOUT_SECONDS = 60.0
EXIT_TIMEOUT_SECONDS = 2.0


class ChildCommand:
    """Runs ``python -m module arguments`` while the calling script runs. No main guard is needed: the script is not
    imported again. The child ends with the script, however the script ends."""

    def __init__(self, module: str, arguments: Sequence[str]) -> None:
        self._module = module
        self._arguments = tuple(arguments)
        self._process: subprocess.Popen[bytes] | None = None
        self._ready_fd: int | None = None
        self._facts: dict[str, Any] | None = None
        self._terminated = False
        self._lock = threading.Lock()  # of the calls that start and reap

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def exit_code(self) -> int | None:
        """None: not started, or still running. Negative: ended by this signal."""
        return self._process.poll() if self._process is not None else None

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it and return at once; ``wait_ready`` waits. Calling this again while it runs does nothing. Raises
        OSError with a sentence if the system does not allow it."""
        with self._lock:
            if self.is_alive:
                return
            self._facts, self._terminated = None, False
            self._spawn()
        _running[id(self)] = self

    def wait_ready(self, timeout_seconds: float = START_TIMEOUT_SECONDS) -> dict[str, Any]:
        """Wait until it serves; returns what it reported, such as its address. BadInput carries the sentence of a
        command that refused its input; TimeoutError and RuntimeError say that it is stuck or ended."""
        if self._facts is None:
            self._facts = self._read_facts(time.monotonic() + timeout_seconds)
        return self._facts

    def terminate(self) -> None:
        """Ask it to end cleanly. Harmless when repeated, and when it has ended or never started."""
        if not self._terminated and self.is_alive:
            self._terminated = True
            self._send(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once, with its own children."""
        self.terminate()
        self._send(signal.SIGINT)  # the second signal; two equal ones may arrive as one
        try:
            self.join(EXIT_TIMEOUT_SECONDS)
        except TimeoutError:
            self._send(signal.SIGKILL)
            self.join()

    def join(self, timeout_seconds: float | None = None) -> None:
        """Wait until it has ended. TimeoutError when it has not. Harmless when repeated or never started."""
        if self._process is None:
            return
        try:
            self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{self._module} is still running after {timeout_seconds} seconds") from None
        self._forget()

    def _spawn(self) -> None:
        ready_fd, child_fd = os.pipe()
        command, environment = module_command(self._module, *self._arguments)
        environment[VARIABLE] = json.dumps({"pid": os.getpid(), "ready_fd": child_fd})
        try:
            # Its own session: Ctrl-C in a terminal reaches the script, which then stops its children in order.
            self._process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, pass_fds=(child_fd,), start_new_session=True
            )
            self._ready_fd = ready_fd
        except OSError as error:
            os.close(ready_fd)
            raise OSError(f"Cannot start {self._module}: {with_remedy(error, 'this process')}.") from error
        except BaseException:
            os.close(ready_fd)
            raise
        finally:
            os.close(child_fd)

    def _read_facts(self, deadline: float) -> dict[str, Any]:
        message = self._read_message(deadline)
        if "error" in message:
            self.join(EXIT_TIMEOUT_SECONDS)
            raise BadInput(message["error"])
        if "ready" not in message:
            raise RuntimeError(f"{self._module} ended before it was ready ({self._describe_end()})")
        return message["ready"]

    def _read_message(self, deadline: float) -> dict[str, Any]:
        """Return what the command reports at its start: ``ready``, ``error``, or nothing if it ends before. Raises
        RuntimeError if that was read before, and TimeoutError."""
        with self._lock:
            if self._ready_fd is None:
                raise RuntimeError(f"{self._module} is not running")
            text = self._read_all(self._ready_fd, deadline)
            self._close_ready_fd()
        message: dict[str, Any] = json.loads(text) if text else {}
        return message

    def _read_all(self, descriptor: int, deadline: float) -> bytes:
        text = b""
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            part = os.read(descriptor, 65536)
            if not part:
                return text
            text += part
        raise TimeoutError(f"{self._module} was not ready in time")

    def _describe_end(self) -> str:
        try:
            self.join(EXIT_TIMEOUT_SECONDS)
        except TimeoutError:
            return "it closed its pipe"
        return f"exit code {self.exit_code}"

    def _send(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def _forget(self) -> None:
        _running.pop(id(self), None)
        with self._lock:
            self._close_ready_fd()

    def _close_ready_fd(self) -> None:
        if self._ready_fd is not None:
            os.close(self._ready_fd)
            self._ready_fd = None


_running: dict[int, ChildCommand] = {}
"""Children that a script has not stopped; they are stopped at its exit."""


@atexit.register
def _end_running() -> None:
    for child in list(_running.values()):
        child.kill()


# A fork of the script is not the parent: it must neither end nor reap these children.
os.register_at_fork(after_in_child=_running.clear)
