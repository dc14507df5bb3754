"""The files that tests/README.md names exist, and it mentions each folder that contains tests."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[2]
PAGE = (TESTS / "README.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([\w/]+(?:\.py)?)`", PAGE)))
FOLDERS = sorted({file.parent.relative_to(TESTS).as_posix() for file in TESTS.rglob("test_*.py")})


def test_a_named_file_exists() -> None:
    assert not [name for name in NAMED if name.endswith(".py") and not (TESTS / name).is_file()]


def test_each_folder_is_mentioned() -> None:
    assert set(FOLDERS) <= set(NAMED)


def test_the_files_of_a_behaviour_are_test_files() -> None:
    table = PAGE.partition("## Where a behaviour is tested")[2].partition("\n## ")[0]
    assert all("/test_" in path for path in re.findall(r"`([\w/]+\.py)`", table))
