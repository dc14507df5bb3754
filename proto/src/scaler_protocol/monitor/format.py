"""The format of numbers on every screen."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Callable
from typing import Any

TIME_LIMIT_SECONDS = 1e11
"""Some thousand years from now, in seconds since 1970: what is beyond was damaged on its way."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_SHORT_UNITS = ("b", "k", "m", "g", "t", "p")
_JOINING_JAMO = (("\u1160", "\u11ff"), ("\ud7b0", "\ud7ff"))


def format_bytes(size_bytes: float) -> str:
    """``37.1 MiB``; units of 1,024, one decimal above bytes."""
    size, power = _scaled(size_bytes)
    return f"{size:.{1 if power else 0}f} {_UNITS[power]}"


def format_bytes_short(size_bytes: float) -> str:
    """``37.1m``: the same, where each column of a terminal counts."""
    size, power = _scaled(size_bytes)
    return f"{size:.{1 if power else 0}f}{_SHORT_UNITS[power]}"


def _scaled(size_bytes: float) -> tuple[float, int]:
    """At most three digits before the point, and the power of 1,024."""
    size = max(0.0, float(size_bytes))
    for power in range(len(_UNITS) - 1):
        if size < 999.95:
            return size, power
        size /= 1024
    return size, len(_UNITS) - 1


def format_count(count: int) -> str:
    """``200,000``."""
    return f"{count:,}"


def format_percent(percent: float) -> str:
    """``0.5%``."""
    return f"{percent:.1f}%"


def format_share(share: float) -> str:
    """``42%``; 100% only for the whole."""
    return f"{min(99.0, share * 100) if share < 1 else share * 100:.0f}%"


def format_latency(seconds: float) -> str:
    """Three figures or so: ``730us`` is written ``0.7ms``, then ``12.3ms``, ``123ms``, ``1.2s``, ``75s``."""
    if seconds < 0.09995:
        return f"{max(0.0, seconds) * 1000:.1f}ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}ms"
    return f"{seconds:.1f}s" if seconds < 9.95 else f"{seconds:.0f}s"


def format_duration(seconds: float) -> str:
    """``12 s``, ``3 min``, ``2 h``: how long ago, for people."""
    if seconds < 90:
        return f"{max(0.0, seconds):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.0f} h"


def format_left(seconds: float) -> str:
    """``12 s``, ``3 min``, and at least ``1 s``: how long something will take that has not ended."""
    return format_duration(max(1.0, seconds))


def format_flags(*flags: bool) -> str:
    """``101``."""
    return "".join("1" if flag else "0" for flag in flags)


def format_span(seconds: float) -> str:
    """Return how long a task took: ``87us``, ``1.2ms``, ``45.1s``, ``3m07s``, ``2h05m``."""
    if seconds < 0.0009995:
        return f"{max(0.0, seconds) * 1e6:.0f}us"
    if seconds < 0.9995:
        return f"{seconds * 1000:.3g}ms"
    if seconds < 99.95:
        return f"{seconds:.3g}s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest:02}s" if minutes < 100 else f"{minutes // 60:,}h{minutes % 60:02}m"


def is_time(unix_seconds: float) -> bool:
    """Return whether this may be a moment, or 0, for none."""
    return 0 <= unix_seconds < TIME_LIMIT_SECONDS


def format_time(unix_seconds: float) -> str:
    """``14:03:59.204``, in the local time zone; empty for 0 and for invalid times."""
    if unix_seconds <= 0 or not is_time(unix_seconds):
        return ""
    milliseconds = int(unix_seconds * 1000)
    return time.strftime("%H:%M:%S", time.localtime(milliseconds // 1000)) + f".{milliseconds % 1000:03}"


def format_moment(unix_seconds: float) -> str:
    """``2023-11-14 14:03:59``, in the local time zone; empty for 0 and for invalid times."""
    if unix_seconds <= 0 or not is_time(unix_seconds):
        return ""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(int(unix_seconds)))


def format_end(unix_seconds: float, now: float) -> str:
    """Return when something is expected: ``14:03:59``, with the date unless that is today's."""
    text = format_moment(unix_seconds)
    return text[11:] if text[:10] == format_moment(now)[:10] else text[:16]


def format_rate(per_second: float) -> str:
    """``12,345/s``, ``3.5/s``."""
    return f"{per_second:,.0f}/s" if per_second >= 99.5 or per_second == 0 else f"{per_second:.3g}/s"


def format_byte_rate(bytes_per_second: float) -> str:
    """``37.1 MiB/s``."""
    return f"{format_bytes(bytes_per_second)}/s"


def format_value(kind: str, value: Any) -> str:
    """A value of a table, by the kind of its column (see ``tables``). None: it is not known."""
    return "-" if value is None else _FORMATS[kind](value)


def display_width(text: str) -> int:
    """Return how many terminal columns the text takes."""
    return len(text) if text.isascii() else sum(_character_width(character) for character in text)


def printable(text: str) -> str:
    """The text without what could move a cursor: names come from other people's programs."""
    return text if text.isprintable() else "".join(each if each.isprintable() else "?" for each in text)


def clip(text: str, width: int) -> str:
    """Return at most ``width`` columns of the text; ``+`` at the end shows that something is missing."""
    clean = printable(text)
    if display_width(clean) <= width:
        return clean
    return "" if width <= 0 else _prefix(clean, width - 1) + "+"


def right(text: str, width: int) -> str:
    """Exactly ``width`` columns, clipped, at the right edge."""
    clipped = clip(text, width)
    return " " * (width - display_width(clipped)) + clipped


def left(text: str, width: int) -> str:
    """Exactly ``width`` columns, clipped, at the left edge."""
    clipped = clip(text, width)
    return clipped + " " * (width - display_width(clipped))


def _prefix(text: str, width: int) -> str:
    used = 0
    for position, character in enumerate(text):
        used += _character_width(character)
        if used > width:
            return text[:position]
    return text


def _character_width(character: str) -> int:
    """Return how many columns it takes in a terminal: marks, and the vowels and finals of Hangul syllables, share the
    cell before them."""
    if unicodedata.category(character) in ("Mn", "Me") or any(low <= character <= high for low, high in _JOINING_JAMO):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


_FORMATS: dict[str, Callable[[Any], str]] = {
    "text": lambda value: printable(str(value)),
    "id": str,
    "pid": lambda value: str(value) if value else "",
    "count": format_count,
    "bytes": format_bytes,
    "percent": format_percent,
    "share": format_share,
    "latency": format_latency,
    "duration": format_span,
    "estimate": lambda value: format_span(value) if value else "",
    "age": format_duration,
    "time": format_time,
    "rate": format_rate,
    "byte_rate": format_byte_rate,
    "flag": lambda value: "yes" if value else "",
}
