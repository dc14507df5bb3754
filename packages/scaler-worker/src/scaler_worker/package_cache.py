"""The packages of environments, as directories: once per host and list of requirements, for all processes of this user.

A directory is complete when it has its name. Processes that use it have a shared lock; an installation has an exclusive
one, so that processes of other agents wait for it and find the packages. Those that no process uses stay for later
clients; the ones that were used last are kept.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Sequence

from scaler_protocol.ids import digest
from scaler_worker.host_cache import LOCK_SUFFIX, lock, locked_names, make_private, remove_attempts, remove_if_unused


class PackageFolder:
    """Packages in use. ``path`` belongs to ``sys.path``."""

    def __init__(self, path: str, lock_fd: int) -> None:
        self.path = path
        self._lock_fd = lock_fd

    def release(self) -> None:
        """This process does not need them any more. They stay on the disk."""
        os.close(self._lock_fd)


def cache_directory() -> str:
    return os.path.join(tempfile.gettempdir(), f"scaler-environments-{os.getuid()}")


def path_of(requirements: Sequence[str]) -> str:
    """Other versions of Python need other files."""
    kind = (sys.implementation.cache_tag or "", sysconfig.get_platform())
    return os.path.join(cache_directory(), digest("\n".join((*kind, *requirements)).encode()).hex())


def acquire(requirements: Sequence[str]) -> PackageFolder | None:
    """None: they are not installed, or are just being installed or removed. Raises OSError."""
    path = path_of(requirements)
    make_private(cache_directory())
    try:
        lock_fd = lock(path + LOCK_SUFFIX, fcntl.LOCK_SH | fcntl.LOCK_NB, 0)
    except BlockingIOError:
        return None
    if lock_fd is None:
        return None
    if not os.path.isdir(path):
        os.close(lock_fd)
        return None
    os.utime(lock_fd)
    return PackageFolder(path, lock_fd)


def fill(requirements: Sequence[str], install: Callable[[str], None]) -> None:
    """Have ``install`` write the packages into a directory, unless they are here. Waits for other processes that do the
    same. Raises what ``install`` raises, and OSError; then nothing stays."""
    path = path_of(requirements)
    make_private(cache_directory())
    lock_fd = None
    while lock_fd is None:
        lock_fd = lock(path + LOCK_SUFFIX, fcntl.LOCK_EX)
    try:
        if not os.path.isdir(path):
            _install_completely(path, install)
    except BaseException:
        remove_if_unused(path, lock_fd)
        raise
    os.close(lock_fd)


def _install_completely(path: str, install: Callable[[str], None]) -> None:
    remove_attempts(path)
    attempt = tempfile.mkdtemp(prefix=os.path.basename(path) + ".", dir=os.path.dirname(path))
    try:
        install(attempt)
        os.rename(attempt, path)
    except BaseException:
        shutil.rmtree(attempt, ignore_errors=True)
        raise


def remove_unused(kept: int) -> None:
    """Remove what no process uses, but for the ``kept`` directories that were used last, and what killed installations
    have left."""
    unused: list[tuple[float, str, int]] = []
    for path in locked_names(cache_directory()):
        try:
            lock_fd = lock(path + LOCK_SUFFIX, fcntl.LOCK_EX | fcntl.LOCK_NB, 0)
        except OSError:
            continue
        if lock_fd is not None:
            used_at = os.fstat(lock_fd).st_mtime if os.path.isdir(path) else 0.0
            unused.append((used_at, path, lock_fd))
    unused.sort(reverse=True)
    for number, (used_at, path, lock_fd) in enumerate(unused):
        if number < kept and used_at:
            os.close(lock_fd)
        else:
            remove_if_unused(path, lock_fd)
