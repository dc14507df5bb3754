"""Programs and commands that pages of the documentation show."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tests.support.commands import REPOSITORY

README = REPOSITORY / "README.md"
MANAGERS = REPOSITORY / "docs" / "managers.md"


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def program_with(page: Path, words: str) -> str:
    """The only Python program on the page that contains the words."""
    (found,) = [block for block in blocks(page, "python") if words in block]
    return found


def arguments_of(page: Path, beginning: str) -> list[str]:
    """The words that follow this beginning of the only such command on the page."""
    lines = [line for block in blocks(page, "sh") for line in block.splitlines()]
    (found,) = [line for line in lines if line.startswith(beginning + " ")]
    return shlex.split(found, comments=True)[len(beginning.split()) :]
