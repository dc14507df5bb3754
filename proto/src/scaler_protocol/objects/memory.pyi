"""Mappings of memory files, and what the standard library cannot ask of the system. Linux only: elsewhere
``AVAILABLE`` is False and every call raises OSError."""

AVAILABLE: bool

class Mapping:
    """``size`` bytes of a descriptor from ``offset`` (a multiple of the page size), as a writable buffer. It needs
    neither the descriptor nor the file's name after this, and is unmapped when nothing uses it any more. ``private``:
    what is written is seen by nobody else."""

    def __init__(self, fd: int, offset: int, size: int, private: bool) -> None:
        """Raises OSError."""

    def __buffer__(self, flags: int) -> memoryview: ...
    @property
    def size(self) -> int: ...
    def write(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        """Copy ``data`` there. Others may run meanwhile. Raises ValueError when it does not fit."""

    def populate(self, offset: int, size: int) -> None:
        """Enter pages that the file has into this mapping, for writing, at once instead of one by one. A wish."""

def punch(fd: int, offset: int, size: int) -> None:
    """Give these pages back to the system; the file keeps its size. Raises OSError."""
