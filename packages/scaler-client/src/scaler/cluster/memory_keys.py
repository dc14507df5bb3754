"""Keys of a cluster's own, in memory, for the time that it runs."""

from __future__ import annotations

import atexit
import os
from typing import TYPE_CHECKING

from scaler_protocol.keys import VARIABLE

if TYPE_CHECKING:
    from scaler_protocol.memory_folder import MemoryFolder


class MemoryKeys:
    """``SCALER_KEYS`` of this process names them until ``forget``."""

    def __init__(self) -> None:
        self._folder: MemoryFolder | None = None

    def make_if_missing(self) -> None:
        """Unless SCALER_KEYS names keys already."""
        if VARIABLE in os.environ:
            return
        from scaler_protocol.key_files import generate
        from scaler_protocol.memory_folder import MemoryFolder
        from scaler_protocol.transport.curve_authentication import new_key_pair

        self._folder = MemoryFolder()
        generate(self._folder.path, new_key_pair)
        os.environ[VARIABLE] = str(self._folder.path)
        atexit.register(self.forget)

    def forget(self) -> None:
        """Harmless when repeated."""
        if self._folder is None:
            return
        if os.environ.get(VARIABLE) == str(self._folder.path):
            del os.environ[VARIABLE]
        self._folder.remove()
        atexit.unregister(self.forget)
        self._folder = None
