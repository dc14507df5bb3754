"""The lock of a running stack: one process at a time runs the stack of a file."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from scaler_protocol.command import BadInput
from scaler_protocol.security import home_directory


class StackLock:
    """Held until ``release``, or until the process ends, however it ends. The lock file contains the id of the process
    that holds it, or held it last."""

    def __init__(self, path: Path) -> None:
        """Raises BadInput if the folder for it cannot be written."""
        try:
            folder = home_directory() / "stacks"
        except ValueError as error:
            raise BadInput(str(error)) from None
        name = hashlib.blake2b(os.fsencode(path.resolve()), digest_size=8).hexdigest()
        self.log_path = folder / f"{name}.log"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._descriptor = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise BadInput(f"Cannot write to {folder}: {error.strerror}. Make the folder writable.") from None

    def acquire(self) -> bool:
        """False: another process runs the stack."""
        if not self._lock("LOCK_EX"):
            return False
        os.truncate(self._descriptor, 0)
        os.pwrite(self._descriptor, str(os.getpid()).encode(), 0)
        return True

    def holder(self) -> int | None:
        """The process that runs the stack, or None if it does not run."""
        if self._lock("LOCK_SH"):
            self._lock("LOCK_UN")
            return None
        text = os.pread(self._descriptor, 32, 0)
        return int(text) if text.isdigit() else None

    def release(self) -> None:
        os.close(self._descriptor)

    def _lock(self, operation: str) -> bool:
        """False: another process has the lock."""
        import fcntl  # not every system has it

        try:
            fcntl.flock(self._descriptor, getattr(fcntl, operation) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
