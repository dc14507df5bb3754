"""The message of a command to a user who made a mistake."""

from __future__ import annotations


class BadInput(ValueError):
    """One plain sentence for the user. A command prints it on stderr as one line and ends with exit code 2."""


def unusable_text(source: str, reason: str) -> str:
    """Return why the value of ``source``, such as an option, cannot be used. ``reason`` may be a complete sentence
    about the value: "Cannot use 'udp://x': ..."."""
    about_value = reason.removeprefix("Cannot use ")
    return f"Cannot use {source}{': ' if about_value == reason else ' '}{about_value}"
