"""Each class name has one definition, and functions are short."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from tests.unit.architecture.sources import REPOSITORY, SOURCE_FOLDERS

LINES_LIMIT = 60

FOLDERS = [*SOURCE_FOLDERS, REPOSITORY / "benchmarks", REPOSITORY / "fuzz", REPOSITORY / "scripts"]

FILES = sorted(
    path for folder in FOLDERS for path in folder.rglob("*") if path.suffix in (".py", ".pyx") and path.is_file()
)

_COMPILED_CLASS = re.compile(r"^[ ]*(?:cdef |cpdef )?class (\w+)", re.M)
_COMPILED_FUNCTION = re.compile(r"^(?P<indent> *)(?:async def|def|cpdef|cdef(?! class))\s[^=\n]*?\b(?P<name>\w+)\(")


def test_each_class_name_has_one_definition() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path in FILES:
        for name in class_names(path.read_text(encoding="utf-8"), path.suffix):
            homes[name].append(path.relative_to(REPOSITORY).as_posix())
    assert len(homes) > 500
    repeated = {name: files for name, files in homes.items() if len(files) > 1}
    assert not repeated, f"Give each class a name of its own: {repeated}"


def test_no_function_is_too_long() -> None:
    found = [(path, *each) for path in FILES for each in functions(path.read_text(encoding="utf-8"), path.suffix)]
    assert len(found) > 5000
    long = [
        f"{path.relative_to(REPOSITORY)}: {name} has {count} lines"
        for path, name, count in found
        if count > LINES_LIMIT
    ]
    assert not long, f"Split functions of more than {LINES_LIMIT} lines: {long}"


def class_names(text: str, suffix: str) -> list[str]:
    if suffix == ".py":
        return [node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)]
    return _COMPILED_CLASS.findall(text)


def functions(text: str, suffix: str) -> Iterator[tuple[str, int]]:
    """The name of each function, and its number of lines without decorators."""
    if suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1
        return
    lines = text.splitlines()
    for start, line in enumerate(lines):
        match = _COMPILED_FUNCTION.match(line)
        if match:
            yield match["name"], _length(lines[start:], len(match["indent"]))


def _length(lines: list[str], indent: int) -> int:
    """``lines`` begin with a definition: how many of them belong to it, without blank lines and comments at the end."""
    last = 0
    for number, line in enumerate(lines[1:], 1):
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        if len(line) - len(line.lstrip()) <= indent and not bare.startswith(")"):
            break
        last = number
    return last + 1


def test_the_test_reads_compiled_code() -> None:
    method = "    cdef inline int f(self, int a,\n            b) except -1:\n        return 1\n"
    text = f"cdef class A:\n{method}\n    # x\n\nclass B:\n"
    assert class_names(text, ".pyx") == ["A", "B"]
    assert list(functions(text, ".pyx")) == [("f", 3)]
    assert list(functions("def g(\n    a,\n):\n    pass\n\ncdef object h = g(1)\n", ".pyx")) == [("g", 4)]


def test_decorators_do_not_count() -> None:
    assert list(functions("@a\n@b\ndef f():\n    pass\n", ".py")) == [("f", 2)]
