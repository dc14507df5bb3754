"""The names by which functions are counted."""

from __future__ import annotations

from typing import NamedTuple

NAME_LIMIT_CHARACTERS = 1000


class FunctionKey(NamedTuple):
    """Functions of one name in different modules are different ones. ``module`` is empty if it is not known."""

    name: str
    module: str = ""


def key_of(name: str, module: str) -> FunctionKey:
    return FunctionKey(name[:NAME_LIMIT_CHARACTERS], module[:NAME_LIMIT_CHARACTERS])
