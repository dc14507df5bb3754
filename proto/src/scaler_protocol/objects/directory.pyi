"""The directory of the small objects of a store, in memory that the store writes and its peers read.

An entry names an object and the place of its bytes. A reader looks an entry up, copies the bytes, and looks whether the
entry still stands: the store withdraws an entry before it uses the memory for something else, so bytes that were copied
while the entry stood are those of the object. A reader holds nothing, so it may be killed at any time.
"""

from typing import NamedTuple

SLOTS: int

class Entry(NamedTuple):
    """``slot`` and ``version`` name the entry; the other fields say where the bytes are."""

    slot: int
    version: int
    segment: int
    offset: int
    size: int

class Directory:
    """The store's side. Objects whose owner does not have 16 bytes are left out, and others when there is no room:
    readers ask the store for what they do not find."""

    def __init__(self) -> None:
        """Raises OSError when the system has no memory for it."""

    @property
    def fd(self) -> int:
        """A memory file which the peers can read only."""

    def publish(self, owner: bytes, number: int, segment: int, offset: int, size: int) -> None:
        """The bytes are written. The object must not be published already."""

    def withdraw(self, owner: bytes, number: int) -> None:
        """Harmless for an object that is not published. When this returns, no reader takes the bytes for valid that
        change from now on."""

class DirectoryView:
    """A peer's side."""

    def __init__(self, fd: int) -> None:
        """Does not own ``fd``. Raises OSError or ValueError when this is not a directory."""

    def find(self, owner: bytes, number: int) -> Entry | None: ...
    def stands(self, entry: Entry) -> bool:
        """Return whether the entry has not been withdrawn. Bytes that were copied before are the object's if it has
        not."""
