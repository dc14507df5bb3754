"""Units: ``4GiB`` or ``500ms`` as a number, and a number as such a text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Unit:
    """The unit of a number.

    ``factors`` has, for each suffix in lower case, the numerator and the denominator that turn a number with this
    suffix into a number of this unit. ``suffixes`` are those that users see, from small to large. ``symbol`` is the
    suffix of this unit itself.
    """

    name: str
    kind: str
    symbol: str
    whole: bool
    suffixes: tuple[str, ...]
    factors: Mapping[str, tuple[int, int]]

    def parse(self, text: str) -> float:
        """The number that ``text`` means: a plain number in this unit, or a number with a suffix. Raises ValueError."""
        number = text.strip()
        digits = number.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
        suffix = number[len(digits) :].lower()
        try:
            numerator, denominator = self.factors[suffix]
            return self._scaled(digits.strip(), numerator, denominator)
        except (KeyError, ValueError, OverflowError):
            raise ValueError(f"{text!r} is not a {self.kind}. {self.advice}") from None

    @property
    def advice(self) -> str:
        """Advice for a text that is not a number of this unit."""
        return f"Give {self.name.lower()}, or a number with a unit ({', '.join(self.suffixes)})."

    def show(self, value: float) -> str:
        """``value`` with its unit. A size has the largest in which it is a whole number, such as 1GiB; 0 has none."""
        if value <= 0:
            return f"{value:g}"
        if not self.whole:
            return f"{value:g}{self.symbol}"
        for suffix in reversed(self.suffixes):
            numerator, denominator = self.factors[suffix.lower()]
            if value * denominator % numerator == 0:
                return f"{int(value * denominator // numerator)}{suffix}"
        return f"{value:g}{self.symbol}"

    def _scaled(self, digits: str, numerator: int, denominator: int) -> float:
        if self.whole and digits.lstrip("+-").replace("_", "").isdecimal():
            return int(digits) * numerator
        value = float(digits) * numerator / denominator
        if not math.isfinite(value) or (self.whole and value != int(value)):
            raise ValueError
        return int(value) if self.whole else value


_SIZES = {"B": 1, "kB": 10**3, "KiB": 2**10, "MB": 10**6, "MiB": 2**20, "GB": 10**9, "GiB": 2**30, "TB": 10**12}
_MICROSECONDS = {"us": 1, "ms": 10**3, "s": 10**6, "min": 60 * 10**6, "h": 3600 * 10**6, "d": 86_400 * 10**6}


def _durations(unit: str) -> dict[str, tuple[int, int]]:
    factors = {suffix: (size, _MICROSECONDS[unit]) for suffix, size in _MICROSECONDS.items()}
    return {"": (1, 1), **factors, "m": factors["min"]}


BYTES = Unit(
    "BYTES",
    "size",
    "B",
    True,
    ("B", "KiB", "MB", "MiB", "GB", "GiB", "TB", "TiB"),
    {"": (1, 1), **{suffix.lower(): (size, 1) for suffix, size in _SIZES.items()}, "tib": (2**40, 1)},
)
SECONDS = Unit("SECONDS", "duration", "s", False, ("ms", "s", "min", "h"), _durations("s"))
DAYS = Unit("DAYS", "duration", "d", False, ("h", "d"), _durations("d"))
