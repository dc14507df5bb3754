"""Code that travels in pickles, as that of lambdas does: its instructions are those of one minor version of Python.

Other versions take them for different ones, so that a function ends its process, fails or returns a wrong value."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

VERSION = sys.version_info[:2]

_REMEDY = (
    "Use the same minor version of Python for clients and workers, or put the function into a module that workers can"
    " import (Client(modules=[...]) sends it)."
)


def with_version(code: CodeType, reduced: tuple[Any, ...]) -> tuple[Any, ...]:
    """``reduced``: how ``code`` is pickled, by what makes it and the arguments. Return the same, bound to this
    version."""
    make, arguments = reduced
    return make_code, (VERSION, code.co_qualname, make, arguments)


def make_code(
    version: tuple[int, int], name: str, make: Callable[..., CodeType], arguments: tuple[Any, ...]
) -> CodeType:
    """Raises TypeError if the code is of another version."""
    if version != VERSION:
        raise TypeError(
            f"Cannot run the code of {name}(): it is of Python {version[0]}.{version[1]}, and this process runs Python"
            f" {VERSION[0]}.{VERSION[1]}. {_REMEDY}"
        )
    return make(*arguments)
