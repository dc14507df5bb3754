"""The answer to one execution."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SymphonyAnswer:
    """``status`` and ``payload`` are those of a result (docs/protocol.md); times in microseconds, memory in bytes."""

    status: int
    payload: bytes
    duration_us: int = 0
    cpu_time_us: int = 0
    memory_peak: int = 0
    stdout: bytes = b""
    stderr: bytes = b""
