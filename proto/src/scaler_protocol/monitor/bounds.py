"""Bounds on the values of a stream or a recording, from any source.

The publisher applies them to what it sends and readers to what they receive, so a screen computes with finite numbers
and draws short texts. Counts are bounded by their 64 bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scaler_protocol.monitor.format import printable

MESSAGE_LIMIT_BYTES = 64 * 1024 * 1024
"""No message of the stream is longer: a record has at most the 32 MiB of the memory that it comes through, and a
snapshot with 100,000 workers takes 8."""

TEXT_LIMIT = 1000
"""Characters of a name or a sentence."""

MEASURE_LIMIT = 2.0**50
"""Largest measured value, in whatever unit; a greater one is nonsense. About 1e15, and exact in 32 bits as well."""

COUNT_LIMIT = 2**64 - 1
IDENTITY_LIMIT_BYTES = 64
"""Maximum size of a session or a digest."""

ROWS_LIMIT = 200_000
"""Rows of one table in a snapshot."""

RECORDS_LIMIT = 65_536
"""Event records of one message."""

NAMES_LIMIT = 50_000
"""Sessions, agents and functions whose names are kept, of each the latest ones."""

OPTIONS_LIMIT = 2_000
"""Options of tasks whose names are kept, the latest ones."""

CAPABILITIES_LIMIT = 16
"""Capabilities that are shown of the options of a task."""

CAPABILITY_LIMIT = 64
"""Characters that are shown of the name of a capability there."""

WORKERS_LIMIT = 200_000
"""Workers whose names are kept; tasks of further ones have none."""

NAME_LIMIT_BYTES = 1024 * 1024
"""Maximum size of a record that names something: an agent names its workers, some thousand at most."""

MOMENT_LIMIT_US = 10**17
"""Microseconds since 1970, some thousand years from now."""


def measured(value: float) -> float:
    """Return ``value`` limited to 0 to ``MEASURE_LIMIT``; 0 if it is not a number."""
    return min(max(value, 0.0), MEASURE_LIMIT) if not math.isnan(value) else 0.0


def all_measured(values: Sequence[float]) -> Sequence[float]:
    """The same for a column, which usually is within the bounds."""
    if not values or (0.0 <= sum(values) <= MEASURE_LIMIT and min(values) >= 0.0):
        return values
    return [measured(value) for value in values]


def counted(value: int) -> int:
    """Return ``value`` limited to 0 to ``COUNT_LIMIT``."""
    return min(max(value, 0), COUNT_LIMIT)


def short_text(text: str, limit: int = TEXT_LIMIT) -> str:
    """Return at most ``limit`` characters of the text, all of which have an encoding."""
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode()


def shown_text(text: str, limit: int = TEXT_LIMIT) -> str:
    """The same, without what could move a cursor or turn the direction of writing: names come from other people's
    programs."""
    return printable(short_text(text, limit))


def moment_us(value: int) -> int:
    """Microseconds since 1970 with which a reader can compute in 64 bits."""
    return min(value, MOMENT_LIMIT_US)


def rate(amount: float, seconds: float) -> float:
    """``amount`` per second; 0 when hardly any time has passed."""
    return measured(amount / seconds) if seconds >= 0.001 else 0.0
