"""No module imports itself by way of others: not when it runs, not inside functions, and not for its types."""

from __future__ import annotations

import ast

import pytest

from tests.unit.architecture.sources import Source, sources

WITHOUT_CYCLES = {"scaler"}
"""The distributions, by import package, whose modules must form no cycle."""


@pytest.mark.parametrize("distribution", sorted(WITHOUT_CYCLES))
def test_no_module_imports_itself_by_way_of_others(distribution: str) -> None:
    modules = {module_name(each): each for each in sources(".py") if each.distribution == distribution}
    assert len(modules) > 10
    edges = {name: imported_modules(source, set(modules)) for name, source in modules.items()}
    assert cycles(edges) == []


def test_the_test_finds_cycles() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set(), "e": {"e"}}) == [["a", "b", "c"], ["e"]]
    assert cycles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def module_name(source: Source) -> str:
    return source.name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imported_modules(source: Source, known: set[str]) -> set[str]:
    """The modules of ``known`` that a source names in an import of any kind."""
    found = {each.module for each in source.imports()}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found & known


def cycles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that reach one another, and modules that import themselves."""
    reached = {name: _reachable(name, edges) for name in edges}
    groups = {
        tuple(sorted(other for other in reached[name] if name in reached[other]))
        for name in edges
        if name in reached[name]
    }
    return [list(group) for group in sorted(groups)]


def _reachable(start: str, edges: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = list(edges[start])
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(edges[name])
    return found
