"""The memory of a host that objects may use."""

from __future__ import annotations

import os

from scaler_protocol.control_groups import memory_limits_bytes


def default_capacity_bytes() -> int:
    """Half of what the host, or the control group that this process is confined to, may use."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([total, *memory_limits_bytes()]) // 2
