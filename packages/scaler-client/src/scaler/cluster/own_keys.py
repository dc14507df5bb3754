"""Keys of a cluster's own, for the time that it runs: in memory, or on a disk that its hosts share."""

from __future__ import annotations

import atexit
import os
from typing import TYPE_CHECKING

from scaler_protocol.keys import VARIABLE
from scaler_protocol.security import home_directory

if TYPE_CHECKING:
    from scaler_protocol.private_folder import PrivateFolder


class OwnKeys:
    """``SCALER_KEYS`` of this process names them until ``forget``. ``disk_prefix``: the beginning of the name of their
    folder in the home directory; empty: they are in memory."""

    def __init__(self, disk_prefix: str = "") -> None:
        self._disk_prefix = disk_prefix
        self._folder: PrivateFolder | None = None

    def make_if_missing(self) -> None:
        """Unless SCALER_KEYS names keys already."""
        if VARIABLE in os.environ:
            return
        from scaler_protocol.key_files import generate
        from scaler_protocol.transport.curve_authentication import new_key_pair

        self._folder = self._make_folder()
        generate(self._folder.path, new_key_pair)
        os.environ[VARIABLE] = str(self._folder.path)
        atexit.register(self.forget)

    def _make_folder(self) -> PrivateFolder:
        from scaler_protocol.private_folder import MemoryFolder, PrivateFolder

        if not self._disk_prefix:
            return MemoryFolder()
        home_directory().mkdir(mode=0o700, parents=True, exist_ok=True)
        return PrivateFolder(home_directory(), self._disk_prefix)

    def forget(self) -> None:
        """Harmless when repeated."""
        if self._folder is None:
            return
        if os.environ.get(VARIABLE) == str(self._folder.path):
            del os.environ[VARIABLE]
        self._folder.remove()
        atexit.unregister(self.forget)
        self._folder = None
