"""Ctrl-C in a loop reaches the handlers around the loop.

The jump back to the head of a loop is a place where Python calls signal handlers. Python 3.12 and 3.13 forget that this
jump is inside a ``try`` or ``with`` if it depends on a condition: the loop is a ``while`` with a condition, it ends
with an ``if``, or it is a comprehension with an ``if``. An exception that a signal handler raises there leaves the
function without its ``finally``, and a lock stays locked (https://github.com/python/cpython/issues/130279). Such a loop
must be in a function of its own, which the ``try`` or ``with`` calls. This holds for all code: a function that only a
thread calls today may be called by a command tomorrow.

Comprehensions are also looked for in the sources: Python 3.11 makes a function of each, so its code does not show them.
"""

from __future__ import annotations

import ast
import dis
import sys
from collections.abc import Iterator, Sequence
from types import CodeType

import pytest

from tests.unit.architecture.sources import sources

EVERYTHING = {"BaseException", "KeyboardInterrupt"}
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.GeneratorExp)
NAMES = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR", "LOAD_FAST", "LOAD_DEREF", "BUILD_TUPLE"}


def code_objects(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from code_objects(each)


def handles_interruptions(handler: Sequence[dis.Instruction]) -> bool:
    """Whether the handler that begins with these instructions is a ``finally``, the end of a ``with``, or an ``except``
    for interruptions: not an ``except`` for others, nor what Python adds to comprehensions."""
    names = []
    if handler[0].opname != "PUSH_EXC_INFO":
        return False
    for instruction in handler[1:]:
        if instruction.opname == "CHECK_EXC_MATCH":
            return not EVERYTHING.isdisjoint(names)
        if instruction.opname not in NAMES:
            return True
        names.append(instruction.argval)
    return True


def unprotected_lines(code: CodeType) -> Iterator[int | None]:
    """The lines of jumps to the head of a loop that are not inside the ``try`` or ``with`` in which the head is."""
    table = dis._parse_exception_table(code)  # type: ignore[attr-defined]
    instructions = list(dis.get_instructions(code))
    places = {instruction.offset: place for place, instruction in enumerate(instructions)}

    def handler_of(offset: int) -> int | None:
        for entry in table:
            if entry.start <= offset < entry.end:
                if handles_interruptions(instructions[places[entry.target] :]):
                    return int(entry.target)
                return handler_of(entry.target)
        return None

    previous = ""
    for instruction in instructions:
        if instruction.opname == "JUMP_BACKWARD" and previous != "CLEANUP_THROW":  # the end of an ``await``
            handler = handler_of(instruction.argval)
            if handler is not None and handler != handler_of(instruction.offset):
                yield instruction.positions.lineno if instruction.positions else None
        previous = instruction.opname


def is_for_everything(handler: ast.ExceptHandler) -> bool:
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return handler.type is None or any(isinstance(each, ast.Name) and each.id in EVERYTHING for each in caught)


def handles_interruptions_of(node: ast.AST, field: str) -> bool:
    """Whether an exception in this field of the node leads to a handler of the node."""
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return field == "body"
    if isinstance(node, ast.Try):
        is_handled = field == "body" and any(is_for_everything(each) for each in node.handlers)
        return is_handled or (bool(node.finalbody) and field != "finalbody")
    return False


def unprotected_comprehensions(node: ast.AST, is_handled: bool = False) -> Iterator[int]:
    """The lines of comprehensions with an ``if`` that are inside a ``try`` or ``with`` of their function."""
    if isinstance(node, COMPREHENSIONS) and is_handled and any(each.ifs for each in node.generators):
        yield node.lineno
    is_handled = is_handled and not isinstance(node, FUNCTIONS)
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from unprotected_comprehensions(child, is_handled or handles_interruptions_of(node, field))


def in_try(items: list[int]) -> None:
    try:
        while items:
            items.pop()
    finally:
        items.append(1)


def in_function(items: list[int]) -> None:
    try:
        take_all(items)
    finally:
        items.append(1)


def take_all(items: list[int]) -> None:
    while items:
        items.pop()


@pytest.mark.skipif(sys.version_info[:2] not in ((3, 12), (3, 13)), reason="other Pythons do not have the defect")
def test_an_unprotected_loop_is_found() -> None:
    assert list(unprotected_lines(in_try.__code__)) == [in_try.__code__.co_firstlineno + 2]
    assert not list(unprotected_lines(in_function.__code__))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("with lock:\n [x for x in y if x]", [2]),
        ("with lock:\n use({x for x in y if x})", [2]),
        ("try:\n pass\nexcept OSError:\n {x: 1 for x in y if x}\nfinally:\n pass", [4]),
        ("try:\n [x for x in y if x]\nexcept (OSError, KeyboardInterrupt):\n pass", [2]),
        ("with lock:\n try:\n  pass\n finally:\n  [x for x in y if x]", [5]),
        ("with lock:\n [x for x in y]", []),
        ("with lock:\n sum(x for x in y if x)", []),
        ("with lock:\n def f():\n  [x for x in y if x]", []),
        ("with f([x for x in y if x]):\n pass", []),
        ("try:\n [x for x in y if x]\nexcept OSError:\n pass", []),
        ("try:\n pass\nfinally:\n [x for x in y if x]", []),
    ],
)
def test_an_unprotected_comprehension_is_found(text: str, lines: list[int]) -> None:
    assert list(unprotected_comprehensions(ast.parse(text))) == lines


def test_comprehensions_are_protected() -> None:
    found = [f"{source.name}:{line}" for source in sources(".py") for line in unprotected_comprehensions(source.tree)]
    assert not found


def test_loops_are_protected() -> None:
    found = [
        f"{source.name}:{line} {code.co_name}"
        for source in sources(".py")
        for code in code_objects(compile(source.text, source.name, "exec"))
        for line in unprotected_lines(code)
    ]
    assert not found
