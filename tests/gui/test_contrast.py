"""Colours of the window: texts are readable by the rules of WCAG 2.1, AA, in both themes."""

from __future__ import annotations

import pytest

from scaler_gui.theme import DARK, LIGHT, Theme
from scaler_gui.views.stream_drawing import OPEN_ALPHA
from scaler_protocol.monitor.palette import FUNCTION_COLOURS, contrast
from tests.unit.web.test_contrast import LEAST_CONTRAST, mixed

GROUNDS = ("window", "surface", "raised")
THEMES = pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda each: each.name)


def poor(texts: dict[str, str], grounds: dict[str, str]) -> dict[tuple[str, str], float]:
    """The pairs that are hard to read, with their contrasts."""
    pairs = {(text, ground): contrast(texts[text], grounds[ground]) for text in texts for ground in grounds}
    return {pair: round(found, 2) for pair, found in pairs.items() if found < LEAST_CONTRAST}


def named(theme: Theme, *names: str) -> dict[str, str]:
    return {name: getattr(theme, name) for name in names}


@THEMES
def test_every_text_is_readable_on_every_ground(theme: Theme) -> None:
    texts = named(theme, "text", "muted", "accent", "good", "warning", "bad")
    assert poor(texts, named(theme, *GROUNDS)) == {}


@THEMES
def test_selected_and_inverted_texts_are_readable(theme: Theme) -> None:
    assert poor(named(theme, "text", "accent"), named(theme, "selection")) == {}
    assert poor(named(theme, "on_accent"), named(theme, "accent")) == {}
    assert poor(named(theme, "surface"), named(theme, "warning")) == {}  # the banner


@THEMES
def test_names_of_lines_in_charts_are_readable(theme: Theme) -> None:
    assert poor(dict(zip(theme.series, theme.series, strict=True)), named(theme, "surface")) == {}


@THEMES
def test_names_in_bars_of_running_tasks_are_readable(theme: Theme) -> None:
    grounds = {colour: mixed(colour, theme.surface, OPEN_ALPHA) for colour in FUNCTION_COLOURS}
    assert poor(named(theme, "text"), grounds) == {}
