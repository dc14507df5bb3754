"""Times of a recording as people write them."""

from __future__ import annotations

import datetime


def moment_of(text: str, start: float) -> float:
    """Unix seconds of ``14:03``, ``14:03:59.5`` (after ``start``, in the local time zone) or ``2023-11-14T14:03:59``.
    Raises ValueError if it has none of these forms."""
    if "T" in text or " " in text.strip():
        return datetime.datetime.fromisoformat(text.strip()).timestamp()
    clock = datetime.time.fromisoformat(text.strip())
    day = datetime.datetime.fromtimestamp(start)
    moment = datetime.datetime.combine(day.date(), clock)
    if moment < day.replace(microsecond=0):
        moment += datetime.timedelta(days=1)
    return moment.timestamp()
