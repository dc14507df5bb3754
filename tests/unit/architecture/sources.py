"""The sources of all distributions, as the architecture tests read them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
SOURCE_FOLDERS = sorted([REPOSITORY / "proto" / "src", *REPOSITORY.glob("packages/*/src")])
_CYTHON_IMPORT = re.compile(
    r"^(?P<indent>[ \t]*)(?:from[ \t]+(?P<from>[\w.]+)[ \t]+c?import|c?import[ \t]+(?P<names>[\w., \t]+))", re.M
)


@dataclass(frozen=True)
class Import:
    module: str
    line: int
    inside_function: bool
    only_types: bool = False  # under ``if TYPE_CHECKING``: nothing is imported when the code runs


@dataclass(frozen=True)
class Source:
    path: Path
    name: str  # such as scaler_protocol/transport/descriptor_set.py
    text: str

    @property
    def distribution(self) -> str:
        """Its import package."""
        return self.name.split("/")[0]

    @property
    def is_core(self) -> bool:
        return "core" in self.name.split("/")[:-1]

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.name)

    def imports(self) -> list[Import]:
        return list(_python_imports(self) if self.path.suffix == ".py" else _cython_imports(self.text))


def sources(*suffixes: str) -> list[Source]:
    found = []
    for folder in SOURCE_FOLDERS:
        for path in sorted(folder.rglob("*")):
            if path.suffix in (suffixes or (".py", ".pyx", ".pxd")):
                found.append(Source(path, path.relative_to(folder).as_posix(), path.read_text(encoding="utf-8")))
    return found


def _python_imports(source: Source) -> Iterator[Import]:
    """In one pass: each node is visited with what its ancestors say of it."""
    waiting: list[tuple[ast.AST, bool, bool]] = [(source.tree, False, False)]
    while waiting:
        node, inside, types = waiting.pop()
        for module in _modules(node, source):
            yield Import(module, getattr(node, "lineno", 0), inside, types)
        inside, types = inside or _is_function(node), types or _is_type_checking(node)
        waiting.extend((child, inside, types) for child in ast.iter_child_nodes(node))


def _modules(node: ast.AST, source: Source) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""] if node.level == 0 else [source.distribution]
    if isinstance(node, ast.Call) and _called(node) in ("import_module", "__import__") and node.args:
        first = node.args[0]
        return [first.value] if isinstance(first, ast.Constant) and isinstance(first.value, str) else []
    return []


def _called(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"


def _is_function(node: ast.AST) -> bool:
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))


def _cython_imports(text: str) -> Iterator[Import]:
    for match in _CYTHON_IMPORT.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        names = [match["from"]] if match["from"] else re.findall(r"[\w.]+", match["names"].split(" as ")[0])
        for name in names:
            yield Import(name, line, bool(match["indent"]))
