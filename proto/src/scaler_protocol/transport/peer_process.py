"""The process at the other end of a unix socket."""

from __future__ import annotations

import os


def can_watch(number: int) -> bool:
    """Return whether it can be told from here when this process is stopped. ``number`` is 0 for one in another
    namespace (a container); and where /proc is that of another one, the number there belongs to another process."""
    try:
        return number > 0 and os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        return False


class PeerProcess:
    """A process that may be suspended by a signal: then it keeps its end of the connection open, but does not answer.
    ``number`` is 0 while there is none."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._was_stopped = False

    def stays_stopped(self) -> bool:
        """It was when asked before, and is now."""
        was_stopped, self._was_stopped = self._was_stopped, _is_stopped(self._number)
        return was_stopped and self._was_stopped


def _is_stopped(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat", "rb") as status:
            return status.read().rpartition(b") ")[2].startswith(b"T")
    except OSError:
        return False
