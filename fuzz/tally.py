"""The number of inputs, and of messages given to cores, in a file that outlives a crash."""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path

_COUNTS = struct.Struct("<QQ")


class Tally:
    """Two counters in memory, which may be that of a file: counting costs no system call, and nothing is lost when the
    process dies."""

    def __init__(self) -> None:
        self._memory: mmap.mmap | bytearray = bytearray(_COUNTS.size)
        self._inputs = 0
        self._messages = 0

    def keep_in(self, path: Path) -> None:
        with open(path, "w+b") as file:
            os.ftruncate(file.fileno(), _COUNTS.size)
            self._memory = mmap.mmap(file.fileno(), _COUNTS.size)

    def count_input(self) -> None:
        self._inputs += 1
        _COUNTS.pack_into(self._memory, 0, self._inputs, self._messages)

    def count_messages(self, count: int = 1) -> None:
        """Called by targets that give messages to a core."""
        self._messages += count


TALLY = Tally()
"""This process's."""


def read(path: Path) -> tuple[int, int]:
    """Inputs and messages."""
    try:
        inputs, messages = _COUNTS.unpack(path.read_bytes())
    except (OSError, struct.error):
        return 0, 0
    return inputs, messages
