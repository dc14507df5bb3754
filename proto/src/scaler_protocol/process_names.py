"""The names of worker processes other than the workers of an agent."""

from __future__ import annotations

UNKNOWN_WORKER = "(unknown)"
"""In place of the name of a worker, for tasks of which only the agent is known."""

_DIGITS_LIMIT = 5


def nested_name(agent: str, number: int) -> str:
    """Return the name of a process that runs nested tasks while workers wait for them. ``number``: from 1 on."""
    return f"{agent} nested {number}"


def nested_number(agent: str, name: str) -> int | None:
    """Return the number of the agent's process with this name; None: it is not the name of such a process."""
    digits = name.rpartition(" ")[2]
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > _DIGITS_LIMIT:
        return None
    number = int(digits)
    return number if number > 0 and name == nested_name(agent, number) else None
