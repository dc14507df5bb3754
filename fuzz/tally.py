"""The numbers of inputs and of messages given to cores, and the present input, in a file that outlives a crash."""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path

_COUNTS = struct.Struct("<QQQ")
"""Inputs, messages, and one more than the size of the present input, which follows; 0: there is none."""

LONGEST_INPUT_BYTES = 1 << 20


class Tally:
    """Counters in memory, which may be that of a file: counting costs no system call, and nothing is lost when the
    process dies."""

    def __init__(self) -> None:
        self._memory: mmap.mmap | bytearray = bytearray(_COUNTS.size + LONGEST_INPUT_BYTES)
        self._inputs = 0
        self._messages = 0

    def keep_in(self, path: Path) -> None:
        with open(path, "w+b") as file:
            os.ftruncate(file.fileno(), _COUNTS.size + LONGEST_INPUT_BYTES)
            self._memory = mmap.mmap(file.fileno(), _COUNTS.size + LONGEST_INPUT_BYTES)

    def begin_input(self, data: bytes) -> None:
        """It counts when the next one begins, or ends."""
        self._memory[_COUNTS.size : _COUNTS.size + len(data)] = data
        _COUNTS.pack_into(self._memory, 0, self._inputs, self._messages, 1 + len(data))

    def end_input(self) -> None:
        self._inputs += 1
        _COUNTS.pack_into(self._memory, 0, self._inputs, self._messages, 0)

    def count_messages(self, count: int = 1) -> None:
        """Called by targets that give messages to a core."""
        self._messages += count


TALLY = Tally()
"""This process's."""


def read(path: Path) -> tuple[int, int]:
    """Inputs and messages."""
    return _read(path)[:2]


def read_input(path: Path) -> bytes | None:
    """The input that was being tried when the process ended. None: it was not trying any."""
    size = _read(path)[2]
    return path.read_bytes()[_COUNTS.size :][: size - 1] if size else None


def _read(path: Path) -> tuple[int, int, int]:
    try:
        with open(path, "rb") as file:
            inputs, messages, size = _COUNTS.unpack(file.read(_COUNTS.size))
    except (OSError, struct.error):
        return 0, 0, 0
    return inputs, messages, size
