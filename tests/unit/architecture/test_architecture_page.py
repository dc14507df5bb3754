"""docs/architecture.md names each module of a core, and docs/objects.md each module of the object store."""

from __future__ import annotations

import re

import pytest

from tests.unit.architecture.sources import REPOSITORY, sources

PAGE = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
FOLDERS = {
    folder: REPOSITORY / "packages" / distribution / "src" / folder
    for distribution, folder in (
        ("scaler-client", "scaler"),
        ("scaler-scheduler", "scaler_scheduler"),
        ("scaler-worker", "scaler_worker"),
    )
}
INDEX = PAGE.partition("## Where a behaviour is implemented")[2].partition("\n## ")[0]
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


def test_the_page_of_objects_names_each_of_its_modules() -> None:
    page = (REPOSITORY / "docs" / "objects.md").read_text(encoding="utf-8")
    folder = REPOSITORY / "proto" / "src" / "scaler_protocol" / "objects"
    paths = [path.relative_to(folder) for kind in ("*.py", "*.pyx") for path in folder.rglob(kind)]
    modules = sorted(path.as_posix() for path in paths if path.stem != "__init__")
    assert len(modules) > 40
    assert not [module for module in modules if f"`{module}`" not in page]


def test_no_cell_of_its_map_is_a_paragraph() -> None:
    cells = [cell.strip() for line in PAGE.splitlines() if line.startswith("| `") for cell in line.split("|")]
    assert len(cells) > 100
    assert not [cell for cell in cells if len(cell) > 480]


def named_by_the_index() -> list[tuple[str, str]]:
    """Return the folder of the column and the path of each file that the index of behaviours names."""
    rows = [line.split("|")[2:5] for line in INDEX.splitlines() if line.startswith("| ")][1:]
    return [(folder, path) for row in rows for folder, cell in zip(FOLDERS, row, strict=True) for path in _paths(cell)]


def _paths(cell: str) -> list[str]:
    return re.findall(r"`([\w/]+\.pyx?)`", cell)


@pytest.mark.parametrize(("folder", "path"), named_by_the_index())
def test_a_file_of_the_index_exists(folder: str, path: str) -> None:
    assert (FOLDERS[folder] / path).is_file()


def test_the_index_is_read() -> None:
    assert len(named_by_the_index()) > 30
    below = [path for line in INDEX.splitlines() if not line.startswith("|") for path in _paths(line)]
    assert below and all((REPOSITORY / "proto" / "src" / "scaler_protocol" / path).is_file() for path in below)
