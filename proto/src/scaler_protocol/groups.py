"""Groups and weights that a client may request for sharing the workers."""

from __future__ import annotations

import math

GROUP_NAME_LIMIT = 200
"""Characters of the name of a group."""

USUAL_WEIGHT = 1.0
"""The weight of a client that asks for none, and of a group for which no operator has set another."""

LEAST_WEIGHT = 0.001
GREATEST_WEIGHT = 1000.0


def checked_group(name: str) -> str:
    """``name``, if it can be the name of a group. Raises ValueError otherwise."""
    if not name:
        raise ValueError("The name of a group must not be empty.")
    if len(name) > GROUP_NAME_LIMIT:
        raise ValueError(f"The name of a group has at most {GROUP_NAME_LIMIT} characters, not {len(name)}.")
    if not name.isprintable():
        raise ValueError(f"The name of a group consists of printable characters, unlike {name!r}.")
    return name


def checked_weight(weight: float) -> float:
    """``weight``, if a client or a group can have it. Raises ValueError otherwise."""
    if not math.isfinite(weight) or not LEAST_WEIGHT <= weight <= GREATEST_WEIGHT:
        raise ValueError(f"A weight is a number from {LEAST_WEIGHT} to {GREATEST_WEIGHT:g}, not {weight}.")
    return weight
