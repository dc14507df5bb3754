"""Colours that mean the same on every screen.

A function has a number, by its name for people, which the scheduler gives it; until that is known, a name gets the next
free one. So a function has one colour on all screens. The first colours are told apart by people who do not see red
or green (Okabe and Ito's set and its lighter and darker relatives); further ones differ in hue and lightness. Red and
grey are left to failures and cancelled tasks.
"""

from __future__ import annotations

import colorsys
import functools
from collections import OrderedDict

from scaler_protocol.monitor.bounds import NAMES_LIMIT

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
PART_TINTS = {"fetching": ("#ffffff", 0.62), "loading": ("#ffffff", 0.34), "storing": ("#000000", 0.4)}
"""Layers over the colour of a function, for the parts of an execution other than running: a colour, and its opacity."""

FAILED_COLOUR = "#d62728"
CANCELED_COLOUR = "#8c8c8c"

TERMINAL_COLOURS = (
    25, 214, 36, 175, 74, 142, 54, 30, 130, 107, 60, 182,
    33, 220, 42, 133, 117, 101, 99, 44, 172, 150, 67, 219,
    21, 229, 29, 90, 45, 143, 141, 23, 94, 191, 103, 222,
)  # fmt: skip
"""Numbers of a terminal's 256 colours, for functions by number: first the ones nearest to ``FUNCTION_COLOURS``."""

NUMBER_LIMIT = 1 << 40
"""Greater numbers are nonsense."""

_GOLDEN_SECTION = 0.618034
_HUES = 0.06, 0.92
"""Hues outside of these are red."""

_LIGHTNESSES = (0.38, 0.66, 0.52)


@functools.cache
def function_colour(number: int) -> str:
    """``#rrggbb`` for the function with this number."""
    if number < len(FUNCTION_COLOURS):
        return FUNCTION_COLOURS[number]
    first, last = _HUES
    hue = first + (last - first) * (number * _GOLDEN_SECTION % 1.0)
    saturation = 0.45 + 0.4 * (number * _GOLDEN_SECTION * 7 % 1.0)
    rgb = colorsys.hls_to_rgb(hue, _LIGHTNESSES[number % len(_LIGHTNESSES)], saturation)
    return "#" + "".join(f"{round(255 * part):02x}" for part in rgb)


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, ``#rrggbb``: from 1 to 21, as WCAG 2.1 defines it."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@functools.cache
def text_colour(ground: str) -> str:
    """Return black or white: the one that is easier to read on this colour."""
    return max(("#ffffff", "#000000"), key=lambda text: contrast(text, ground))


def _luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def function_terminal_colour(number: int) -> int:
    """One of a terminal's 256 colours for the function with this number."""
    return TERMINAL_COLOURS[number % len(TERMINAL_COLOURS)]


class ColourNumbers:
    """The numbers of functions by name, from 0 on. The oldest names are forgotten when there are too many."""

    def __init__(self) -> None:
        self._numbers: OrderedDict[str, int] = OrderedDict()
        self._names: dict[int, str] = {}
        self._next = 0

    def number_of(self, name: str) -> int:
        """Made when the name is new."""
        number = self._numbers.get(name)
        return self._give(name, self._next) if number is None else number

    def learn(self, name: str, number: int) -> None:
        """The scheduler gives this name this number. Another name that had it gets the next free one."""
        if self._numbers.get(name) == number or number > NUMBER_LIMIT:
            return
        other = self._names.get(number)
        self._next = max(self._next, number + 1)
        self._give(name, number)
        if other is not None:
            self._give(other, self._next)

    def _give(self, name: str, number: int) -> int:
        self._forget(name)
        if len(self._numbers) >= NAMES_LIMIT:
            self._forget(next(iter(self._numbers)))
        self._numbers[name], self._names[number] = number, name
        self._next = max(self._next, number + 1)
        return number

    def _forget(self, name: str) -> None:
        number = self._numbers.pop(name, None)
        if number is not None and self._names.get(number) == name:
            del self._names[number]
