"""The choice of the worker process that must end when its host runs out of memory.

Otherwise the kernel would end some process, perhaps the agent, and nothing would name the task that used the memory.
Each worker's share of the memory is the same. A worker may use more than its share as long as there is enough for all.
"""

from __future__ import annotations

from collections.abc import Mapping

RESERVE = 0.05
"""The part of the memory that must stay free."""


def is_exhausted(room_bytes: int, limit_bytes: int) -> bool:
    """``room_bytes``: how much may still be taken of the ``limit_bytes`` that this host, or the control group of the
    agent, has; 0: unknown."""
    return limit_bytes > 0 and room_bytes < RESERVE * limit_bytes


def share_bytes(limit_bytes: int, worker_count: int) -> int:
    """The memory of each worker when all of them need as much as they can get."""
    return int((1 - RESERVE) * limit_bytes / worker_count)


def largest_above_share(used_bytes: Mapping[int, int], share: int) -> int | None:
    """The process that exceeds its share most, by its number. None: all keep to theirs, so others use the memory."""
    above = {number: used for number, used in used_bytes.items() if used > share}
    return max(above, key=lambda number: above[number], default=None)
