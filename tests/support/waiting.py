"""Waiting for a condition with a bound, in place of sleeping and hoping. Bounds are wide, since machines are busy: only
who waits in vain meets them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")

POLL_SECONDS = 0.005
PAUSES_PER_LOOK = 2
"""A look that takes long, such as one that starts a program, is followed by a pause of twice its duration: tests that
run at the same time need the processor."""


def wait_until(predicate: Callable[[], Value | None], timeout_seconds: float = 60.0, what: str = "") -> Value:
    """The first true value of ``predicate``; AssertionError when none came in time."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        begun = time.monotonic()
        value = predicate()
        if value:
            return value
        now = time.monotonic()
        if now > deadline:
            raise AssertionError(f"not within {timeout_seconds} s: {what or predicate}")
        time.sleep(max(POLL_SECONDS, PAUSES_PER_LOOK * (now - begun)))
