"""Mappings of memory files, and what the standard library cannot ask of the system. Linux only: elsewhere
``AVAILABLE`` is False and every call raises OSError."""

AVAILABLE: bool

class Descriptor:
    """Owns ``fd``, and closes it when nothing uses this any more, so that no write reaches a later user of it."""

    def __init__(self, fd: int) -> None: ...
    @property
    def fd(self) -> int: ...

class Releases:
    """The end of a pipe on which a store hears which pins are released; it hears the pipe's end too, and with it the
    release of all that are left. No Python runs while an array is collected, so an interruption cannot come between."""

    def __init__(self, fd: int) -> None:
        """Owns ``fd``, which does not block."""

    @property
    def mapped(self) -> int:
        """The number of mappings with a pin on the extent, and of copies in progress."""

    @property
    def silent(self) -> bool: ...
    def release(self, pin: int) -> None:
        """Never waits. Nothing is said in a process that has only inherited this."""

    def silence(self) -> None:
        """Say nothing more: a fork may map what this process lets go."""

    def leave(self) -> None:
        """Close the pipe, now or with the last mapping that has a pin on it, and not while something is copied."""

    def begin_copy(self) -> Copy | None:
        """Keep the pipe open while the answer exists, because the store must not use the memory for anything else.
        None: ``leave`` was called."""

class Copy:
    """A copy in progress. It ends with the last reference to this, so that no interruption can leave it open."""

class Kept:
    """A few large private mappings that are unused and were never written to: later writes to the same pages of the
    file are seen through them at once, without a fault for each page."""

    def clear(self) -> None:
        """Unmap them all."""

    def forget(self, segment: int) -> None:
        """Unmap those of this segment."""

    def close(self) -> None:
        """Unmap them, and keep no others."""

class Mapping:
    """``size`` bytes of a descriptor from ``offset`` (a multiple of the page size), as a writable buffer. It needs
    neither the descriptor nor the file's name after this, and is unmapped when nothing uses it any more. ``private``:
    writes are invisible to other processes."""

    def __init__(
        self,
        fd: int,
        offset: int,
        size: int,
        private: bool,
        releases: Releases | None = None,
        pin: int = 0,
        kept: Kept | None = None,
        segment: int = 0,
    ) -> None:
        """Map an extent. With ``releases``, ``pin`` is released when nothing uses it any more. With ``kept``, a private
        one is taken from there and goes back there; ``segment`` names the file. Raises OSError."""

    def __buffer__(self, flags: int) -> memoryview: ...
    @property
    def size(self) -> int: ...
    def write(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        """Copy ``data`` there. Others may run meanwhile. Raises ValueError when it does not fit."""

    def populate(self, offset: int, size: int) -> None:
        """Enter pages that the file has into this mapping, for writing, at once instead of one by one. Best effort."""

def punch(fd: int, offset: int, size: int) -> None:
    """Give these pages back to the system; the file keeps its size. Raises OSError."""
