"""What is imported ahead must leave a process that can fork."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, sys, zmq
made = []
zmq.Context.__init__ = lambda self, *arguments, **options: made.append(self)
from scaler_worker.worker_process import preparation
assert not preparation.is_prepared()
preparation.prepare()
assert preparation.is_prepared() and "scaler.client.client" in sys.modules
assert len(os.listdir("/proc/self/task")) == 1 and not made
"""


def test_preparing_starts_no_thread_and_makes_no_context() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=30)
