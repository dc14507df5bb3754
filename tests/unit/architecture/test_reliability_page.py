"""Each failure that docs/reliability.md describes names a test that exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

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


def test_each_row_names_a_test() -> None:
    assert not [row for row in rows() if not NAME.search(row.rsplit("|", 2)[1])]


def test_a_named_test_exists() -> None:
    named = sorted(set(NAME.findall(PAGE)))
    assert not [path for path, _ in named if not (TESTS / path).is_file()]
    assert not [f"{path} has no {name}" for path, name in named if name not in functions_of(path)]
