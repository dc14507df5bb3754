"""Documentation and sources are written in plain technical English, as far as a pattern can tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import REPOSITORY
from tests.unit.prose.patterns import Finding, findings_in, findings_of

STYLE_GUIDE = REPOSITORY / "CONTRIBUTING.md"  # quotes what it forbids
PAGES = sorted(
    {
        *REPOSITORY.glob("*.md"),
        *(REPOSITORY / "docs").rglob("*.md"),
        *(REPOSITORY / "packages").glob("*/*.md"),
        *(REPOSITORY / "proto").glob("*.md"),
        REPOSITORY / "tests" / "README.md",
    }
    - {STYLE_GUIDE}
)
OPTION_ROW = "| `--"
"""Rows of tables of options repeat the help texts, which count with the sources of their command."""
SUFFIXES = {".py", ".pyx", ".pxd", ".pyi", ".capnp"}
SOURCES = [
    "benchmarks",
    "examples",
    "fuzz",
    "packages/scaler-client/src",
    "packages/scaler-gui/src",
    "packages/scaler-scheduler/src",
    "packages/scaler-worker/src",
    "proto/src",
]


def page_name(page: Path) -> str:
    return page.relative_to(REPOSITORY).as_posix()


def listing(found: list[Finding]) -> str:
    return "\n".join(f"{page_name(path)}:{line}: {text}\n    write: {advice}" for path, line, text, advice in found)


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_documentation_has_no_finding(page: Path) -> None:
    found = [finding for finding in findings_in(page) if not finding.text.startswith(OPTION_ROW)]
    assert not found, listing(found)


@pytest.mark.parametrize("folder", SOURCES)
def test_sources_have_no_finding(folder: str) -> None:
    """In comments, docstrings and strings."""
    files = [file for file in (REPOSITORY / folder).rglob("*") if file.suffix in SUFFIXES and file.is_file()]
    found = [finding for file in sorted(files) for finding in findings_in(file)]
    assert not found, listing(found)


@pytest.mark.parametrize(
    "text",
    [
        "The session begins anew.",
        "It waits for ever.",
        "beside the loopback port",
        "Nobody waits.",
        "whoever connects",
        "'x' is no capability",
        "Who connects is to say Hello.",
        "It ends. Who waits is told.",
        '    """What came is dropped."""',
        "# What is larger travels apart.",
        "it ends when the scheduler is away for so long",
        "a hungry worker",
        "Of more than can be taken in some is left out.",
        "An agent leaves in good order.",
        "The others are not to suffer.",
    ],
)
def test_a_bad_sentence_is_found(text: str) -> None:
    assert list(findings_of(text))


@pytest.mark.parametrize(
    "text",
    [
        "There is no cluster at this address.",
        "The key is no longer valid.",
        "A frame is no larger than 4 MiB.",
        "Who may watch?",
        "What is a task?",
        "There are so many tasks that the queue is full.",
        "In addition to the queue, besides.",
        "self._nobody = None",
        "The client asks who owns the socket.",
    ],
)
def test_a_good_sentence_is_not_found(text: str) -> None:
    assert not list(findings_of(text))
