"""Processes that compete with a workload for the processors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

_SPIN = """
import os
parent = os.getppid()
while os.getppid() == parent:
    for _ in range(200_000):
        pass
"""


@contextmanager
def busy_machine(count: int) -> Iterator[None]:
    """``count`` processes that never sleep. They end with this block, or with this process."""
    with ExitStack() as running:
        for _ in range(count):
            competitor = running.enter_context(subprocess.Popen([sys.executable, "-c", _SPIN]))
            running.callback(competitor.kill)
        yield
