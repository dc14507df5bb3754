"""The order of names as people count: ``node-2`` stands before ``node-10``."""

from __future__ import annotations

import re
from functools import lru_cache

_NUMBER = re.compile("([0-9]+)")
_REMEMBERED = 16_384

NaturalKey = tuple[tuple[str | tuple[int, str], ...], str]


@lru_cache(_REMEMBERED)
def natural_key(name: str) -> NaturalKey:
    """The sort key of a name: numbers count by their values, letters without their case."""
    parts = _NUMBER.split(name.casefold())
    return tuple(_number(part) if index % 2 else part for index, part in enumerate(parts)), name


def _number(digits: str) -> tuple[int, str]:
    """Compares as the number would, however many digits it has."""
    digits = digits.lstrip("0")
    return len(digits), digits
