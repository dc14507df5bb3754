"""Facts that a job at the other end of a connection reports, line by line. The host may say anything."""

from __future__ import annotations

import json
from typing import Any

LINE_LIMIT_BYTES = 512 * 1024
"""A longer line is read in pieces."""

TEXT_LIMIT = 16_384
"""Characters of a text; the rest is left out."""

_TYPES = {"version": str, "ready": bool, "failed": str, "refused": bool, "ended": int, "log": str}


def facts_in(line: str) -> dict[str, Any]:
    """The facts in a line, each of its type: ``python`` is a pair of numbers. Empty: the line has none, such as what a
    login script of the user prints."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(said, dict):
        return {}
    facts = {name: said[name] for name, kind in _TYPES.items() if type(said.get(name)) is kind}
    facts.update({name: value[:TEXT_LIMIT] for name, value in facts.items() if isinstance(value, str)})
    python = said.get("python")
    if isinstance(python, list) and len(python) == 2 and all(type(part) is int for part in python):
        facts["python"] = tuple(python)
    return facts
