"""Small objects are written one after another into a region that the store has granted in advance, so that none waits
for an answer. The store is told of many of them with one message."""

from __future__ import annotations

from collections.abc import Sequence

from scaler_protocol.messages import ObjectKey, StorePlace, StorePlaceMany, StoreRegion, StoreReserve
from scaler_protocol.objects.core.space import pages
from scaler_protocol.objects.errors import StoreFull
from scaler_protocol.objects.layout import Part, size_of
from scaler_protocol.objects.link import REGION_KEY, StoreLink

SMALL_BYTES = 1024 * 1024
"""Larger objects are not placed in a region."""

_REGION_BYTES = 4 * 1024 * 1024


StoredParts = tuple[ObjectKey, list[Part]]
"""The key and the parts of an object."""


class Placing:
    """The region of one connection, ``link``, and the objects placed in it. The caller of ``place`` holds a lock."""

    def __init__(self, link: StoreLink) -> None:
        self.link = link
        self._region = StoreRegion(0, 0, 0, 0)
        self._offset = self._rest = 0  # the free part of the region
        self._is_asked = False
        self._untold: list[tuple[ObjectKey, int]] = []  # they follow one another from ``_first`` on
        self._first = 0

    def place(self, objects: Sequence[StoredParts]) -> list[StoredParts]:
        """Write objects, and tell the store of them with the next message. Returns those for which no region has room.
        Raises StoreFull and LinkLost."""
        without_room = []
        try:
            for key, parts in objects:
                size = size_of(parts)
                if not self._make_room(pages(size)):
                    without_room.append((key, parts))
                    continue
                try:
                    self.link.write(self._region, self._offset, parts)
                except OSError as error:
                    raise StoreFull(no_memory(size, error)) from None
                self._advance(key, size)
        finally:
            self._tell()
        return without_room

    def _make_room(self, size: int) -> bool:
        if self._is_asked:
            self._is_asked = False
            self._use(self.link.finish(REGION_KEY))
        if self._rest < size:
            self._tell()
            self._use(self.link.ask(REGION_KEY, StoreReserve(_REGION_BYTES)))
        return self._rest >= size

    def _use(self, region: StoreRegion) -> None:
        self._region, self._offset, self._rest = region, region.offset, region.size

    def _advance(self, key: ObjectKey, size: int) -> None:
        """The next region is asked for before it is needed."""
        if not self._untold:
            self._first = self._offset
        self._untold.append((key, size))
        self._offset += pages(size)
        self._rest -= pages(size)
        if self._rest < pages(size):
            self._tell()
            self.link.begin(REGION_KEY, StoreReserve(_REGION_BYTES))
            self._is_asked = True

    def _tell(self) -> None:
        untold, self._untold = self._untold, []
        if len(untold) > 1 and self.link.takes_many and len({key.owner for key, _ in untold}) == 1:
            numbers, sizes = zip(*((key.number, size) for key, size in untold), strict=True)
            self.link.tell_soon(StorePlaceMany(untold[0][0].owner, numbers, self._first, sizes))
            return
        offset = self._first
        for key, size in untold:
            self.link.tell_soon(StorePlace(key, offset, size))
            offset += pages(size)


def no_memory(size: int, error: OSError) -> str:
    return (
        f"This host has no memory for an object of {size:,} bytes ({error.strerror}). End other programs, or lower "
        "--object-store-memory so that objects go to disk earlier."
    )
