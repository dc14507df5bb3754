"""Warnings for arguments of Ray that have no meaning here."""

from __future__ import annotations

from collections.abc import Mapping

from scaler.utility.warning import warn_program


def warn_of_ignored(callable_name: str, reasons: Mapping[str, str]) -> None:
    """Warn of each argument, at the line of the program that called this package."""
    for name, reason in reasons.items():
        warn_program(f"The argument {name} of {callable_name} has no effect: {reason}. Leave it out.")
