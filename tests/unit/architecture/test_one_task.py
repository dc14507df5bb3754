"""Each function that docs/internals/one-task.md names exists, in the file and class that it names."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from tests.support.commands import REPOSITORY

PAGE = (REPOSITORY / "docs" / "internals" / "one-task.md").read_text(encoding="utf-8")
FOLDERS = {
    "client": REPOSITORY / "packages/scaler-client/src/scaler",
    "scheduler": REPOSITORY / "packages/scaler-scheduler/src/scaler_scheduler",
    "worker": REPOSITORY / "packages/scaler-worker/src/scaler_worker",
    "protocol": REPOSITORY / "proto/src/scaler_protocol",
}
[LISTED] = re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PROSE = PAGE.partition("## Functions")[0]
LINE = re.compile(r" *(\d+) (\w+)/([\w/]+\.pyx?): ([\w.]+)")
PYX_CLASS = re.compile(r"^(?:cdef )?class (\w+)")
PYX_FUNCTION = re.compile(r"^( *)(?:def|cdef|cpdef) (?:[^=#]*?[ *])??(\w+)\((?!.*\)\s*=)")


def steps() -> list[tuple[int, str, str, str]]:
    matches = [LINE.fullmatch(line) for line in LISTED.splitlines()]
    return [(int(match[1]), match[2], match[3], match[4]) for match in matches if match is not None]


@cache
def functions_of(folder: str, path: str) -> frozenset[str]:
    file = FOLDERS[folder] / path
    text = file.read_text(encoding="utf-8")
    return frozenset(_compiled_functions(text) if file.suffix == ".pyx" else _functions(ast.parse(text), ""))


def _functions(node: ast.AST, prefix: str) -> list[str]:
    found = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            found += _functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            found.append(prefix + child.name)
    return found


def _compiled_functions(text: str) -> list[str]:
    """Functions at the top and methods of classes at the top."""
    found, prefix = [], ""
    for line in text.splitlines():
        if opened := PYX_CLASS.match(line):
            prefix = f"{opened[1]}."
        elif function := PYX_FUNCTION.match(line):
            prefix = prefix if function[1] else ""
            found.append(prefix + function[2])
    return found


def test_every_line_is_a_step_and_they_are_numbered() -> None:
    assert [step[0] for step in steps()] == list(range(1, len(LISTED.splitlines()) + 1))


def test_the_text_refers_to_every_step() -> None:
    numbers = {int(number) for group in re.findall(r"\(([\d, -]+)\)", PROSE) for number in re.findall(r"\d+", group)}
    spans = re.findall(r"\((\d+)-(\d+)\)", PROSE)
    assert numbers | {n for first, last in spans for n in range(int(first), int(last) + 1)} >= {s[0] for s in steps()}


@pytest.mark.parametrize(("number", "folder", "path", "name"), steps(), ids=lambda value: str(value))
def test_a_named_function_exists(number: int, folder: str, path: str, name: str) -> None:
    assert name in functions_of(folder, path), f"step {number}: {folder}/{path} has no {name}"
