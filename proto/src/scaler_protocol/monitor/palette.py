"""Colours that mean the same on every screen.

A function keeps its colour while it is watched: the first one that is seen gets the first colour. The colours are told
apart by people who do not see red or green (Okabe and Ito's set and its lighter and darker relatives); red and grey are
left to failures and cancels.
"""

from __future__ import annotations

FUNCTION_COLOURS = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#b8a500",
    "#6a4c93",
    "#00798c",
    "#a6761d",
    "#7fb069",
    "#3d5a80",
    "#c8a2c8",
)
FAILED_COLOUR = "#d62728"
CANCELED_COLOUR = "#8c8c8c"

_TERMINAL_COLOURS = (25, 214, 36, 175, 74, 142, 54, 30, 130, 107, 60, 182)
"""The nearest of the 256 colours of terminals."""


def function_colour(index: int) -> str:
    """``#rrggbb`` for the function with this index of the model."""
    return FUNCTION_COLOURS[index % len(FUNCTION_COLOURS)]


def function_terminal_colour(index: int) -> int:
    """One of a terminal's 256 colours for the function with this index of the model."""
    return _TERMINAL_COLOURS[index % len(_TERMINAL_COLOURS)]
