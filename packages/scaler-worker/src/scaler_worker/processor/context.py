"""The task that this process runs, as its threads and subprocesses see it.

A client made inside a task must know which task it is nested in. A processor writes ``SCALER_PARENT`` for every task it
starts; as that is the hot path, the C environment holds one buffer that is overwritten in place (subprocesses inherit
it), and ``os.environ`` reads the same buffer.
"""

from __future__ import annotations

import os
from collections.abc import Callable

PARENT_VARIABLE = "SCALER_PARENT"
"""``<session in hex>:<task>:<attempt>:<depth>`` of the task under way; empty between tasks."""

AGENT_SOCKET_VARIABLE = "SCALER_AGENT_SOCKET"
SCHEDULER_ADDRESS_VARIABLE = "SCALER_SCHEDULER_ADDRESS"


class _LiveEnvironment(dict):
    """What ``os.environ`` keeps its variables in, with one that is read when asked for."""

    __slots__ = ("read_parent",)
    read_parent: Callable[[], bytes]

    def __getitem__(self, key: bytes) -> bytes:
        if key == b"SCALER_PARENT":
            return self.read_parent()
        return super().__getitem__(key)


def install(read_parent: Callable[[], bytes]) -> None:
    """Make ``os.environ`` read SCALER_PARENT through ``read_parent``."""
    live = _LiveEnvironment(os.environ._data)  # type: ignore[attr-defined]
    live[PARENT_VARIABLE.encode()] = b""
    live.read_parent = read_parent
    os.environ._data = live  # type: ignore[attr-defined]
