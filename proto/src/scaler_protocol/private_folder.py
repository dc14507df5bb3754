"""Private folders, for keys: in memory, or on a disk that other hosts share."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from scaler_protocol.private_file import write_private_file

_MEMORY = Path("/dev/shm")
_LOCK_NAME = "lock"


class PrivateFolder:
    """A folder in ``parent`` that only this user can read. It exists until ``remove``. If its process is killed before,
    the next process of the user that makes one there with this ``prefix`` removes it, where the file system has
    locks."""

    def __init__(self, parent: Path, prefix: str, contents: Mapping[str, bytes] | None = None) -> None:
        _remove_abandoned(parent, prefix)
        self._pid = os.getpid()
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        self._lock = -1
        try:
            self._lock = _locked(self.path)
            for name, data in (contents or {}).items():
                write_private_file(self.path / name, data)
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Harmless when repeated, and in a fork of the process."""
        if os.getpid() != self._pid:
            return
        lock, self._lock = self._lock, -1
        _remove(self.path, lock)


class MemoryFolder(PrivateFolder):
    """A private folder in memory where the host allows it, for keys that must not be written to a disk."""

    def __init__(self, contents: Mapping[str, bytes] | None = None) -> None:
        parent = _MEMORY if os.access(_MEMORY, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())
        super().__init__(parent, f"scaler-keys-{os.geteuid()}-", contents)


def _locked(folder: Path) -> int:
    """The file is locked before it has the name by which others find it. Without locks, it never gets that name."""
    unnamed = folder / f"{_LOCK_NAME}.new"
    lock = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError:
        return lock
    unnamed.rename(folder / _LOCK_NAME)
    return lock


def _remove(folder: Path, lock: int) -> None:
    """``lock``: the descriptor of its lock, which is closed, or -1."""
    shutil.rmtree(folder, ignore_errors=True)
    if lock >= 0:
        os.close(lock)
        shutil.rmtree(folder, ignore_errors=True)  # NFS keeps a folder in which a file is open


def _remove_abandoned(parent: Path, prefix: str) -> None:
    """Other users may make folders with such a name, too. They are left alone: what is in them may be endless."""
    for folder in parent.glob(prefix + "*"):
        try:
            if folder.lstat().st_uid != os.geteuid():
                continue
            lock = os.open(folder / _LOCK_NAME, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # it is being made or removed, or belongs to another user
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # its process is running
            os.close(lock)
        else:
            _remove(folder, lock)
