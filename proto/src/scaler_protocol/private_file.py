"""Files that only their user can read: tokens and keys."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_SIZE_LIMIT_BYTES = 4096


def read_private_file(path: Path) -> bytes | None:
    """The contents of a file that only this user can read; None when there is no such file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        _check_private(path, os.fstat(descriptor))
        return os.read(descriptor, _SIZE_LIMIT_BYTES).strip()
    finally:
        os.close(descriptor)


def write_private_file(path: Path, data: bytes) -> None:
    """Make a file that only this user can read. Raises FileExistsError instead of replacing one."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)


def _check_private(path: Path, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise PermissionError(f"{path} belongs to another user: use a directory of your own.")
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise PermissionError(f"{path} can be read by other users: run chmod 600 {path}.")
