"""The phases of the task that this process runs, for code inside the task.

A worker process says with ``offer`` where they are known. Elsewhere, nothing is known of them. Times are nanoseconds of
the monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class TaskPhases(NamedTuple):
    """The phases before the call: fetching objects from ``started`` on, then loading the arguments until ``loaded``,
    which is ``started`` if that took no measurable time."""

    started: int
    fetching: int
    loaded: int


WhenStored = Callable[[int, int], None]
"""Called after the task with the time when the function had returned and the time when its result was stored; equal if
nothing was stored, or in no measurable time."""

_PhaseSource = Callable[[Callable[..., Any], WhenStored], "TaskPhases | None"]
_sources: list[_PhaseSource] = []


def offer(source: _PhaseSource) -> None:
    """Answer ``watch`` in this process."""
    _sources[:] = [source]


def watch(function: Callable[..., Any], when_stored: WhenStored) -> TaskPhases | None:
    """Return the phases of the task under way, if ``function`` is what it calls, and have ``when_stored`` called once.
    None: nothing is known, and nothing is called."""
    return _sources[0](function, when_stored) if _sources else None
