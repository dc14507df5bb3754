"""The name of a worker manager, which only one process of a user holds at a time."""

from __future__ import annotations

import fcntl
import os

from scaler_protocol.command import BadInput
from scaler_protocol.security import home_directory


class NameLock:
    """Holds the name until ``release``, or until this process ends, however it ends. The file remains, empty.
    Raises BadInput if another manager has the name."""

    def __init__(self, name: str) -> None:
        try:
            folder = home_directory() / "managers"
        except ValueError as error:
            raise BadInput(str(error)) from None
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._descriptor = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise BadInput(
                f"Cannot reserve the name {name} in {folder}: {error.strerror}. Make the folder writable."
            ) from None
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise BadInput(
                f"Cannot start the manager {name}: another one of this name runs. Stop it, or give another --name."
            ) from None

    def release(self) -> None:
        os.close(self._descriptor)
