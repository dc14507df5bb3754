"""A folder for targets that read files: in memory where there is such a place."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

_MEMORY = "/dev/shm"
_VARIABLE = "TMPDIR"
_folders: list[tempfile.TemporaryDirectory[str]] = []


def scratch() -> Path:
    """The same for all targets of a process, until ``clean``."""
    if not _folders:
        place = os.environ.get(_VARIABLE) or _memory()
        _folders.append(tempfile.TemporaryDirectory(prefix=_prefix(), dir=place))
    return Path(_folders[0].name)


@contextlib.contextmanager
def environment() -> Iterator[dict[str, str]]:
    """The environment variable that gives another process a folder, which is removed however that process ends."""
    with tempfile.TemporaryDirectory(prefix=_prefix(), dir=_memory()) as folder:
        yield {_VARIABLE: folder}


def _prefix() -> str:
    """Names the process, so that the folder of a killed one can be told from the folder of a running one."""
    return f"scaler-fuzz-{os.getpid()}-"


def _memory() -> str | None:
    return _MEMORY if os.access(_MEMORY, os.W_OK) else None


def clean() -> None:
    while _folders:
        _folders.pop().cleanup()
