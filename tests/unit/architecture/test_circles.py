"""No modules import or cimport one another in a circle: not when they run, not inside functions, and not for types."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.unit.architecture.sources import Source, sources


def test_no_module_is_in_a_circle() -> None:
    imports = imports_between(sources())
    assert len(imports) > 500
    found = circles(imports)
    assert not found, f"Move what both need into a module of its own, or pass it as an argument: {found}"


@pytest.mark.parametrize(
    ("imports", "expected"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"a"}}, [["a", "b"]]),
        ({"a": {"b"}, "b": {"c"}, "c": {"b"}}, [["b", "c"]]),
        ({"a": {"a"}}, []),
    ],
)
def test_the_test_finds_circles(imports: dict[str, set[str]], expected: list[list[str]]) -> None:
    assert circles(imports) == expected


def imports_between(found: list[Source]) -> dict[str, set[str]]:
    """What each module imports or cimports, for types too; a .pyx and its .pxd are one module."""
    imports: dict[str, set[str]] = {}
    for source in found:
        modules = imports.setdefault(_module(source), set())
        modules.update(each.module for each in source.imports())
        modules.update(_imported_from_packages(source))
    return imports


def circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """The groups of modules that each reach all others of their group."""
    reached = {module: _reached_from(module, imports) for module in imports}
    groups = {tuple(sorted(each for each in reached[module] if module in reached[each])) for module in imports}
    return sorted(list(group) for group in groups if len(group) > 1)


def _reached_from(module: str, imports: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    ahead = [module]
    while ahead:
        new = imports.get(ahead.pop(), set()) - found
        found |= new & imports.keys()
        ahead += sorted(new & imports.keys())
    return found


def _module(source: Source) -> str:
    return source.name.rsplit(".", 1)[0].replace("/", ".")


def _imported_from_packages(source: Source) -> Iterator[str]:
    """``from package import module``: the names of what may be modules."""
    if source.path.suffix != ".py":
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
