"""Pictures of scaler_top: what tmux says of a terminal's cells, painted."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from tests.support.commands import command_line
from tests.support.tmux import Tmux

PICTURES = (
    ("overview", "1"),
    ("workers", "i"),
    ("functions", "2"),
    ("waiting", "3"),
    ("failures", "4"),
    ("stream", "7"),
)
COLUMNS, LINES = 112, 30
STARTED_SECONDS, PAST_SECONDS, SETTLED_SECONDS = 20.0, 15.0, 2.0

FONT, BOLD_FONT, FONT_SIZE = "DejaVuSansMono.ttf", "DejaVuSansMono-Bold.ttf", 15
CELL_WIDTH, CELL_HEIGHT, MARGIN = 9, 19, 10
BACKGROUND, FOREGROUND = (22, 24, 29), (216, 218, 223)
BASE = (
    (60, 64, 72),
    (229, 83, 75),
    (87, 187, 138),
    (229, 180, 80),
    (90, 150, 230),
    (200, 120, 200),
    (80, 190, 200),
    (216, 218, 223),
)
"""The first eight colours of a terminal."""

_SEQUENCE = re.compile(r"\x1b\[([\d;]*)m")
_CUBE = (0, 95, 135, 175, 215, 255)

Colour = tuple[int, int, int]


@dataclass(frozen=True)
class Look:
    colour: Colour | None = None
    bold: bool = False
    dim: bool = False
    reverse: bool = False


def take(monitor_address: str, folder: Path) -> None:
    with Tmux(command_line("scaler_top", monitor_address), COLUMNS, LINES) as terminal:
        terminal.wait_for("Throughput", STARTED_SECONDS)
        time.sleep(PAST_SECONDS)  # a stream needs a past
        for name, key in PICTURES:
            terminal.press(key)
            time.sleep(SETTLED_SECONDS)
            painted(terminal.coloured_screen).save(folder / f"top-{name}.png")


def painted(screen: str) -> Image.Image:
    """The picture of a screen with escape sequences."""
    size = (COLUMNS * CELL_WIDTH + 2 * MARGIN, LINES * CELL_HEIGHT + 2 * MARGIN)
    picture = Image.new("RGB", size, BACKGROUND)
    draw = ImageDraw.Draw(picture)
    fonts = [ImageFont.truetype(name, FONT_SIZE) for name in (FONT, BOLD_FONT)]
    for row, line in enumerate(_lines(screen)):
        for column, (character, look) in enumerate(line):
            _paint(draw, fonts, MARGIN + column * CELL_WIDTH, MARGIN + row * CELL_HEIGHT, character, look)
    return picture


def _paint(
    draw: ImageDraw.ImageDraw, fonts: list[ImageFont.FreeTypeFont], x: int, y: int, character: str, look: Look
) -> None:
    ink, paper = look.colour or FOREGROUND, BACKGROUND
    if look.dim:
        ink = _mixed(ink, paper, 0.5)
    if look.reverse:
        ink, paper = paper, ink
    place = (x, y, x + CELL_WIDTH - 1, y + CELL_HEIGHT - 1)
    if look.reverse:
        draw.rectangle(place, fill=paper)
    if character in "█▓▒░":
        draw.rectangle(place, fill=_mixed(ink, paper, (1.0, 0.75, 0.5, 0.25)["█▓▒░".index(character)]))
    else:
        draw.text((x, y), character, fill=ink, font=fonts[look.bold])


def _lines(screen: str) -> Iterator[list[tuple[str, Look]]]:
    """Characters and their looks. A look goes on in the next line; blanks at the end are not in the text."""
    look = Look()
    for text in screen.splitlines():
        cells: list[tuple[str, Look]] = []
        for part in _SEQUENCE.split(text)[::2]:
            cells += [(character, look) for character in part]
            text = text[len(part) :]
            match = _SEQUENCE.match(text)
            if match is not None:
                look = _changed(look, [int(number or 0) for number in match[1].split(";")])
                text = text[match.end() :]
        filler = look if look.reverse else Look()
        yield cells + [(" ", filler)] * (COLUMNS - len(cells))


def _changed(look: Look, codes: list[int]) -> Look:
    """The look after an escape sequence."""
    while codes:
        code = codes.pop(0)
        if code == 0:
            look = Look()
        elif code in (1, 2, 7):
            look = replace(look, **{{1: "bold", 2: "dim", 7: "reverse"}[code]: True})
        elif 30 <= code <= 37:
            look = replace(look, colour=BASE[code - 30])
        elif code == 38 and codes[:1] == [5]:
            look = replace(look, colour=_indexed(codes[1]))
            del codes[:2]
        elif code == 39:
            look = replace(look, colour=None)
    return look


def _indexed(number: int) -> Colour:
    """One of 256 colours."""
    if number < 16:
        return BASE[number % 8]
    if number >= 232:
        return (8 + 10 * (number - 232),) * 3
    number -= 16
    return _CUBE[number // 36], _CUBE[number // 6 % 6], _CUBE[number % 6]


def _mixed(one: Colour, other: Colour, share: float) -> Colour:
    red, green, blue = (round(a * share + b * (1 - share)) for a, b in zip(one, other, strict=True))
    return red, green, blue
