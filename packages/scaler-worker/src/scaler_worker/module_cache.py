"""The modules that clients have sent, as files: once per host, for all worker processes of this user.

``<digest>`` is a directory with the files of one module; ``<digest>.lock`` is locked, shared, by each process that uses
it. The kernel unlocks it when a process ends, so any process can find out what is not used any more, and remove it.
"""

from __future__ import annotations

import fcntl
import io
import os
import shutil
import stat
import tempfile
import zipfile

from scaler_protocol.ids import digest
from scaler_protocol.shipping.modules import ShippedModule

_LOCK = ".lock"


class ModuleFolder:
    """The files of one module, as long as this process needs them. ``path`` belongs to ``sys.path``."""

    def __init__(self, path: str, lock_fd: int) -> None:
        self.path = path
        self._lock_fd = lock_fd

    def release(self) -> None:
        """Remove the files, unless another process uses them."""
        _remove_if_unused(self.path, self._lock_fd)


def cache_directory() -> str:
    return os.path.join(tempfile.gettempdir(), f"scaler-modules-{os.getuid()}")


def acquire(module: ShippedModule) -> ModuleFolder:
    """Raises OSError if the files cannot be written, and ValueError if the archive has another digest: its files would
    be used for the module of another client."""
    if digest(module.archive) != module.digest:
        raise ValueError(f"Cannot use the module {module.name}: its files do not match their digest.")
    root = cache_directory()
    while True:
        _make_private(root)
        path = os.path.join(root, module.digest.hex())
        lock_fd = _lock(path + _LOCK, fcntl.LOCK_SH)
        if lock_fd is not None:
            break
    try:
        if not os.path.isdir(path):
            _extract(module, path)
    except BaseException:
        os.close(lock_fd)
        raise
    return ModuleFolder(path, lock_fd)


def remove_unused() -> None:
    """Remove the files that no process uses, such as those of processes that were killed."""
    root = cache_directory()
    try:
        names = os.listdir(root)
    except OSError:
        return
    for name in names:
        if name.endswith(_LOCK):
            path = os.path.join(root, name[: -len(_LOCK)])
            try:
                lock_fd = _lock(path + _LOCK, fcntl.LOCK_EX | fcntl.LOCK_NB, 0)
            except OSError:
                continue
            if lock_fd is not None:
                _remove_if_unused(path, lock_fd)
    try:
        os.rmdir(root)
    except OSError:
        pass


def _make_private(root: str) -> None:
    """Code is imported from it, so no other user may write to it."""
    try:
        os.mkdir(root, 0o700)
    except FileExistsError:
        state = os.lstat(root)
        if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid() or state.st_mode & 0o022:
            raise PermissionError(
                f"Cannot use {root} for modules: another user can write to it. Remove it, or set TMPDIR."
            ) from None


def _lock(path: str, operation: int, create: int = os.O_CREAT) -> int | None:
    """None: the file was removed meanwhile."""
    try:
        fd = os.open(path, os.O_RDWR | create | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, operation)
        if os.stat(path).st_ino == os.fstat(fd).st_ino:
            return fd
    except FileNotFoundError:
        pass
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return None


def _extract(module: ShippedModule, path: str) -> None:
    """All of it or nothing: other processes may do the same at the same time."""
    temporary = tempfile.mkdtemp(prefix=os.path.basename(path) + ".", dir=os.path.dirname(path))
    try:
        with zipfile.ZipFile(io.BytesIO(module.archive)) as archive:
            archive.extractall(temporary)
        os.rename(temporary, path)
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        if not os.path.isdir(path):
            raise


def _remove_if_unused(path: str, lock_fd: int) -> None:
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        root, name = os.path.split(path)
        for each in os.listdir(root):
            if each == name or (each.startswith(name + ".") and not each.endswith(_LOCK)):
                shutil.rmtree(os.path.join(root, each), ignore_errors=True)
        os.unlink(path + _LOCK)
    except OSError:
        pass  # another process uses it, or has removed it
    finally:
        os.close(lock_fd)
