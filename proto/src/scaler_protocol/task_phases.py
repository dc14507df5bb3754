"""The phases of the task that this process runs, for code inside the task.

A worker process says with ``offer`` where they are known. Elsewhere, nothing is known of them. Times are nanoseconds of
the monotonic clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from scaler_protocol.messages import TaskOptions


class TaskPhases(NamedTuple):
    """The phases before the call: waiting for dependencies from ``submitted`` on, waiting for a worker from ``ready``
    on, fetching objects from ``started`` on, then loading the arguments until ``loaded``, which is ``started`` if that
    took no measurable time. ``submitted`` and ``ready`` are ``started``, too, if they are unknown."""

    submitted: int
    ready: int
    started: int
    fetching: int
    loaded: int


def waits_before(started: int, options: TaskOptions, attempt: int) -> tuple[int, int]:
    """Return ``submitted`` and ``ready`` of a task with these options. A later attempt has waited for the end of an
    earlier one, so nothing is known of it. The clocks of client and worker may differ: no time is after ``started``."""
    if not options.submitted_at or attempt > 1:
        return started, started
    offset = time.time_ns() - time.monotonic_ns()
    submitted = min(started, round(options.submitted_at * 1e9) - offset)
    if not options.graph:
        return submitted, submitted
    if not options.ready_at:  # its inputs are made on its own host
        return submitted, started
    return submitted, max(submitted, min(started, round(options.ready_at * 1e9) - offset))


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
