"""The title of this process, as ``ps``, ``htop`` and ``py-spy`` show it: its worker, and the function that it runs.

Linux shows the memory of the command line as it is now. If its last byte is not zero, Linux takes the memory for a
title, which ends at the first zero. The title cannot be longer than the command line was.
"""

from __future__ import annotations

import ctypes

_ARGUMENTS_START = 45
_ARGUMENTS_END = 46
"""The position in /proc/PID/stat, counted from the field after the name of the program."""

_SHORTEST = 16
"""Bytes: in less than this, a title says nothing."""


_KEPT_TITLES = 64
"""A worker process runs few functions in turns; each change of the title then costs one copy."""


class ProcessTitle:
    """``name``: of the worker. ``function`` and ``client`` are those of the task under way; empty without one."""

    def __init__(self, name: str) -> None:
        self.function = ""
        self.client = b""
        self._idle = f"scaler worker {name}"
        self._is_shown = False
        self._titles: dict[str, bytes] = {}
        self._memory = _command_line_memory()

    def show(self, function: str, client: bytes = b"") -> None:
        """Show which function runs, and remember the session of its client; empty if nothing runs."""
        self.client = client
        if function != self.function or not self._is_shown:
            self.function = function
            if self._memory is not None:
                self._is_shown = True
                self._memory.raw = self._titles.get(function) or self._keep(function, len(self._memory))

    def _keep(self, function: str, size: int) -> bytes:
        if len(self._titles) == _KEPT_TITLES:
            self._titles.clear()
        self._titles[function] = title = _title(f"{self._idle}: {function}" if function else self._idle, size)
        return title


def _title(text: str, size: int) -> bytes:
    """``text`` as a command line of ``size`` bytes."""
    shown = "".join(each if each.isprintable() else "?" for each in text[:size])
    return shown.encode(errors="replace")[: size - 2].ljust(size - 1, b"\0") + b" "


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
