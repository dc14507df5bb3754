"""Cores are deterministic: no clock, no sockets, no chance, and no order that differs from run to run."""

from __future__ import annotations

import ast
import functools
import re

import pytest

from tests.unit.architecture.reach import c_headers, imported, modules, path_to, reached
from tests.unit.architecture.sources import Import, Source, sources

FORBIDDEN = {
    "asyncio", "capnp", "concurrent", "datetime", "ipaddress", "logging", "mmap", "multiprocessing", "os", "pathlib",
    "psutil", "queue", "random", "secrets", "select", "selectors", "signal", "socket", "socketserver", "subprocess",
    "tempfile", "threading", "time", "uuid", "uvloop", "zmq",
}  # fmt: skip
CORES = [source for source in sources() if source.is_core]
CORE_MODULES = sorted(name for name, found in modules().items() if found[0].is_core)

MAY_REACH = {
    "scaler_protocol.address": {"ipaddress"},  # parses addresses, and asks no network
    "scaler_protocol.handshake": {"ipaddress", "os", "socket"},  # for ``make_hello``
    "scaler_protocol.ids": {"os"},  # for ``new_session``
    "scaler_protocol.keys": {"datetime", "os", "pathlib", "threading", "time"},  # reads the files of keys for shells
    "scaler_protocol.layout": {"pathlib"},  # reads the schema once, when it is imported
    "scaler_protocol.monitor.format": {"time"},  # shows times on screens
    "scaler_protocol.private_file": {"os", "pathlib", "secrets"},  # for ``keys``
}
"""What modules outside of the cores may import although cores import them: no function that a core calls uses it."""

FOR_SHELLS = re.compile(r"\b(new_session|make_hello)\b")
"""Functions of these modules that do use it."""

C_HEADERS = {"stddef.h", "stdint.h", "string.h"}
"""The only headers of C that a compiled core, or what it imports, may include."""


@functools.cache
def imports_of_cores() -> list[tuple[Source, Import]]:
    """Not while tests are collected: each process that runs tests would parse all cores."""
    return [(source, each) for source in CORES for each in source.imports()]


def test_there_are_cores() -> None:
    assert {source.distribution for source in CORES} == {
        "scaler",
        "scaler_protocol",
        "scaler_scheduler",
        "scaler_worker",
    }


def test_a_core_imports_nothing_of_the_world() -> None:
    found = [_place(source, each) for source, each in imports_of_cores() if _top(each.module) in FORBIDDEN]
    assert not found, f"Leave this to the shell, and pass what the core needs as an argument: {found}"


def test_a_core_reaches_nothing_of_the_world_through_other_modules() -> None:
    assert not [
        f"{each} <- {path_to(reached(name), importer)}"
        for name in CORE_MODULES
        for each, importer in _imports_beyond(name)
        if _top(each) not in MAY_REACH.get(importer, ())
    ]


def test_a_core_reaches_no_header_of_the_system() -> None:
    found = [
        path_to(importers, each)
        for importers in map(reached, CORE_MODULES)
        for each in importers
        if c_headers(each) - C_HEADERS
    ]
    assert not found


def test_a_core_calls_nothing_that_is_for_shells() -> None:
    assert not [source.name for source in CORES if FOR_SHELLS.search(source.text)]


def test_nothing_is_allowed_in_vain() -> None:
    pairs = {(importer, _top(each)) for name in CORE_MODULES for each, importer in _imports_beyond(name)}
    assert pairs == {(importer, each) for importer, allowed in MAY_REACH.items() for each in allowed}


def test_the_test_follows_imports() -> None:
    assert reached("scaler_worker.core.agent")["scaler_protocol.ids"] == "scaler_worker.core.packages"
    assert path_to(reached("scaler_worker.core.hot_path"), "scaler_worker.board").endswith(
        " <- scaler_worker.core.hot_path"
    )


def test_a_core_does_not_reach_into_a_shell() -> None:
    shells = {"shell", "transport", "command", "worker_process", "cli"}
    assert not [
        _place(source, each)
        for source, each in imports_of_cores()
        if set(each.module.split(".")) & shells and ".core" not in each.module
    ]


def test_a_core_iterates_no_set() -> None:
    python = [source for source in CORES if source.path.suffix == ".py"]
    found = [f"{source.name}:{line}" for source in python for line in set_iterations(source.tree)]
    assert python and not found, f"Sort the set first, or use a dict: the order differs from run to run: {found}"


@pytest.mark.parametrize(
    "text",
    [
        "for x in {1, 2}: pass",
        "a = set()\nfor x in a: pass",
        "def f(a: set[int]): return [x for x in a]",
        "class A:\n def __init__(self): self.a: set[int] = set()\n def f(self): return list(self.a)",
        "a: frozenset[int]\nfor x in a | {1}: pass",
        "a = set()\na.pop()",
    ],
)
def test_the_test_sees_set_iterations(text: str) -> None:
    assert set_iterations(ast.parse(text))


@pytest.mark.parametrize(
    "text", ["a = set()\nfor x in sorted(a): pass", "a = {}\nfor x in a: pass", "a = set()\nif 1 in a: len(a)"]
)
def test_the_test_allows_the_rest(text: str) -> None:
    assert not set_iterations(ast.parse(text))


def set_iterations(tree: ast.Module) -> list[int]:
    """Lines where a set, or a name or attribute that this module makes a set, is iterated."""
    names = _set_names(tree)
    iterated = [each for node in ast.walk(tree) for each in _iterated(node)]
    return sorted(each.lineno for each in iterated if _is_set(each, names))


def _place(source: Source, each: Import) -> str:
    return f"{source.name}:{each.line} {each.module}"


def _imports_beyond(name: str) -> list[tuple[str, str]]:
    """Forbidden modules and the modules that import them, of all that is reached."""
    pairs = [(each, importer) for importer in reached(name) for each in imported(importer)]
    return [(each, importer) for each, importer in pairs if _top(each) in FORBIDDEN]


def _top(module: str) -> str:
    return module.split(".")[0]


def _set_names(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and _is_set_annotation(node.annotation):
            names.add(_name(node.target))
        elif isinstance(node, ast.arg) and node.annotation is not None and _is_set_annotation(node.annotation):
            names.add(node.arg)
        elif isinstance(node, ast.Assign) and _is_set(node.value, names):
            names.update(_name(target) for target in node.targets)
    return names - {""}


def _is_set_annotation(annotation: ast.expr) -> bool:
    base = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    return _name(base) in ("set", "frozenset", "Set", "AbstractSet", "MutableSet")


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _is_set(node: ast.AST, names: set[str]) -> bool:
    if isinstance(node, (ast.Set, ast.SetComp)):
        return True
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in ("set", "frozenset")
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitOr, ast.BitAnd, ast.Sub)):
        return _is_set(node.left, names) or _is_set(node.right, names)
    return _name(node) in names


def _iterated(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, (ast.For, ast.comprehension)):
        return [node.iter]
    if isinstance(node, ast.Call):
        return _iterated_by_call(node)
    return []


def _iterated_by_call(call: ast.Call) -> list[ast.expr]:
    function = call.func
    if isinstance(function, ast.Attribute) and function.attr == "pop" and not call.args:
        return [function.value]
    if isinstance(function, ast.Name) and function.id in ("list", "tuple", "iter", "enumerate", "map", "zip", "next"):
        return list(call.args)
    return []
