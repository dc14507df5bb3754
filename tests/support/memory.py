"""Memory that a test needs. Where there is less, the kernel ends something: mostly the process that runs the tests."""

from __future__ import annotations

import psutil
import pytest

from scaler_protocol.control_groups import memory_limits_bytes

GIB = 2**30


def need_memory(gibibytes: int) -> None:
    """Skips the test where this machine, or its container, has less."""
    there = min([psutil.virtual_memory().available, *memory_limits_bytes()])
    if there < gibibytes * GIB:
        pytest.skip(f"needs {gibibytes} GiB of memory; there are {there / GIB:.1f}")
