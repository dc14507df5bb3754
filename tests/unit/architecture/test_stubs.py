"""Each .pyi agrees with the compiled module that it describes: names, and names and order of arguments."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path
from types import ModuleType

from tests.unit.architecture.sources import SOURCE_FOLDERS

STUBS = sorted(path for folder in SOURCE_FOLDERS for path in folder.rglob("*.pyi"))
Function = ast.FunctionDef | ast.AsyncFunctionDef


def test_there_are_stubs() -> None:
    assert len(STUBS) > 40


def test_a_stub_describes_a_compiled_module() -> None:
    assert not [stub for stub in STUBS if not stub.with_suffix(".pyx").exists()]


def test_what_a_stub_names_is_there() -> None:
    found = [line for stub in STUBS for line in _missing(stub)]
    assert not found, f"Correct the .pyi, or build the compiled modules again: {found}"


def test_public_methods_are_in_the_stub() -> None:
    """The public methods of described classes. A function without a description cannot be imported: mypy sees that."""
    found = [line for stub in STUBS for line in _undescribed(stub)]
    assert not found, f"Add these methods to the .pyi, or begin their names with an underscore: {found}"


def test_arguments_have_the_same_names() -> None:
    found = [line for stub in STUBS for line in _other_arguments(stub)]
    assert not found, f"Give the arguments of the .pyi the names and the order of the .pyx: {found}"


def _missing(stub: Path) -> list[str]:
    module = _module(stub)
    missing = [name for name in _names(_tree(stub).body) if not hasattr(module, name)]
    found = [f"{stub.name}: {name} is not in the module" for name in missing]
    for described in _classes(stub):
        there = getattr(module, described.name, None)
        found += [
            f"{stub.name}: {described.name}.{name} is not in the class"
            for name in _names(described.body)
            if there is not None and name != "__buffer__" and not hasattr(there, name)  # Python 3.12 shows it
        ]
    return found


def _undescribed(stub: Path) -> list[str]:
    described = _methods_with_inherited(stub)
    return [
        f"{stub.name}: {owner}.{name} is not described"
        for owner, name in _compiled_arguments(stub)
        if owner in described and not name.startswith("_") and name not in described[owner]
    ]


def _other_arguments(stub: Path) -> list[str]:
    compiled = _compiled_arguments(stub)
    found = []
    for owner, function in _functions(stub):
        there = compiled.get((owner, function.name))
        described = _stub_arguments(function, bool(owner))
        if there is not None and there != described:
            found.append(f"{stub.name}: {owner}.{function.name} takes {there}, not {described}")
    return found


def test_the_test_reads_compiled_functions() -> None:
    text = """
cdef class A(B):
    def __init__(self, bytes name not None, int64_t size=0, *, other: int = (1, 2)[0]):
        pass

    cpdef tuple take(self, dict[str, int] found, double* at, const uint8_t[::1] data):
        cdef int x
    cdef hidden(self, a): pass

    @staticmethod
    def make(x):
        return f(x)

cpdef bint free(first, A second=None) except -1:
    pass
"""
    assert arguments_of(text) == {
        ("A", "__init__"): ["name", "size", "*", "other"],
        ("A", "take"): ["found", "at", "data"],
        ("A", "make"): ["x"],
        ("", "free"): ["first", "second"],
    }


_DEFINITION = re.compile(
    r"^(?P<indent>[ ]*)(?:(?:async )?def|cpdef)[ ]+(?P<before>[^(=\n]*?)(?P<name>\w+)\(", re.MULTILINE
)
_CLASS = re.compile(r"^(?:cdef )?(?:final )?class (?P<name>\w+)", re.MULTILINE)


def arguments_of(text: str) -> dict[tuple[str, str], list[str]]:
    """The arguments of what Python can call in a .pyx: by class ("" for none) and name, without self."""
    owners = [(match.start(), match["name"]) for match in _CLASS.finditer(text)]
    found = {}
    for match in _DEFINITION.finditer(text):
        if len(match["indent"]) > 4:
            continue
        owner = [name for start, name in owners if start < match.start()][-1] if match["indent"] else ""
        arguments = [_argument_name(each) for each in _split(text, match.end())]
        found[owner, match["name"]] = [each for each in arguments if each not in ("self", "cls", "")]
    return found


def _split(text: str, start: int) -> list[str]:
    """The arguments up to the parenthesis that closes the list."""
    depth, begin, found = 0, start, []
    for at in range(start, len(text)):
        letter = text[at]
        if letter == "," and depth == 0 or letter == ")" and depth == 0:
            found.append(text[begin:at])
            begin = at + 1
            if letter == ")":
                return found
        depth += (letter in "([{") - (letter in ")]}")
    return found


def _argument_name(text: str) -> str:
    """``const uint8_t[::1] data=None`` is called data."""
    text = re.split(r"=", text, maxsplit=1)[0]
    text = re.split(r":(?![:\d])(?=[^\]]*$)", text, maxsplit=1)[0]
    text = re.sub(r"\bnot None\b|\bor None\b", "", text).strip()
    if text in ("*", "/"):
        return text
    stars = text[: len(text) - len(text.lstrip("*"))]
    words = re.findall(r"\w+", text)
    return stars + words[-1] if words else ""


def _stub_arguments(function: Function, is_method: bool) -> list[str]:
    arguments = function.args
    names = [each.arg for each in arguments.posonlyargs]
    names += ["/"] if names else []
    names += [each.arg for each in arguments.args]
    is_static = any(getattr(each, "id", "") == "staticmethod" for each in function.decorator_list)
    if is_method and not is_static:
        names = names[1:] if names[1:2] != ["/"] else names[2:]
    if arguments.vararg is not None:
        names.append("*" + arguments.vararg.arg)
    elif arguments.kwonlyargs:
        names.append("*")
    names += [each.arg for each in arguments.kwonlyargs]
    return names + (["**" + arguments.kwarg.arg] if arguments.kwarg is not None else [])


def _compiled_arguments(stub: Path) -> dict[tuple[str, str], list[str]]:
    return arguments_of(stub.with_suffix(".pyx").read_text(encoding="utf-8"))


def _functions(stub: Path) -> list[tuple[str, Function]]:
    bodies = [("", _tree(stub).body), *((each.name, each.body) for each in _classes(stub))]
    return [(owner, node) for owner, body in bodies for node in body if isinstance(node, Function)]


def _classes(stub: Path) -> list[ast.ClassDef]:
    return [node for node in _tree(stub).body if isinstance(node, ast.ClassDef)]


def _methods_with_inherited(stub: Path) -> dict[str, set[str]]:
    """What is described of each class, there or in its bases of the same stub."""
    described: dict[str, set[str]] = {}
    for each in _classes(stub):
        bases = [described.get(getattr(base, "id", ""), set()) for base in each.bases]
        described[each.name] = set(_names(each.body)).union(*bases)
    return described


def _names(body: list[ast.stmt]) -> list[str]:
    """What is defined there and can be looked up: type aliases are for type checkers only."""
    found = []
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.append(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.append(node.target.id)
    return found


def _tree(stub: Path) -> ast.Module:
    return ast.parse(stub.read_text(encoding="utf-8"))


def _module(stub: Path) -> ModuleType:
    folder = next(each for each in SOURCE_FOLDERS if stub.is_relative_to(each))
    return importlib.import_module(".".join(stub.relative_to(folder).with_suffix("").parts))
