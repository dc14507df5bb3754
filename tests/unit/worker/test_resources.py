"""What the agent measures, where nothing can be looked up."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import os, resource
from scaler_worker.shell.resources import ProcessMeter, host_memory_bytes, resident_bytes

meter = ProcessMeter()
assert meter.read(os.getpid())[1] > 0 and resident_bytes(os.getpid()) > 0 and host_memory_bytes()[0] > 0
resource.setrlimit(resource.RLIMIT_NOFILE, (0, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
assert meter.read(os.getpid()) == (0.0, 0) and resident_bytes(os.getpid()) == host_memory_bytes()[0] == 0
"""


def test_without_a_descriptor_figures_are_0() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
