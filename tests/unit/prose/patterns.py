"""Patterns that are wrong in every English technical text, and how to write instead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Finding(NamedTuple):
    """One place, and what to write instead."""

    path: Path
    line: int
    text: str
    advice: str


_START = r"(?:^|(?<=[.!?:;] )|(?<=\* )|(?<=\| )|(?<=\"\"\")|(?<=# ))"

PATTERNS = {
    re.compile(r"\b[Aa]new\b"): "again, or new",
    re.compile(r"\bfor ever\b"): "indefinitely, never, or always",
    re.compile(r"\b[Bb]eside\b"): "in addition to, next to, or while",
    re.compile(r"\b([Nn]obody|[Ss]omebody|[Aa]nybody|[Ee]verybody)\b"): "no one, or the thing that is meant",
    re.compile(r"\b([Ww]hoever|[Ww]homever)\b"): "any peer that, the process that, anyone who",
    re.compile(
        r"(?<!there )(?<!There )\b(is|are|was|were) no (?!longer\b|more\b|one\b|need\b|less\b|larger\b|older\b)[a-z]"
    ): "is not a",
    re.compile(_START + r"Who [a-z]+(?=\b)(?![^.]*\?)"): "A peer that, anyone who",
    re.compile(
        _START + r"What (came|comes|arrived|arrives|follows|cannot|can|waits|else|is|was|has|had|remains)\b(?![^.]*\?)"
    ): "name the thing: the message that arrived",
    re.compile(r"\bin good order\b"): "cleanly",
    re.compile(r"\b(is|are) not to suffer\b"): "still work, are still carried out",
    re.compile(r"\bso (many|long)(?=\s*(?:[.,;:)|\"]|$))"): "this many, this long",
    re.compile(r"\b(doomed|hungry|wishes|wish)\b"): "a technical term: objects have no feelings",
    re.compile(r"\bOf (more|what|those|whom)\b[^.?]* (is|are) "): "put the subject first",
}


def findings_in(path: Path) -> Iterator[Finding]:
    is_page = path.suffix == ".md"
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if is_page and line.startswith("#"):
            continue  # a heading may be a clause
        for finding in findings_of(line):
            yield Finding(path, number, line.strip(), finding)


def findings_of(line: str) -> Iterator[str]:
    """What to write instead, for each pattern that the line matches."""
    for pattern, advice in PATTERNS.items():
        for _ in pattern.finditer(line):
            yield advice
