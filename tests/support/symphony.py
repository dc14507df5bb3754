"""Symphony's stand-in as tests see it, and the command that uses it."""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import struct
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.support.commands import REPOSITORY, Command, child_environment, command_line, start_scheduler, when
from tests.support.ports import free_address

FOLDER = Path(__file__).parent / "soamapi"
SERVICE_PROGRAM = REPOSITORY / "examples" / "symphony" / "service.py"
SERVICE = "ScalerService"
_SIZE = struct.Struct("<Q")


class Symphony:
    """A broker with its instances. Leaving the context ends all of them."""

    def __init__(self, program: Path = SERVICE_PROGRAM, **environment: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="scaler-symphony-")
        self.path = os.path.join(self._folder.name, "broker")
        self.environment = api_environment(SOAMAPI_BROKER=self.path)
        self._program = program
        self._own_environment = {**self.environment, **environment}
        self._control: socket.socket | None = None
        self.command = self._start()

    def _start(self) -> Command:
        line = [sys.executable, str(FOLDER / "broker.py"), self.path, str(self._program)]
        command = Command(line, child_environment(**self._own_environment))
        command.wait_for_output("broker serves")
        return command

    def restart(self) -> None:
        """Kill it with all that it runs, and start it anew."""
        self.kill()
        os.unlink(self.path)
        self.command = self._start()

    def kill(self) -> None:
        self.command.remember_family()
        self.command.kill()
        self.command.__exit__()
        if self._control is not None:
            self._control.close()
            self._control = None

    def faults(self, **values: Any) -> dict[str, Any]:
        """Set what goes wrong from now on (``Faults`` in broker.py); returns what ``state`` does."""
        return self._ask({"faults": values})

    def end_sessions(self, text: str = "the session was ended") -> None:
        self._ask({"end_sessions": text})

    def state(self) -> dict[str, Any]:
        """Counts: sessions, tasks, answered, most_open, most_running; open; running (process to task)."""
        return self._ask({})

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        if self._control is None:
            self._control = socket.socket(socket.AF_UNIX)
            self._control.connect(self.path)
        data = pickle.dumps({"ask": "control", "request": 0, **message})
        self._control.sendall(_SIZE.pack(len(data)) + data)
        size = _SIZE.unpack(self._read(_SIZE.size))[0]
        return pickle.loads(self._read(size))

    def _read(self, size: int) -> bytes:
        assert self._control is not None
        data = b""
        while len(data) < size:
            part = self._control.recv(size - len(data))
            assert part, self.command.output
            data += part
        return data

    def __enter__(self) -> Symphony:
        return self

    def __exit__(self, *_: Any) -> None:
        if self._control is not None:
            self._control.close()
        self.command.__exit__()
        self._folder.cleanup()


def api_environment(**extra: str) -> dict[str, str]:
    """With the stand-in importable as ``soamapi``."""
    path = os.pathsep.join([str(FOLDER / "api"), str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
    return {"PYTHONPATH": path.rstrip(os.pathsep), **extra}


def start_symphony_cluster(symphony: Symphony, address: str, *flags: object, **environment: str) -> Command:
    """The command, with its session open."""
    line = command_line("scaler_symphony_cluster", address, SERVICE, *flags)
    command = Command(line, child_environment(**{**symphony.environment, **environment}))
    return when(command, lambda: command.wait_for_output(r"Worker\[0\] started"))


class Rig:
    """A scheduler, Symphony and the command between them, with no other workers."""

    def __init__(self, *flags: object, scheduler_flags: tuple[object, ...] = (), **environment: str) -> None:
        self.address = free_address()
        self._flags = flags
        self._scheduler_flags = scheduler_flags
        self._environment = environment
        self.scheduler = start_scheduler(self.address, *scheduler_flags)
        with contextlib.ExitStack() as stack:
            stack.callback(lambda: self.scheduler.__exit__())
            self.symphony = stack.enter_context(Symphony())
            self.command = stack.enter_context(self.start_command())
            self._stack = stack.pop_all()

    def start_command(self) -> Command:
        return start_symphony_cluster(self.symphony, self.address, *self._flags, **self._environment)

    def restart_scheduler(self) -> None:
        self.scheduler.kill()
        self.scheduler.__exit__()
        self.scheduler = start_scheduler(self.address, *self._scheduler_flags)

    def __enter__(self) -> Rig:
        return self

    def __exit__(self, *_: Any) -> None:
        self._stack.close()
