"""Warnings for arguments of Ray that have no meaning here."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping

_PACKAGE = os.path.dirname(__file__)


def warn_of_ignored(callable_name: str, reasons: Mapping[str, str]) -> None:
    """Warn of each argument, at the line of the program that called this package."""
    for name, reason in reasons.items():
        text = f"The argument {name} of {callable_name} has no effect: {reason}. Leave it out."
        warnings.warn(text, stacklevel=_depth_of_caller())


def _depth_of_caller() -> int:
    """The ``stacklevel`` for ``warn_of_ignored`` at which the program's own frame is."""
    frame = sys._getframe(1)
    depth = 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
        depth += 1
    return depth
