"""Measurements of the agent's host and processes."""

from __future__ import annotations

from pathlib import Path

import psutil

from scaler_protocol.control_groups import memory_rooms


def out_of_memory_kills() -> int:
    """Return how many processes the kernel has killed for memory, in this control group or on this host; 0 when
    unknown."""
    for path, key in ((Path("/sys/fs/cgroup/memory.events"), "oom_kill"), (Path("/proc/vmstat"), "oom_kill")):
        try:
            words = dict(line.split()[:2] for line in path.read_text().splitlines())
            return int(words[key])
        except (OSError, KeyError, ValueError):
            continue
    return 0


def resident_bytes(pid: int) -> int:
    """0 when there is no such process, or no descriptor left to look."""
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except (psutil.Error, OSError):
        return 0


def private_bytes(pid: int) -> int:
    """Resident memory that is not shared with other processes, such as through the object store; 0 as above."""
    try:
        memory = psutil.Process(pid).memory_info()
        return int(memory.rss - memory.shared)
    except (psutil.Error, OSError):
        return 0


class ProcessMeter:
    """Processor time and memory of some processes. The first reading of a process's time is 0."""

    def __init__(self) -> None:
        self._processes: dict[int, psutil.Process] = {}
        self._readings: dict[int, tuple[float, int]] = {}

    def read(self, pid: int) -> tuple[float, int]:
        """(percent of one processor since the last reading, resident bytes)"""
        try:
            process = self._processes.get(pid)
            if process is None:
                process = self._processes[pid] = psutil.Process(pid)
            with process.oneshot():
                reading = process.cpu_percent(), int(process.memory_info().rss)
        except (psutil.Error, OSError):  # it has ended, or no descriptor is left to look
            self._processes.pop(pid, None)
            return 0.0, 0
        self._readings[pid] = reading
        return reading

    def last(self, pid: int) -> tuple[float, int]:
        """The last reading, or the first."""
        return self._readings.get(pid) or self.read(pid)

    def keep_only(self, pids: set[int]) -> None:
        self._processes = {pid: process for pid, process in self._processes.items() if pid in pids}
        self._readings = {pid: reading for pid, reading in self._readings.items() if pid in pids}


def host_memory_bytes() -> tuple[int, int]:
    """Return what tasks may still take, and what this host, or the control group of the agent, may use; 0 when no
    descriptor is left to look."""
    try:
        memory = psutil.virtual_memory()
    except OSError:
        return 0, 0
    rooms = [(int(memory.total), int(memory.available)), *memory_rooms()]
    return min(room for _, room in rooms), min(limit for limit, _ in rooms)
