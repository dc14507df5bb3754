"""Each failure that docs/reliability.md describes names a test that exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
PAGE = (TESTS.parent / "docs" / "reliability.md").read_text(encoding="utf-8")
NAME = re.compile(r"`([\w/]+\.py)::(\w+)`")


@cache
def functions_of(path: str) -> frozenset[str]:
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def rows() -> list[str]:
    """Without headings and rulers."""
    lines = [line for line in PAGE.splitlines() if line.startswith("|")]
    return [line for line in lines if not line.startswith("|---") and not line.endswith("| Test |")]


def test_there_are_rows() -> None:
    assert len(rows()) > 40


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[2:50])
def test_each_row_names_a_test(row: str) -> None:
    assert NAME.search(row.rsplit("|", 2)[1])


@pytest.mark.parametrize(("path", "name"), sorted(set(NAME.findall(PAGE))))
def test_a_named_test_exists(path: str, name: str) -> None:
    assert (TESTS / path).is_file(), path
    assert name in functions_of(path), f"{path} has no {name}"
