"""The title of this process, as ``ps``, ``htop`` and ``py-spy`` show it: its worker, and the function that it runs.

Linux shows the memory of the command line as it is now. If its last byte is not zero, Linux takes the memory for a
title, which ends at the first zero. The title cannot be longer than the command line was.
"""

from __future__ import annotations

import ctypes

_ARGUMENTS_START = 45
_ARGUMENTS_END = 46
"""In /proc/PID/stat, counted from the field after the name of the program."""

_SHORTEST = 16
"""Bytes: in less than this, a title says nothing."""


class ProcessTitle:
    """``name``: of the worker."""

    def __init__(self, name: str) -> None:
        self._idle = f"scaler worker {name}"
        self._function: str | None = None
        self._memory = _command_line_memory()

    def show(self, function: str) -> None:
        """``function``: what runs; empty if nothing does."""
        if function != self._function and self._memory is not None:
            self._function = function
            self._write(f"{self._idle}: {function}" if function else self._idle)

    def _write(self, text: str) -> None:
        assert self._memory is not None
        size = len(self._memory)
        shown = "".join(each if each.isprintable() else "?" for each in text[:size])
        data = shown.encode(errors="replace")[: size - 2]
        self._memory.raw = data.ljust(size - 1, b"\0") + b" "


def _command_line_memory() -> ctypes.Array[ctypes.c_char] | None:
    """None: it is unknown, or too short."""
    try:
        with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        start, end = int(fields[_ARGUMENTS_START]), int(fields[_ARGUMENTS_END])
    except (OSError, ValueError, IndexError):
        return None
    if start <= 0 or end - start < _SHORTEST:
        return None
    return (ctypes.c_char * (end - start)).from_address(start)
