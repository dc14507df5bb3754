"""``scaler up`` and ``scaler down``: start and stop what a file describes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from scaler.command.settings import DownSettings, UpSettings
from scaler.command.stack_file import StackPart, read_stack
from scaler.command.stack_lock import StackLock
from scaler.command.stack_routes import address_for_peers
from scaler_protocol.command import BadInput, SupervisedCommand
from scaler_protocol.command.interpreter import module_command

_LOOK_SECONDS = 0.2
_READY_TEXT = "The stack is up."
_STOP_SIGNALS = [each for each in signal.Signals if each.name in ("SIGINT", "SIGTERM", "SIGHUP")]


def up(settings: UpSettings) -> int:
    path = Path(settings.file).absolute()
    parts = read_stack(path)
    lock = StackLock(path)
    holder = lock.holder()
    if holder is not None:
        raise BadInput(f"Cannot start {path}: it runs in process {holder}. Stop it with: scaler down {settings.file}")
    if settings.detach:
        return _detach(path, lock)
    if not lock.acquire():
        raise BadInput(f"Cannot start {path}: another process has just started it.")
    try:
        return RunningStack(path, parts).run()
    finally:
        lock.release()


def down(settings: DownSettings) -> int:
    lock = StackLock(Path(settings.file).absolute())
    try:
        holder = lock.holder()
        if holder is None:
            print(f"Nothing runs from {settings.file}.")
            return 0
        log = LogEnd(lock.log_path)
        try:
            os.kill(holder, signal.SIGTERM)
        except ProcessLookupError:
            pass  # it has just ended
        _wait_for_end(lock, log)
    finally:
        lock.release()
    print(f"Stopped the stack of {settings.file}.")
    return 0


def _wait_for_end(lock: StackLock, log: LogEnd) -> None:
    while lock.holder() is not None:
        log.copy(sys.stderr)
        time.sleep(_LOOK_SECONDS)
    log.copy(sys.stderr)


class RunningStack:
    """The commands of a file as children of this process. One that is killed or broken is started again; when one ends
    for another reason, the stack ends."""

    def __init__(self, path: Path, parts: Sequence[StackPart]) -> None:
        self._path = path
        self._parts = parts
        self._scheduler = ""
        self._running: list[tuple[StackPart, SupervisedCommand]] = []
        self._stopped = threading.Event()

    def run(self) -> int:
        """Run until a signal arrives, or until a part ends by itself. Return the exit code."""
        before = {number: signal.signal(number, self._on_signal) for number in _STOP_SIGNALS}
        try:
            self._start_all()
            return self._wait()
        finally:
            self._stop()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _start_all(self) -> None:
        for part in self._parts:
            if not part.role.is_complete and len(self._parts) > 1:
                _tell_left_out(part)
            elif not self._stopped.is_set():
                self._start(part)

    def _start(self, part: StackPart) -> None:
        def renewed(facts: dict[str, Any]) -> list[str]:
            return part.arguments(self._path, str(facts.get("address", self._scheduler)))

        role = part.role
        command = SupervisedCommand(role.module, part.arguments(self._path, self._scheduler), part.title, renewed)
        try:
            command.start()
        except (OSError, RuntimeError) as error:
            raise BadInput(str(error)) from None
        self._running.append((part, command))
        try:
            facts = command.wait_ready()
        except (RuntimeError, TimeoutError) as error:
            raise BadInput(f"Cannot start the {part.title}: {error}. See the lines above.") from None
        except BadInput as error:
            raise BadInput(f"Cannot start the {part.title} of {self._path}: {error}") from None
        if role.section == "scheduler":
            self._scheduler = address_for_peers(facts["address"], self._parts)
        _tell(f"{part.title}: {facts[role.fact]}" if role.fact in facts else f"{part.title}: ready")

    def _wait(self) -> int:
        if not self._stopped.is_set():
            if self._scheduler:
                _tell(f"What runs, and why workers are missing: scaler status {self._scheduler}")
            _tell(f"{_READY_TEXT} Ctrl-C or scaler down {self._path} stops it.")
        while not self._stopped.wait(_LOOK_SECONDS):
            for part, command in self._running:
                code = command.exit_code
                if code is not None:
                    _tell(f"{part.title} ended with exit code {code}.", sys.stderr)
                    return 1
        return 0

    def _stop(self) -> None:
        """Stop the parts in the opposite order of their start: workers can return their tasks to the scheduler."""
        for part, command in reversed(self._running):
            command.terminate()
            command.join()
            _tell(f"{part.title}: stopped")

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        """A second signal ends everything at once."""
        if self._stopped.is_set():
            for _, command in self._running:
                command.kill()
            os._exit(128 + number)
        self._stopped.set()


def _detach(path: Path, lock: StackLock) -> int:
    """Start this command in the background, and wait until it is ready."""
    command, environment = module_command("scaler.command.cli", "up", str(path))
    end = LogEnd(lock.log_path)
    text = ""
    with lock.log_path.open("ab") as log:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    while True:
        text += end.read()
        if _READY_TEXT in text:
            for line in text.splitlines():
                if line.startswith("scaler up: ") and _READY_TEXT not in line:
                    print(line)
            print(f"scaler up: running in the background; log: {lock.log_path}")
            return 0
        if process.poll() is not None:
            raise BadInput((text.strip().splitlines() or ["Cannot start it."])[-1].removeprefix("scaler up: "))
        time.sleep(_LOOK_SECONDS)


class LogEnd:
    """The part of a log that is appended from now on. The file may not exist yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = path.stat().st_size if path.exists() else 0

    def read(self) -> str:
        """Return what is new since the last call."""
        if not self._path.exists():
            return ""
        with self._path.open("rb") as file:
            file.seek(self._position)
            data = file.read()
        self._position += len(data)
        return data.decode(errors="replace")

    def copy(self, stream: TextIO) -> None:
        stream.write(self.read())
        stream.flush()


def _tell_left_out(part: StackPart) -> None:
    needed = part.role.distribution
    _tell(f"{part.title}: left out, since {needed} is not installed. To have it, run pip install '{needed}'.")


def _tell(text: str, stream: Any = None) -> None:
    print(f"scaler up: {text}", file=stream or sys.stdout, flush=True)
