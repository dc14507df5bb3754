"""Classes of cores do not inherit from each other. The scheduler's core consists of tables, one state and rules."""

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

_COMPILED_CLASS = re.compile(r"^(?:cdef )?class (\w+)(?:\(([\w., ]+)\))?:", re.M)


def test_there_is_a_core() -> None:
    assert len(ALL) > 80 and len(RULES) > 30


def test_no_class_of_a_core_inherits_from_one() -> None:
    """Settings share fields, and a protocol may extend a protocol; neither inherits behaviour."""
    cores = [source for source in sources(".py", ".pyx") if source.is_core]
    classes = {name: bases for source in cores for name, bases in _classes(source)}
    values = {
        name for source in cores if source.path.name == "settings.py" for name in _classes_without_methods(source)
    }
    assert len(classes) > 200
    found = {name for name, bases in classes.items() if bases & classes.keys() and "Protocol" not in bases}
    assert not found - values


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


def _classes(source: Source) -> Iterator[tuple[str, set[str]]]:
    if source.path.suffix in (".py", ".pyi"):
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef):
                yield node.name, {ast.unparse(base).split(".")[-1] for base in node.bases}
        return
    for match in _COMPILED_CLASS.finditer(source.text):
        yield match[1], {base.strip().split(".")[-1] for base in (match[2] or "").split(",")}


def _classes_without_methods(source: Source) -> set[str]:
    nodes = [node for node in source.tree.body if isinstance(node, ast.ClassDef)]
    return {node.name for node in nodes if not any(isinstance(each, ast.FunctionDef) for each in node.body)}


def _module(source: Source) -> str:
    return source.path.stem
