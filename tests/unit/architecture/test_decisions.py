"""The records of design decisions are numbered, and their page lists each of them."""

from __future__ import annotations

import re

from tests.unit.architecture.sources import REPOSITORY

FOLDER = REPOSITORY / "docs" / "internals" / "decisions"
LISTED = re.findall(r"^(\d+)\. \[.+\]\((.+)\)$", (FOLDER / "README.md").read_text(encoding="utf-8"), re.M)
RECORDS = sorted(path.name for path in FOLDER.glob("0*.md"))


def test_the_page_lists_each_record_in_order() -> None:
    assert [name for _, name in LISTED] == RECORDS


def test_numbers_increase() -> None:
    numbers = [int(number) for number, _ in LISTED]
    assert numbers == sorted(set(numbers)) == [int(name[:4]) for name in RECORDS]


def test_a_record_begins_with_its_number() -> None:
    for name in RECORDS:
        assert (FOLDER / name).read_text(encoding="utf-8").startswith(f"# {int(name[:4])}. "), name
