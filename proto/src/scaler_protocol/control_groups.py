"""Limits by control groups: what containers and service managers let this process have."""

from __future__ import annotations

import math
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
_CONTROLLERS = ("memory", "cpu")
"""The controllers, each of which has a tree of its own in the first version, in a folder of this name."""
_MEMORY_FILES = ("memory.max", "memory.limit_in_bytes")
_USAGE_FILES = {"memory.max": "memory.current", "memory.limit_in_bytes": "memory.usage_in_bytes"}
_CACHE_NAMES = ("inactive_file", "total_inactive_file")
_QUOTA_FILES = (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us"))


def memory_limits_bytes(root: Path = ROOT) -> list[int]:
    """Return the limits of its own group and of those above, in the first and the second version of control groups."""
    files = [folder / name for folder in _folders(root) for name in _MEMORY_FILES]
    return [limit for limit in map(_number, files) if limit > 0]


def memory_rooms(root: Path = ROOT) -> list[tuple[int, int]]:
    """(limit, what may still be taken) in bytes of each of these groups that has a limit. Pages that cache files, and
    were not used lately, may be taken."""
    rooms = []
    for folder in _folders(root):
        for name, usage_name in _USAGE_FILES.items():
            limit = _number(folder / name)
            if limit > 0:
                used = _number(folder / usage_name) - _cached_bytes(folder / "memory.stat")
                rooms.append((limit, min(limit, max(0, limit - used))))
    return rooms


def _cached_bytes(path: Path) -> int:
    words = _words(path)
    counts = dict(zip(words[::2], words[1::2], strict=False))
    return max((int(counts[name]) for name in _CACHE_NAMES if counts.get(name, "").isdigit()), default=0)


def processor_limits(root: Path = ROOT) -> list[int]:
    """Return how many processors' time it may use, rounded up; as ``memory_limits_bytes``."""
    limits = []
    for folder in _folders(root):
        for names in _QUOTA_FILES:
            words = [word for name in names for word in _words(folder / name)]
            if len(words) == 2 and all(word.isdigit() and int(word) for word in words):
                limits.append(math.ceil(int(words[0]) / int(words[1])))
    return limits


def _number(path: Path) -> int:
    words = _words(path)
    return int(words[0]) if words and words[0].isdigit() else 0


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _folders(root: Path) -> list[Path]:
    tops = [root, *(root / name for name in _CONTROLLERS)]
    folders = list(tops)
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return folders
    for line in lines:
        for top in tops:
            path = top / line.split(":", 2)[2].strip("/")
            folders.extend(each for each in (path, *path.parents) if each.is_relative_to(top))
    return list(dict.fromkeys(folders))
