"""Has worker processes sample where their tasks are, and collects the samples: see ``worker_process/sampler.py``."""

from __future__ import annotations

import asyncio
import contextlib
import os
import struct
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from scaler_protocol.command.guarded_loop import GuardedLoop
from scaler_protocol.profile import DATA_LIMIT_BYTES, PROCESS_NODES_LIMIT, BadProfile, ProfileTree
from scaler_worker.shell.stacks import open_memory_file
from scaler_worker.worker_process.channel import PROFILE_FILE, PROFILE_SIGNAL
from scaler_worker.worker_process.sampler import HEADER

LOOK_SECONDS = 1.0
"""Time between two looks for new processes."""

END_SECONDS = 1.5
"""Time for processes to write their last samples. They write at once, but a process that computes outside of Python may
not have begun yet."""

_AGAIN_SECONDS = 0.02
_TRIES = 3


class ProfileEvents(Protocol):
    def profile(self, number: int, tree: ProfileTree) -> None:
        """Take the samples since the profile with this number began."""


class HostProfiles:
    """``processes``: the names of workers and the ids of their processes, now."""

    def __init__(
        self, loop: GuardedLoop, agent: ProfileEvents, processes: Callable[[], Iterable[tuple[str, int]]]
    ) -> None:
        self._loop = loop
        self._agent = agent
        self._processes = processes
        self._sampled: dict[int, _SampledProcess] = {}
        self._ended = ProfileTree()
        self._begun: dict[int, _BegunProfile] = {}
        self._look_timer: asyncio.TimerHandle | None = None

    def begin(self, number: int, interval_us: int) -> None:
        """Sample in this interval, or in the shortest that any profile under way wants."""
        self._begun[number] = _BegunProfile(interval_us, self._total())
        self._sample_all()
        if self._look_timer is None:
            self._look_timer = self._loop.call_later(LOOK_SECONDS, self._look)

    def end(self, number: int) -> None:
        """Answered by the event, later."""
        self._begun[number].interval_us = 0
        self._set_intervals()
        written = {pid: process.written() for pid, process in self._sampled.items()}
        self._await_last_samples(number, written, time.monotonic() + END_SECONDS)

    def _await_last_samples(self, number: int, written: dict[int, int], deadline: float) -> None:
        """``written``: what the processes that have not written since then had written."""
        written = {
            pid: before
            for pid, before in written.items()
            if pid in self._sampled and self._sampled[pid].written() == before
        }
        if written and time.monotonic() < deadline:
            self._loop.call_later(_AGAIN_SECONDS, self._await_last_samples, number, written, deadline)
        else:
            self._report(number)

    def _report(self, number: int) -> None:
        before = self._begun.pop(number).before
        self._agent.profile(number, self._total().minus(before))
        if not self._begun:
            for process in self._sampled.values():
                process.close()
            self._sampled.clear()
            self._ended = ProfileTree()

    def _look(self) -> None:
        self._look_timer = None
        if self._begun:
            self._sample_all()
            self._look_timer = self._loop.call_later(LOOK_SECONDS, self._look)

    def _sample_all(self) -> None:
        present = {pid: name for name, pid in self._processes() if pid}
        for pid, name in present.items():
            if pid not in self._sampled:
                with contextlib.suppress(OSError):  # it has just ended
                    self._sampled[pid] = _SampledProcess(name, pid)
        for pid in [pid for pid in self._sampled if pid not in present]:
            process = self._sampled.pop(pid)
            process.add_to(self._ended)
            process.close()
        self._set_intervals()

    def _set_intervals(self) -> None:
        wanted = [profile.interval_us for profile in self._begun.values() if profile.interval_us]
        for process in self._sampled.values():
            process.set_interval(min(wanted, default=0))

    def _total(self) -> ProfileTree:
        total = ProfileTree()
        total.merge(self._ended)
        for process in self._sampled.values():
            process.add_to(total)
        return total


@dataclass(slots=True)
class _BegunProfile:
    """``interval_us``: 0 while the last samples are awaited. ``before``: the samples that do not belong to it."""

    interval_us: int
    before: ProfileTree


class _SampledProcess:
    """The memory file of one process, which stays readable when the process has ended."""

    def __init__(self, name: str, pid: int) -> None:
        """Raises OSError if there is no such process, or it has no file."""
        descriptor = open_memory_file(pid, PROFILE_FILE)
        if descriptor is None:
            raise FileNotFoundError(PROFILE_FILE)
        self._name = name
        self._pid = pid
        self._descriptor = descriptor
        self._interval_us = 0
        self._last = ProfileTree(PROCESS_NODES_LIMIT)
        self._last_written = 0

    def set_interval(self, interval_us: int) -> None:
        if interval_us == self._interval_us:
            return
        self._interval_us = interval_us
        with contextlib.suppress(OSError):
            os.pwrite(self._descriptor, struct.pack("<Q", interval_us), 0)
            if interval_us:
                os.kill(self._pid, PROFILE_SIGNAL)

    def written(self) -> int:
        """A number that changes when the process writes its profile."""
        header = os.pread(self._descriptor, HEADER.size, 0)
        return HEADER.unpack(header)[1] if len(header) == HEADER.size else 0

    def add_to(self, tree: ProfileTree) -> None:
        for _ in range(_TRIES):
            if self._read():
                break
        tree.merge(self._last, (self._name,))

    def _read(self) -> bool:
        """Read the profile. False: it was being written. User code may have written anything to the file."""
        header = os.pread(self._descriptor, HEADER.size, 0)
        if len(header) < HEADER.size:
            return True
        _, written, size = HEADER.unpack(header)
        if written == self._last_written or not 0 < size <= DATA_LIMIT_BYTES:
            return True
        data = os.pread(self._descriptor, size, HEADER.size)
        if written % 2 or os.pread(self._descriptor, 8, 8) != header[8:16]:
            return False
        with contextlib.suppress(BadProfile):
            self._last = ProfileTree.from_json(data, PROCESS_NODES_LIMIT)
        self._last_written = written
        return True

    def close(self) -> None:
        os.close(self._descriptor)
