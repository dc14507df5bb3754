"""Colours of the page: texts are readable by the rules of WCAG 2.1, AA, in both themes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import scaler_scheduler.web
from scaler_protocol.monitor.palette import contrast

STYLE = (Path(scaler_scheduler.web.__file__).parent / "static" / "style.css").read_text()
TEXTS = ("text", "muted", "faint", "accent", "good", "warning", "bad")
GROUNDS = ("background", "surface", "raised")
LEAST_CONTRAST = 4.5
GREY_WEIGHTS = 0.2126, 0.7152, 0.0722


def colours(theme: str) -> dict[str, str]:
    """The variables of a theme that are opaque colours."""
    selector = ":root" if theme == "light" else '[data-theme="dark"]'
    block = STYLE.split(f"{selector} {{", 1)[1].split("}", 1)[0]
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))


def mixed(colour: str, ground: str, share: float) -> str:
    parts = [(int(colour[place : place + 2], 16), int(ground[place : place + 2], 16)) for place in (1, 3, 5)]
    return "#" + "".join(f"{round(over * share + under * (1 - share)):02x}" for over, under in parts)


def greyed(colour: str, share: float) -> str:
    """As the filter ``grayscale`` of browsers shows it."""
    parts = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
    grey = sum(weight * part for weight, part in zip(GREY_WEIGHTS, parts, strict=True))
    return "#" + "".join(f"{round(part * (1 - share) + grey * share):02x}" for part in parts)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_is_readable_on_every_ground(theme: str) -> None:
    found = colours(theme)
    poor = {
        (text, ground): round(contrast(found[text], found[ground]), 2)
        for text in TEXTS
        for ground in GROUNDS
        if contrast(found[text], found[ground]) < LEAST_CONTRAST
    }
    assert not poor


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    ("text", "tint"),
    [*((text, "accent-soft") for text in TEXTS), ("text", "bad-soft"), ("bad", "bad-soft"), ("text", "warning-soft")],
)
def test_texts_are_readable_on_their_tints_and_in_selected_rows(theme: str, text: str, tint: str) -> None:
    found = colours(theme)
    selector = ":root" if theme == "light" else '[data-theme="dark"]'
    block = STYLE.split(f"{selector} {{", 1)[1].split("}", 1)[0]
    (colour, alpha) = re.findall(rf"--{tint}: (#[0-9a-f]{{6}})([0-9a-f]{{2}});", block)[0]
    for ground in GROUNDS:
        assert contrast(found[text], mixed(colour, found[ground], int(alpha, 16) / 255)) >= LEAST_CONTRAST


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_names_in_the_boxes_of_a_graph_are_readable(theme: str) -> None:
    found = colours(theme)
    for box in ("accent", "good", "bad", "faint"):
        assert contrast(found["surface"], found[box]) >= LEAST_CONTRAST


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_stay_readable_while_the_page_is_out_of_date(theme: str) -> None:
    (share,) = re.findall(r"^\.stale { filter: grayscale\(([\d.]+)\);", STYLE, re.MULTILINE)
    found = {name: greyed(colour, float(share)) for name, colour in colours(theme).items()}
    assert min(contrast(found[text], found[ground]) for text in TEXTS for ground in GROUNDS) >= LEAST_CONTRAST
