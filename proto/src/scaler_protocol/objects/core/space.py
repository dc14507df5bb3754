"""The free places in the segments.

Segments are memory files; an extent is a run of whole pages in one. Each segment knows which of its pages the system
has reserved for it: those are warm, and the best to be used again. A hole is a run of pages in no extent.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field

PAGE_BYTES = 4096
SEGMENT_BYTES = 64 * 1024 * 1024
_CANDIDATES = 16  # holes looked at for a warm one


def pages(size: int) -> int:
    """Return how many bytes an object of this size takes: whole pages, at least one."""
    return max(PAGE_BYTES, -(-size // PAGE_BYTES) * PAGE_BYTES)


@dataclass(frozen=True, slots=True)
class Extent:
    """``fresh``: not all of its pages were reserved when it was given out."""

    segment: int
    offset: int
    size: int
    fresh: bool = False

    @property
    def end(self) -> int:
        return self.offset + self.size


@dataclass(slots=True)
class Segment:
    number: int
    size: int
    reserved: bytearray  # per page: 1 when the system keeps memory for it
    holes: dict[int, int] = field(default_factory=dict)  # where it begins, and its size
    ends: dict[int, int] = field(default_factory=dict)  # where it ends, and where it begins

    @property
    def is_large(self) -> bool:
        """Made for one object; small ones do not take its room while it may be wanted again."""
        return self.size > SEGMENT_BYTES

    @property
    def is_empty(self) -> bool:
        return self.holes.get(0) == self.size

    def cold_bytes(self, offset: int, size: int) -> int:
        return self.reserved.count(0, offset // PAGE_BYTES, (offset + size) // PAGE_BYTES) * PAGE_BYTES

    def warm(self, offset: int, size: int) -> None:
        """The system keeps memory for these pages from now on."""
        self._mark(offset, size, b"\1")

    def cool(self, offset: int, size: int) -> None:
        """The system keeps no memory for these pages any more."""
        self._mark(offset, size, b"\0")

    def _mark(self, offset: int, size: int, mark: bytes) -> None:
        first, count = offset // PAGE_BYTES, size // PAGE_BYTES
        self.reserved[first : first + count] = mark * count


class Space:
    """All segments of a store. ``reserved_bytes``: what the system keeps for them; ``used_bytes``: in extents."""

    def __init__(self) -> None:
        self.segments: dict[int, Segment] = {}
        self.reserved_bytes = 0
        self.used_bytes = 0
        self._holes: list[tuple[int, int, int]] = []  # size, segment, offset
        self._next_number = 1

    # ---- taking --------------------------------------------------------------------------------------------------

    def find(self, size: int) -> Extent | None:
        """Room of ``size`` bytes (whole pages) that ``take`` can take; None: there is no such hole."""
        start = bisect.bisect_left(self._holes, (size, 0, 0))
        best: Extent | None = None
        for hole_size, number, offset in self._holes[start : start + _CANDIDATES]:
            segment = self.segments[number]
            if segment.is_large and size < segment.size // 2:
                continue
            fresh = segment.cold_bytes(offset, size) > 0
            if not fresh:
                return Extent(number, offset, size)
            best = best or Extent(number, offset, size, True)
            if hole_size > 2 * size + SEGMENT_BYTES // 4:
                break
        return best

    def cold_bytes(self, extent: Extent) -> int:
        """Return how much more the system would have to reserve for it."""
        return self.segments[extent.segment].cold_bytes(extent.offset, extent.size)

    def take(self, extent: Extent) -> None:
        """It begins where a hole begins."""
        segment = self.segments[extent.segment]
        size = segment.holes[extent.offset]
        self._remove_hole(segment, extent.offset)
        if size > extent.size:
            self._add_hole(segment, extent.end, size - extent.size)
        if extent.fresh:
            self.reserved_bytes += segment.cold_bytes(extent.offset, extent.size)
            segment.warm(extent.offset, extent.size)
        self.used_bytes += extent.size

    def add_segment(self, size: int) -> Segment:
        """One that has room for an extent of ``size`` bytes."""
        whole = SEGMENT_BYTES if size <= SEGMENT_BYTES else -(-size // (1 << 20)) * (1 << 20)
        segment = Segment(self._next_number, whole, bytearray(whole // PAGE_BYTES))
        self._next_number += 1
        self.segments[segment.number] = segment
        self._add_hole(segment, 0, whole)
        return segment

    # ---- giving back ---------------------------------------------------------------------------------------------

    def free(self, extent: Extent) -> None:
        """Join the extent with adjacent holes; its pages stay warm."""
        segment = self.segments[extent.segment]
        offset, size = extent.offset, extent.size
        if extent.end in segment.holes:
            size += self._remove_hole(segment, extent.end)
        if offset in segment.ends:
            before = segment.ends[offset]
            size += self._remove_hole(segment, before)
            offset = before
        self._add_hole(segment, offset, size)
        self.used_bytes -= extent.size

    def cool(self, extent: Extent) -> None:
        """The system takes the memory of this run of pages back."""
        segment = self.segments[extent.segment]
        self.reserved_bytes -= extent.size - segment.cold_bytes(extent.offset, extent.size)
        segment.cool(extent.offset, extent.size)

    def warm_run(self, limit: int) -> Extent | None:
        """Some pages, of at most ``limit`` bytes, that are in no extent and keep memory."""
        for size, number, offset in self._holes:
            first = self.segments[number].reserved.find(1, offset // PAGE_BYTES, (offset + size) // PAGE_BYTES)
            if first >= 0:
                return Extent(number, first * PAGE_BYTES, min(limit, offset + size - first * PAGE_BYTES))
        return None

    def warm_holes(self) -> list[Extent]:
        """Runs of pages that are in no extent and keep memory, the largest first."""
        found = []
        for size, number, offset in reversed(self._holes):
            if self.segments[number].cold_bytes(offset, size) < size:
                found.append(Extent(number, offset, size))
        return found

    def empty_segments(self) -> list[int]:
        """Return the segments without extents."""
        return [number for number, segment in self.segments.items() if segment.is_empty]

    def remove_segment(self, number: int) -> None:
        segment = self.segments[number]
        self.reserved_bytes -= segment.size - segment.cold_bytes(0, segment.size)
        self._remove_hole(segment, 0)
        del self.segments[number]

    def _add_hole(self, segment: Segment, offset: int, size: int) -> None:
        segment.holes[offset] = size
        segment.ends[offset + size] = offset
        bisect.insort(self._holes, (size, segment.number, offset))

    def _remove_hole(self, segment: Segment, offset: int) -> int:
        size = segment.holes.pop(offset)
        del segment.ends[offset + size]
        del self._holes[bisect.bisect_left(self._holes, (size, segment.number, offset))]
        return size

    # ---- invariants ----------------------------------------------------------------------------------------------

    def check(self, extents: list[Extent]) -> None:
        """``extents`` are all that were taken and not freed: with the holes they cover every segment exactly once."""
        runs: dict[int, list[tuple[int, int]]] = {number: [] for number in self.segments}
        for extent in extents:
            runs[extent.segment].append((extent.offset, extent.size))
            assert self.cold_bytes(extent) == 0, "an extent has pages that are not reserved"
        for number, segment in self.segments.items():
            runs[number].extend(segment.holes.items())
            assert segment.ends == {offset + size: offset for offset, size in segment.holes.items()}
            position = 0
            for offset, size in sorted(runs[number]):
                assert offset == position, "runs of pages overlap or leave a gap"
                position += size
            assert position == segment.size
            assert not [end for end in segment.ends if end in segment.holes], "holes side by side"
        holes = [(size, each.number, offset) for each in self.segments.values() for offset, size in each.holes.items()]
        assert sorted(holes) == self._holes
        assert self.used_bytes == sum(extent.size for extent in extents)
        assert self.reserved_bytes == sum(each.reserved.count(1) * PAGE_BYTES for each in self.segments.values())
