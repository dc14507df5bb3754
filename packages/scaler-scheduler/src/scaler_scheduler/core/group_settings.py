"""The operator's settings of groups: numbers by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from scaler_protocol.groups import checked_group, checked_weight

T = TypeVar("T", int, float)


def named_numbers(text: str) -> dict[str, float]:
    """Return the weights by group in a text such as ``team/nightly=2,ci=0.5``."""
    return {name: checked_weight(_number(name, value, float)) for name, value in _pairs(text)}


def named_counts(text: str) -> dict[str, int]:
    """Return the whole numbers by group in a text such as ``team/nightly=4,ci=1``."""
    return {name: _positive(name, _number(name, value, int)) for name, value in _pairs(text)}


def weights_text(text: str) -> str:
    """``text``, if it consists of weights by group."""
    named_numbers(text)
    return text


def counts_text(text: str) -> str:
    """``text``, if it consists of numbers of workers by group."""
    named_counts(text)
    return text


def _pairs(text: str) -> list[tuple[str, str]]:
    pairs = []
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, separator, value = part.rpartition("=")
        if not separator:
            raise ValueError(f"Cannot read {part!r}: write GROUP=NUMBER, separated by commas.")
        pairs.append((checked_group(name.strip()), value.strip()))
    return pairs


def _number(name: str, value: str, kind: Callable[[str], T]) -> T:
    try:
        return kind(value)
    except ValueError:
        raise ValueError(f"Cannot read the number {value!r} of the group {name!r}.") from None


def _positive(name: str, count: int) -> int:
    if count < 1:
        raise ValueError(f"Cannot limit the group {name!r} to {count} workers. Give at least 1.")
    return count
