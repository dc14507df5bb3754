"""Warnings that name a line of the program, and not one of the libraries between it and the cause."""

from __future__ import annotations

import sys
import warnings

_PACKAGE = __name__.partition(".")[0]


def warn_program(text: str, *libraries: str) -> None:
    """Warn at the innermost line that belongs neither to this package nor to ``libraries``: packages, by name, that
    call this one on behalf of the program. Without such a line, warn at the outermost one."""
    warnings.warn(text, UserWarning, stacklevel=_depth_of_program({_PACKAGE, *libraries}))


def _depth_of_program(packages: set[str]) -> int:
    """The ``stacklevel`` in the caller at which the first frame outside these packages is."""
    frame = sys._getframe(1)
    depth = 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in packages:
        frame = frame.f_back
        depth += 1
    return depth
