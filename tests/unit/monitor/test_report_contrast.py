"""Colours of the report of ``scaler_top --report``: readable by the rules of WCAG 2.1, AA, on both grounds."""

from __future__ import annotations

import re

import pytest

from scaler_protocol.monitor.palette import contrast
from scaler_scheduler.top.report import STYLE
from scaler_scheduler.top.report_pictures import LINE_COLOURS

LEAST_OF_TEXT = 4.5
LEAST_OF_LINES = 3.0
THEMES = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block)) for block in STYLE.split("@media")[:2]]


@pytest.mark.parametrize("colours", THEMES, ids=("light", "dark"))
def test_texts_and_lines_of_charts_are_readable(colours: dict[str, str]) -> None:
    ground = colours["ground"]
    assert min(contrast(colours[text], ground) for text in ("text", "muted")) >= LEAST_OF_TEXT
    assert min(contrast(line, ground) for line in LINE_COLOURS) >= LEAST_OF_LINES
