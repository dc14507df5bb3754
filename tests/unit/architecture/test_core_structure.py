"""A core consists of tables, one state and rules: its classes do not inherit from each other, and its modules do not
import each other in circles, neither at run time nor for types."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator

import pytest

from scaler_scheduler.core import message_rules
from tests.unit.architecture.sources import Source, sources

CORE = "scaler_scheduler/core/"
ALL = [source for source in sources(".py", ".pyx", ".pxd", ".pyi") if source.name.startswith(CORE)]
RULES = [source for source in ALL if source.path.suffix == ".py" and "state: SchedulerState" in source.text]

ONE_TABLE = {"NodeTable", "TaskTable"}
"""The table of a client's tasks is one class in three files, which build on each other."""

SETTINGS = {"Settings"}
"""It is composed of the options of the command."""

_COMPILED_CLASS = re.compile(r"^(?:cdef )?class (\w+)(?:\(([\w., ]+)\))?:", re.M)
_COMPILED_IMPORT = re.compile(r"^from ([\w.]+) c?import (\([^)]*\)|.*)$", re.M)


def test_there_is_a_core() -> None:
    assert len(ALL) > 80 and len(RULES) > 30


def test_no_class_inherits_from_a_class_of_its_core() -> None:
    classes = {name: bases for source in ALL for name, bases in _classes(source)}
    found = {name for name, bases in classes.items() if bases & classes.keys()}
    assert found <= ONE_TABLE | SETTINGS


@pytest.mark.parametrize("source", RULES, ids=lambda source: source.name)
def test_a_module_of_rules_defines_no_behaviour_in_classes(source: Source) -> None:
    if source.name == CORE + "scheduler.py":
        pytest.skip("the core itself: its methods are the events that the shell reports")
    assert not [name for name, _ in _classes(source) if not name.startswith("_")]


def test_the_hot_path_calls_rules_that_exist() -> None:
    """Its interface to everything else is what it imports: it is compiled, so no type checker sees these calls."""
    text = next(source.text for source in ALL if source.name == CORE + "hot_path.pyx")
    functions = {
        _module(source): {node.name for node in source.tree.body if isinstance(node, ast.FunctionDef)}
        for source in RULES
    }
    calls = [(module, name) for module, name in re.findall(r"\b(\w+)\.(\w+)\(state, ", text)]
    assert len(calls) > 20
    assert not [call for call in calls if call[1] not in functions.get(call[0], ())]


@pytest.mark.parametrize("table", ["CLIENT_RULES", "AGENT_RULES"])
def test_a_rule_takes_the_state_a_peer_a_body_and_the_time(table: str) -> None:
    for rule in getattr(message_rules, table).values():
        names = list(inspect.signature(rule).parameters)
        assert names[0] == "state" and names[2:] == ["body", "now"], rule


def test_no_modules_import_each_other_in_circles() -> None:
    assert not circles(_imports(ALL))


@pytest.mark.parametrize(
    ("imports", "expected"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"a"}}, [["a", "b"]]),
        ({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}, [["b", "c"]]),
    ],
)
def test_the_test_sees_circles(imports: dict[str, set[str]], expected: list[list[str]]) -> None:
    assert circles(imports) == expected


def circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Modules that reach each other, each circle sorted."""
    reached = {name: _reachable(name, imports) for name in imports}
    groups = {tuple(sorted(other for other in reached[name] if name in reached[other])) for name in imports}
    return sorted(list(group) for group in groups if len(group) > 1)


def _reachable(start: str, imports: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for each in imports.get(waiting.pop(), ()):
            if each not in found:
                found.add(each)
                waiting.append(each)
    return found


def _classes(source: Source) -> Iterator[tuple[str, set[str]]]:
    if source.path.suffix in (".py", ".pyi"):
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef):
                yield node.name, {ast.unparse(base).split(".")[-1] for base in node.bases}
        return
    for match in _COMPILED_CLASS.finditer(source.text):
        yield match[1], {base.strip().split(".")[-1] for base in (match[2] or "").split(",")}


def _functions(source: Source) -> set[str]:
    return {node.name for node in source.tree.body if isinstance(node, ast.FunctionDef)}


def _imports(found: list[Source]) -> dict[str, set[str]]:
    """By module: the other modules of the core that it imports or cimports, its stub and declarations included."""
    imports: dict[str, set[str]] = {_module(source): set() for source in found}
    for source in found:
        names = {
            part for name in _imported(source) for part in name.removeprefix("scaler_scheduler.core.").split(".")[:1]
        }
        imports[_module(source)] |= (names & imports.keys()) - {_module(source)}
    return imports


def _imported(source: Source) -> Iterator[str]:
    if source.path.suffix in (".py", ".pyi"):
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
        return
    for match in _COMPILED_IMPORT.finditer(source.text):
        yield from (f"{match[1]}.{name.strip()}" for name in match[2].strip("()").split(","))


def _module(source: Source) -> str:
    return source.path.stem
