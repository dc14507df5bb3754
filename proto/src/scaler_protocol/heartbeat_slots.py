"""The times of heartbeats: messages by which peers that have nothing to say show the scheduler that they live.

They do so when their clocks show a multiple of SLOT_SECONDS, so that a scheduler with many peers receives several
messages each time it wakes up. A peer keeps its slot, and peers start in different ones.
"""

from __future__ import annotations

SLOT_SECONDS = 0.05


def seconds_to_next(interval_seconds: float, wall_seconds: float) -> float:
    """Return the delay of the next heartbeat: the interval, or a little less. ``wall_seconds``: what the clocks of all
    hosts show now."""
    after_slot_seconds = (wall_seconds + interval_seconds) % SLOT_SECONDS
    return max(interval_seconds / 2, interval_seconds - after_slot_seconds)
