"""Files that only their user can read, or write: tokens and keys."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

_SIZE_LIMIT_BYTES = 4096


def read_private_file(path: Path) -> bytes | None:
    """Return the first 4 KiB of a file that only this user can read, or None if there is no such file. Raises
    PermissionError if others can read it, and OSError."""
    return _read(path, 0o077, "read")


def read_protected_file(path: Path) -> bytes | None:
    """Read a file as ``read_private_file`` does, if no other user can write it; others may read it."""
    return _read(path, 0o022, "written")


def _read(path: Path, forbidden_mode: int, verb: str) -> bytes | None:
    """``forbidden_mode``: the permissions that no other user may have; ``verb``: what they allow, for the error."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # it may be a pipe
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        _check_owner(path, os.fstat(descriptor), forbidden_mode, verb)
        return os.read(descriptor, _SIZE_LIMIT_BYTES).strip()
    finally:
        os.close(descriptor)


def write_private_file(path: Path, data: bytes) -> None:
    """Make a file that only this user can read, and sync it. Raises FileExistsError instead of replacing one, and
    OSError if the disk is full; then there is no file. Its name is safe from a power loss once ``sync_directory`` was
    called."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
    except BaseException:
        path.unlink()
        raise


def create_private_file(path: Path, data: bytes) -> bool:
    """Like ``write_private_file``, in one step: no reader, and no power loss, ever leaves half a file under this name.
    False: there is one already, which stays."""
    temporary = _temporary(path)
    write_private_file(temporary, data)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink()
    sync_directory(path.parent)
    return True


def replace_private_file(path: Path, data: bytes) -> None:
    """Like ``create_private_file``, also if there is a file already: readers see the old one or the new one."""
    temporary = _temporary(path)
    write_private_file(temporary, data)
    try:
        os.replace(temporary, path)
    except OSError:
        temporary.unlink()
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """The names in it survive a power loss."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _temporary(path: Path) -> Path:
    """An unused name in the directory of ``path``."""
    return path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")


def _check_owner(path: Path, status: os.stat_result, forbidden_mode: int, verb: str) -> None:
    if status.st_uid != os.geteuid():
        raise PermissionError(f"{path} belongs to another user. Use a directory of your own.")
    if stat.S_IMODE(status.st_mode) & forbidden_mode:
        raise PermissionError(f"{path} can be {verb} by other users. Run chmod 600 {path}.")
