"""What a module reaches: the modules that it imports, directly or through other modules of this repository.

The ``__init__`` of a package is followed only when it is imported by name: it runs with every module of the package,
but gives the module nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from tests.unit.architecture.sources import Source, sources

_CYTHON_FROM = re.compile(r"^from[ \t]+([\w.]+)[ \t]+c?import[ \t]+(\([^)]*\)|[^\n]+)", re.M)
_C_HEADER = re.compile(r"#include\s*<([\w./]+)>|cdef extern from\s*[\"']<?([\w./]+)>?[\"']")


@cache
def modules() -> dict[str, list[Source]]:
    """All sources by the name of their module: a compiled module has a .pyx and may have a .pxd."""
    found: dict[str, list[Source]] = {}
    for source in sources():
        name = source.name.rsplit(".", 1)[0].replace("/", ".").removesuffix(".__init__")
        found.setdefault(name, []).append(source)
    return found


@cache
def imported(name: str) -> tuple[str, ...]:
    """The names that are imported when this module is, in modules of this repository as precisely as they are known."""
    found: dict[str, bool] = {}
    for source in modules().get(name, []):
        for each in _python_names(source) if source.path.suffix == ".py" else _cython_names(source):
            found[each] = True
    return tuple(found)


def reached(name: str) -> dict[str, str]:
    """Every module that is imported with ``name``, and a module that imports it: ``name`` imports itself."""
    importers = {name: name}
    waiting = [name]
    while waiting:
        importer = waiting.pop()
        for each in imported(importer):
            if each not in importers:
                importers[each] = importer
                if each in modules():
                    waiting.append(each)
    return importers


def path_to(importers: dict[str, str], name: str) -> str:
    """How ``name`` is reached."""
    steps = [name]
    while importers[steps[-1]] != steps[-1]:
        steps.append(importers[steps[-1]])
    return " <- ".join(steps)


def c_headers(name: str) -> set[str]:
    """The headers of C that a compiled module includes."""
    texts = [source.text for source in modules().get(name, []) if source.path.suffix != ".py"]
    return {header for text in texts for pair in _C_HEADER.findall(text) for header in pair if header}


def _python_names(source: Source) -> Iterator[str]:
    tree = source.tree
    types = {id(node) for outer in ast.walk(tree) if _is_type_checking(outer) for node in ast.walk(outer)}
    for node in ast.walk(tree):
        if id(node) in types:
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield from _from(node.module, [alias.name for alias in node.names])


def _cython_names(source: Source) -> Iterator[str]:
    for match in _CYTHON_FROM.finditer(source.text):
        yield from _from(match[1], re.findall(r"\w+", match[2].split("#")[0]))
    for each in source.imports():
        yield each.module


def _from(module: str, names: list[str]) -> Iterator[str]:
    yield module
    for name in names:
        if f"{module}.{name}" in modules():
            yield f"{module}.{name}"


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
