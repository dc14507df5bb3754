"""Wakes a thread that polls."""

from __future__ import annotations

import os


class Waker:
    """A descriptor that is readable from ``wake`` until ``clear``. Waking is idempotent and may be done anywhere."""

    fd = _writer = -1

    def __init__(self) -> None:
        self.fd, self._writer = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._writer, False)
        self._woken = False

    def wake(self) -> None:
        if not self._woken:
            self._woken = True
            try:
                os.write(self._writer, b"w")
            except OSError:  # full: then it is readable already; closed: nobody polls
                pass

    def clear(self) -> None:
        """Look at what there is to do after this, not before: a wake before it returns may leave no other trace."""
        try:
            os.read(self.fd, 64)
        except OSError:
            pass
        self._woken = False  # not before the read, which would eat the byte of a wake that came between

    def __del__(self) -> None:
        if self.fd >= 0:  # it may have been interrupted before it had any
            os.close(self.fd)
            os.close(self._writer)
