"""Times as people write them, in the local time zone."""

from __future__ import annotations

import datetime
import re

from scaler_protocol.monitor.format import format_moment

_DAY = datetime.timedelta(days=1)
_LOOKED_AT_DAYS = 3
"""A clock shows each time at least once in so many days, also if summer time begins or ends meanwhile."""

_SHAPE = re.compile(r"(\d{4}-\d\d-\d\d[T ])?\d{1,2}:\d\d")


def is_moment(text: str) -> bool:
    """Return whether a text looks like a time, and not like a name."""
    return _SHAPE.match(text.strip()) is not None


def moment_of(text: str, start: float) -> float:
    """Unix seconds of ``14:03``, ``14:03:59.5`` (the first time after ``start``) or ``2023-11-14T14:03:59``.
    ValueError, with a sentence, for other texts."""
    text = text.strip()
    if _has_date(text):
        return _read_date(text)
    first = datetime.datetime.fromtimestamp(start).date()
    moments = [each for day in range(_LOOKED_AT_DAYS) for each in _on_day(text, first + day * _DAY)]
    return next(each for each in moments if each >= int(start))


def find_moment(text: str, start: float, end: float) -> float:
    """Unix seconds of the same, between ``start`` and ``end``. A time without a date is the last one there. ValueError,
    with a sentence, if there is none."""
    text = text.strip()
    if _has_date(text):
        moments = [_read_date(text)]
    else:
        last = datetime.datetime.fromtimestamp(end).date()
        moments = [each for day in range(_LOOKED_AT_DAYS) for each in reversed(_on_day(text, last - day * _DAY))]
    length = _length_of(text)
    found = next((each for each in moments if each <= end and each + length > start), None)
    if found is None:
        span = f"from {format_moment(start)} to {format_moment(end)}"
        raise ValueError(f"Cannot go to {text}: only the time {span} is known.")
    return max(start, found)


def _has_date(text: str) -> bool:
    return "T" in text or " " in text


def _length_of(text: str) -> float:
    """Return how long a clock shows a text: a minute, or a second."""
    return 1.0 if text.count(":") > 1 else 60.0


def _read_date(text: str) -> float:
    try:
        return datetime.datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        raise _unreadable(text) from None


def _on_day(text: str, day: datetime.date) -> list[float]:
    """Return when clocks showed a time on a day: twice when summer time ends, and when it begins perhaps never; then
    the moment at which an unchanged clock would have shown it."""
    try:
        clock = datetime.time.fromisoformat(text.zfill(5) if text[1:2] == ":" else text)
        shown = datetime.datetime.combine(day, clock)
        moments = sorted({shown.replace(fold=fold).timestamp() for fold in (0, 1)})
    except (ValueError, OverflowError):
        raise _unreadable(text) from None
    exact = [each for each in moments if datetime.datetime.fromtimestamp(each, shown.tzinfo) == shown]
    return exact or moments[-1:]


def _unreadable(text: str) -> ValueError:
    return ValueError(f"Cannot read the time {text[:40]!r}. Write 14:03:59 or 2023-11-14T14:03:59.")
