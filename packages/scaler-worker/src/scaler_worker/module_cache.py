"""The modules that clients have sent, as files: once per host, for all worker processes of this user.

``<digest>`` is a directory with the files of one module; ``<digest>.lock`` is locked, shared, by each process that uses
it. The kernel unlocks it when a process ends, so any process can find out what is not used any more, and remove it.
"""

from __future__ import annotations

import fcntl
import io
import os
import shutil
import tempfile
import zipfile

from scaler_protocol.ids import digest
from scaler_protocol.shipping.modules import ShippedModule
from scaler_worker.host_cache import LOCK_SUFFIX, lock, locked_names, make_private, remove_if_unused


class ModuleFolder:
    """The files of one module, as long as this process needs them. ``path`` belongs to ``sys.path``."""

    def __init__(self, path: str, lock_fd: int) -> None:
        self.path = path
        self._lock_fd = lock_fd

    def release(self) -> None:
        """Remove the files, unless another process uses them."""
        remove_if_unused(self.path, self._lock_fd)


def cache_directory() -> str:
    return os.path.join(tempfile.gettempdir(), f"scaler-modules-{os.getuid()}")


def acquire(module: ShippedModule) -> ModuleFolder:
    """Extract the files of a module if they are not there yet, and keep them until ``release``. Raises OSError if they
    cannot be written, and ValueError if the archive is damaged or has another digest: its files would be used for the
    module of another client."""
    if digest(module.archive) != module.digest:
        raise ValueError(f"Cannot use the module {module.name}: its files do not match their digest.")
    root = cache_directory()
    while True:
        make_private(root)
        path = os.path.join(root, module.digest.hex())
        lock_fd = lock(path + LOCK_SUFFIX, fcntl.LOCK_SH)
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
    try:
        root = cache_directory()
    except FileNotFoundError:
        return  # this host has no directory for temporary files that can be written to
    for path in locked_names(root):
        try:
            lock_fd = lock(path + LOCK_SUFFIX, fcntl.LOCK_EX | fcntl.LOCK_NB, 0)
        except OSError:
            continue
        if lock_fd is not None:
            remove_if_unused(path, lock_fd)
    try:
        os.rmdir(root)
    except OSError:
        pass


def _extract(module: ShippedModule, path: str) -> None:
    """Extract all files or none: other processes may extract the same module at the same time."""
    temporary = tempfile.mkdtemp(prefix=os.path.basename(path) + ".", dir=os.path.dirname(path))
    try:
        with zipfile.ZipFile(io.BytesIO(module.archive)) as archive:
            archive.extractall(temporary)
        os.rename(temporary, path)
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        if not os.path.isdir(path):
            raise
    except Exception as error:  # of a damaged archive, which has its right digest all the same
        shutil.rmtree(temporary, ignore_errors=True)
        raise ValueError(f"Cannot use the module {module.name}: its archive is damaged: {error}.") from None
