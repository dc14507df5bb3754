"""A docstring begins with what it describes, so that it makes sense to a reader who sees nothing else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.support.commands import REPOSITORY
from tests.unit.prose.test_prose import SOURCES

HEADLESS = {
    *("As", "For", "From", "How", "Of", "Since", "That", "Those", "Until", "What", "When", "Where", "Whether", "Which"),
    *("While", "Who", "Whose", "Why", "With", "Without"),
}
"""A function takes a verb ("Return whether ..."), a value takes a noun ("Seconds until ...")."""

QUESTIONS = {"examples"}
"""The docstring of an example asks what its users ask."""


@pytest.mark.parametrize("folder", sorted(set(SOURCES) - QUESTIONS))
def test_no_docstring_is_headless(folder: str) -> None:
    files = [path for path in (REPOSITORY / folder).rglob("*") if path.suffix in FINDERS]
    found = [(path, *each) for path in sorted(files) for each in FINDERS[path.suffix](path.read_text(encoding="utf-8"))]
    assert not found, "Begin with a verb or a noun:\n" + "\n".join(
        f"{path.relative_to(REPOSITORY)}:{line}: {text}" for path, line, text in found
    )


def headless(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each such docstring. A property or an attribute may say ``Whether``."""
    for owner, line, docstring in docstrings(ast.parse(text)):
        first = docstring.split(maxsplit=1)[0].rstrip(".,:") if docstring.strip() else ""
        if first in HEADLESS and not (first == "Whether" and is_value(owner)):
            yield line, docstring.splitlines()[0]


def headless_in_cython(text: str) -> Iterator[tuple[int, str]]:
    """Yield the same of a compiled module, whose definitions ``ast`` cannot read: any docstring may say ``Whether``."""
    for number, line in enumerate(text.splitlines(), 1):
        match = _OPENING.match(line)
        if match and match[1] in HEADLESS - {"Whether"}:
            yield number, line.strip()


_OPENING = re.compile(r'\s*"""(\w+)')

FINDERS = {".py": headless, ".pyi": headless, ".pyx": headless_in_cython, ".pxd": headless_in_cython}


def docstrings(tree: ast.AST) -> Iterator[tuple[ast.AST, int, str]]:
    """Yield each docstring with its owner: a module, class or function, or the statement before it."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for before, statement in zip([node, *body], body, strict=False) if isinstance(body, list) else ():
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield before, statement.lineno, value.value


def is_value(owner: ast.AST) -> bool:
    if isinstance(owner, (ast.Assign, ast.AnnAssign)):
        return True
    return any("property" in ast.unparse(each) for each in getattr(owner, "decorator_list", ()))


@pytest.mark.parametrize(
    "text",
    [
        'def f():\n    """Whether it is open."""',
        'class A:\n    """What a client needs."""',
        'LIMIT = 3\n"""Of one message."""',
        '"""How long tasks take."""',
        'class A:\n    @property\n    def f(self):\n        """How many there are."""',
    ],
)
def test_the_test_finds(text: str) -> None:
    assert len(list(headless(text))) == 1


def test_compiled_modules_are_read() -> None:
    assert list(headless_in_cython('cdef f():\n    """How many."""\n')) == [(2, '"""How many."""')]
    assert not list(headless_in_cython('    """The number."""\n'))


@pytest.mark.parametrize(
    "text",
    [
        'def f():\n    """Return whether it is open."""',
        'class A:\n    @property\n    def f(self):\n        """Whether it is open."""',
        'def f():\n    """If the file is missing, raise OSError."""',
        "def f():\n    pass",
    ],
)
def test_the_test_allows(text: str) -> None:
    assert not list(headless(text))
