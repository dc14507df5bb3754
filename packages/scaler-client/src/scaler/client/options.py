"""Options of a task, checked when they are passed, so that no value that the protocol cannot carry is sent."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import TypedDict

from scaler_protocol.groups import checked_group, checked_weight
from scaler_protocol.limits import CAPABILITIES_LIMIT, REAL_LIMIT
from scaler_protocol.messages import DEFAULT_OPTIONS, UNITS_PER_WHOLE, Capability, TaskOptions

PRIORITY_LIMIT = 2**31 - 1
RETRIES_LIMIT = 2**31 - 1
AMOUNT_LIMIT = 2**63 - 1
NAME_LIMIT_BYTES = 1000


class MapOptions(TypedDict, total=False):
    """The named parameters of ``Client.map``, for type checkers."""

    capabilities: Mapping[str, float] | Sequence[str] | None
    priority: int
    retries: int
    rerun: bool
    timeout_seconds: float | None
    memory_bytes: int | None
    profiling: bool | None
    progress: bool
    reserialize: bool


def whole_number(name: str, value: int, minimum: int, maximum: int) -> int:
    """``value`` as an int. Raises TypeError if it is not an integer and ValueError if it is out of range."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, not {value!r}.") from None
    if not minimum <= number <= maximum:
        raise ValueError(f"{name} must be between {minimum} and {maximum}, not {number}.")
    return number


def duration(name: str, value: float | None) -> float:
    """Seconds; 0 for None, for infinity and for more than 30,000 years, which set no limit."""
    if value is None:
        return 0.0
    if isinstance(value, (str, bytes)):
        raise TypeError(f"{name} must be a number, not {value!r}.")
    seconds = float(value)
    if math.isnan(seconds) or seconds < 0:
        raise ValueError(f"{name} must not be negative, but is {value!r}.")
    return 0.0 if seconds > REAL_LIMIT else seconds


def group_of(name: str | None) -> str:
    """The name of a group; empty for None, which stands for the group of the user."""
    if name is None:
        return ""
    if not isinstance(name, str):
        raise TypeError(f"group must be a string, not {name!r}.")
    try:
        return checked_group(name)
    except ValueError as error:
        raise ValueError(f"Cannot use this group: {error}") from None


def weight_of(value: float) -> float:
    """A weight as a float."""
    if isinstance(value, (str, bytes, bool)):
        raise TypeError(f"weight must be a number, not {value!r}.")
    try:
        return checked_weight(float(value))
    except (TypeError, OverflowError):
        raise TypeError(f"weight must be a number, not {value!r}.") from None
    except ValueError as error:
        raise ValueError(f"Cannot use this weight: {error}") from None


def shared(options: TaskOptions) -> TaskOptions:
    """A shared object, if these are the default options."""
    return DEFAULT_OPTIONS if options == DEFAULT_OPTIONS else options


def capabilities_of(wanted: Mapping[str, float] | Sequence[str] | None) -> tuple[Capability, ...]:
    """The capabilities that a task requires: names, each with an amount if ``wanted`` is a mapping."""
    if not wanted:
        return ()
    if isinstance(wanted, (str, bytes)) or not all(isinstance(name, str) for name in wanted):
        raise TypeError(f"capabilities must be a mapping or a sequence of names, not {wanted!r}.")
    if len(wanted) > CAPABILITIES_LIMIT:
        raise ValueError(f"A task may require at most {CAPABILITIES_LIMIT} capabilities, not {len(wanted)}.")
    if not all(_is_name(name) for name in wanted):
        raise ValueError(f"The name of a capability has 1 to {NAME_LIMIT_BYTES} bytes of UTF-8: {list(wanted)!r}.")
    if isinstance(wanted, Mapping):
        return tuple(_capability(name, amount) for name, amount in sorted(wanted.items()))
    return tuple(Capability(name) for name in sorted(wanted))


def _is_name(text: str) -> bool:
    try:
        return 0 < len(text.encode()) <= NAME_LIMIT_BYTES
    except UnicodeEncodeError:
        return False


def _capability(name: str, amount: float) -> Capability:
    what = f"The amount of capability {name!r}"
    if amount == -1:  # any amount
        return Capability(name, 0, 1)
    if not isinstance(amount, float) or amount.is_integer():
        return Capability(
            name, whole_number(what, int(amount) if isinstance(amount, float) else amount, 0, AMOUNT_LIMIT)
        )
    millionths = round(amount * UNITS_PER_WHOLE) if 0 < amount < 1 else 0
    if not 0 < millionths < UNITS_PER_WHOLE:
        raise ValueError(f"{what} must be a whole number, or a fraction between 0 and 1, not {amount!r}.")
    return Capability(name, 0, millionths)
