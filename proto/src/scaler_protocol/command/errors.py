"""The message of a command to a user who made a mistake."""

from __future__ import annotations


class BadInput(ValueError):
    """One plain sentence for the user. A command prints it on stderr as one line and ends with exit code 2."""
