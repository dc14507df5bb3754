"""How much memory a host has for objects."""

from __future__ import annotations

import os
from pathlib import Path

_CONTROL_GROUPS = Path("/sys/fs/cgroup")
_LIMIT_FILES = ("memory.max", "memory/memory.limit_in_bytes")


def default_capacity_bytes() -> int:
    """Half of what the host, or the control group that this process is confined to, may use."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([total, *_control_group_limits()]) // 2


def _control_group_limits() -> list[int]:
    """Of its own group and those above."""
    limits = []
    for folder in _folders():
        for name in _LIMIT_FILES:
            try:
                text = (folder / name).read_text().strip()
            except OSError:
                continue
            if text.isdigit() and int(text) > 0:
                limits.append(int(text))
    return limits


def _folders() -> list[Path]:
    folders = [_CONTROL_GROUPS]
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return folders
    for line in lines:
        path = _CONTROL_GROUPS / line.split(":", 2)[2].strip("/")
        folders.extend(each for each in (path, *path.parents) if each.is_relative_to(_CONTROL_GROUPS))
    return list(dict.fromkeys(folders))
