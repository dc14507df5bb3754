"""Programs of their own that use a store: what they do is a few lines of Python."""

from __future__ import annotations

import os
import subprocess
import sys
from types import TracebackType

_BEGINNING = """
import gc, os, sys, time
from scaler_protocol.messages import ObjectKey
from scaler_protocol.objects.connection import StoreConnection
from scaler_protocol.objects.errors import *
cluster = bytes.fromhex(sys.argv[1])
store = StoreConnection(cluster, True)
def key(number): return ObjectKey(b"owner of objects", number)
def say(*words): print(*words, flush=True)
def hear(): return sys.stdin.readline().strip()
"""


class Program:
    """Runs ``code`` with a connection ``store``; ``say`` and ``hear`` are lines to and from the test."""

    def __init__(self, cluster: bytes, code: str, command: tuple[str, ...] = ()) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self.process = subprocess.Popen(
            [*command, sys.executable, "-c", _BEGINNING + code, cluster.hex()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def __enter__(self) -> Program:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.process.kill()
        self.process.communicate()

    def hear(self) -> str:
        """The next line it says; empty: it has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def say(self, line: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def wait(self) -> int:
        return self.process.wait(60)
