"""docs/architecture.md names each module of a core, so that a reader finds it there."""

from __future__ import annotations

import re

from tests.unit.architecture.sources import REPOSITORY, sources

PAGE = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
DISTRIBUTIONS = ("scaler/", "scaler_scheduler/", "scaler_worker/core/")


def test_the_page_names_each_module_of_a_core() -> None:
    found = {source.path.stem for source in sources(".py", ".pyx") if source.is_core}
    named = {
        source.path.stem
        for source in sources(".py", ".pyx")
        if source.is_core and source.name.startswith(DISTRIBUTIONS) and source.path.stem != "__init__"
    }
    assert len(found) > 100
    assert not sorted(name for name in named if not re.search(rf"\b{name}\b", PAGE))


def test_no_cell_of_its_map_is_a_paragraph() -> None:
    cells = [cell.strip() for line in PAGE.splitlines() if line.startswith("| `") for cell in line.split("|")]
    assert len(cells) > 100
    assert not [cell for cell in cells if len(cell) > 480]
