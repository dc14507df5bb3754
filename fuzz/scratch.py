"""A folder for targets that read files: in memory where there is such a place."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

_MEMORY = "/dev/shm"
_folders: list[tempfile.TemporaryDirectory[str]] = []


def scratch() -> Path:
    """The same for all targets of a process, until ``clean``."""
    if not _folders:
        place = _MEMORY if os.access(_MEMORY, os.W_OK) else None
        _folders.append(tempfile.TemporaryDirectory(prefix="scaler-fuzz-", dir=place))
    return Path(_folders[0].name)


def clean() -> None:
    while _folders:
        _folders.pop().cleanup()
