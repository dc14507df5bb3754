"""The name of a worker manager, which only one process of a user holds at a time."""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import sys
import time

from scaler_protocol.command import BadInput, current_parent
from scaler_protocol.security import home_directory

PATIENCE_SECONDS = 2.0
"""A manager whose script was killed may need this long to notice it."""

_LOOK_SECONDS = 0.1
_ENDING = b"ending"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class NameLock:
    """Holds the name until ``release``, or until this process ends, however it ends. The file remains. It is empty, or
    says that the manager only ends its jobs: the next one of its name then waits for up to ``ending_seconds``, unless a
    signal ends it, or its script is gone. Raises BadInput if another manager has the name."""

    def __init__(self, name: str, ending_seconds: float = 0.0) -> None:
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
            self._wait(name, ending_seconds)
            os.ftruncate(self._descriptor, 0)
        except BaseException:
            os.close(self._descriptor)
            raise

    def tell_ending(self) -> None:
        """The manager starts nothing more: it ends when its jobs have ended."""
        os.pwrite(self._descriptor, _ENDING, 0)

    def release(self) -> None:
        os.close(self._descriptor)

    def _wait(self, name: str, ending_seconds: float) -> None:
        begun, is_told = time.monotonic(), False
        while not self._take():
            waited_seconds, is_ending = time.monotonic() - begun, self._is_other_ending()
            if is_ending and waited_seconds >= ending_seconds:
                raise BadInput(
                    f"Cannot start the manager {name}: an earlier one of this name is still ending its jobs. Try again "
                    "when it has ended, or give another --name."
                )
            if not is_ending and waited_seconds >= PATIENCE_SECONDS:
                raise BadInput(
                    f"Cannot start the manager {name}: another one of this name runs. Stop it, or give another --name."
                )
            if is_ending and not is_told:
                is_told = True
                logging.warning(
                    f"An earlier manager {name} is ending its jobs: waiting until it has ended, for at most "
                    f"{ending_seconds:.0f} s."
                )
            _pause()

    def _take(self) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _is_other_ending(self) -> bool:
        return os.pread(self._descriptor, len(_ENDING), 0) == _ENDING


def _pause() -> None:
    """Nothing has been started, so that a signal, or the end of the script, ends this process without further ado."""
    parent = current_parent()
    if signal.sigtimedwait(_SIGNALS, _LOOK_SECONDS) is not None or (parent is not None and parent.is_gone):
        sys.exit()
