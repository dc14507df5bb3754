"""Decides which object gets memory, and which objects spill to disk for it.

A request for room is granted at once, or waits: first memory that is in no extent is given back to the system, then the
objects that were used least recently go to disk. Requests are granted in the order in which they arrived.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass

from scaler_protocol.messages import StoreFailure
from scaler_protocol.objects.core.effects import (
    CloseSegment,
    DirectoryChange,
    Effect,
    Load,
    MakeSegment,
    Publish,
    Punch,
    RemoveFile,
    Spill,
    Unpublish,
)
from scaler_protocol.objects.core.object import Object
from scaler_protocol.objects.core.space import Extent, Space, pages

FULL_SECONDS = 10.0
"""Seconds for which a request waits for others to release memory if no object can be moved to the disk."""

IDLE_SECONDS = 10.0
"""Memory that was in no extent for this long is given back to the system."""

_PIECE_BYTES = 64 * 1024 * 1024

REGION_SHARE = 32
"""No peer holds a larger part of the memory ahead of need."""

PUBLISHED_BYTES = 256 * 1024
"""Smaller objects are published, and copied by their readers; larger ones are mapped, which needs a pin."""

PINNED_SHARE = 2
"""The part of the memory beyond which nothing more is mapped: the rest is for what tasks make and need."""


@dataclass(slots=True, eq=False)
class RoomRequest:
    """Room for ``object``, to be written or to come back from the disk."""

    object: Object
    deadline: float


@dataclass(frozen=True, slots=True)
class Refusal:
    failure: StoreFailure
    text: str


class Memory:
    """``granted`` collects the objects that got their extent, and those that will not."""

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self.space = Space()
        self.effects: list[Effect] = []
        self.directory_changes: list[DirectoryChange] = []
        """Changes to be carried out in order, before the effects and before any byte is written into an extent."""
        self.granted: list[tuple[Object, Refusal | None]] = []
        self.spilled_bytes = 0
        self._requests: deque[RoomRequest] = deque()
        self._idle: OrderedDict[int, Object] = OrderedDict()  # by number, the least recently used first
        self._moving: dict[int, Object] = {}  # by number
        self._leaving_bytes = 0
        self._disk_text = ""  # why the disk took nothing
        self._touched = 0.0

    # ---- room ----------------------------------------------------------------------------------------------------

    def ask(self, wanted: Object, now: float) -> None:
        """``granted`` will have it, after this or a later call."""
        if pages(wanted.size) > self.capacity_bytes:
            self.granted.append((wanted, self._too_large(wanted.size)))
            return
        self._requests.append(RoomRequest(wanted, now + FULL_SECONDS))
        self.serve(now)

    def cancel(self, unwanted: Object) -> None:
        """It needs no room any more."""
        self._requests = deque(request for request in self._requests if request.object is not unwanted)

    @property
    def pinned_limit_bytes(self) -> int:
        return self.capacity_bytes // PINNED_SHARE

    def region(self, size: int, now: float) -> Extent | None:
        """Room ahead of need: only what is there."""
        if self._requests:
            return None
        limit = self.capacity_bytes // REGION_SHARE
        return self._take(pages(min(size, limit)), now) if limit >= pages(1) else None

    def serve(self, now: float) -> None:
        """Grant the requests that can be granted, the oldest first."""
        while self._requests:
            request = self._requests[0]
            extent = self._take(pages(request.object.size), now)
            if extent is None and not self._make_room(pages(request.object.size)):
                break
            if extent is not None:
                self._requests.popleft()
                request.object.extent = extent
                self.granted.append((request.object, None))
                self._load(request.object)

    def _take(self, size: int, now: float) -> Extent | None:
        extent = self.space.find(size)
        excess = self.space.reserved_bytes - self.capacity_bytes
        excess += self.space.cold_bytes(extent) if extent is not None else size
        if excess > 0 and self._trim(excess, extent) < excess:
            return None
        if extent is None:
            segment = self.space.add_segment(size)
            self.effects.append(MakeSegment(segment.number, segment.size))
            extent = Extent(segment.number, 0, size, True)
        self.space.take(extent)
        self._touched = now
        return extent

    def free(self, extent: Extent, now: float, *, written: bool) -> None:
        """Make an extent available to other objects. ``written``: all of its pages are in memory; otherwise a fresh
        extent returns what it has."""
        if extent.fresh and not written:
            self._cool(extent)
        self.space.free(extent)
        self._touched = now

    # ---- the directory -------------------------------------------------------------------------------------------

    def publish(self, object: Object) -> None:
        """Its bytes are in memory, and it may be read."""
        if object.size < PUBLISHED_BYTES and object.extent is not None and not object.published:
            object.published = True
            self.directory_changes.append(Publish(object.key, object.extent, object.size))

    def _unpublish(self, object: Object) -> None:
        if object.published:
            object.published = False
            self.directory_changes.append(Unpublish(object.key))

    def _vacate(self, object: Object, now: float, *, written: bool) -> None:
        """Free the memory of an object. ``written``: as for ``free``."""
        assert object.extent is not None
        self._unpublish(object)
        self.free(object.extent, now, written=written)
        object.extent = None

    # ---- memory without users ------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        deadlines = [self._requests[0].deadline] if self._requests else []
        if self.space.reserved_bytes > self.space.used_bytes or self.space.empty_segments():
            deadlines.append(self._touched + IDLE_SECONDS)
        return min(deadlines, default=None)

    def on_deadline(self, now: float) -> None:
        if now >= self._touched + IDLE_SECONDS:
            self._give_back_some()
        while self._requests and now >= self._requests[0].deadline and not self._moving:
            self._refuse_first()
        self.serve(now)

    def _give_back_some(self) -> None:
        """Not all at once, which would keep peers waiting."""
        idle = self.space.warm_run(_PIECE_BYTES)
        if idle is not None:
            self._cool(idle)
            return
        for number in self.space.empty_segments():
            self.space.remove_segment(number)
            self.effects.append(CloseSegment(number))

    def _trim(self, wanted: int, spare: Extent | None) -> int:
        """Give back memory of holes, but not of that where ``spare`` is; how much it was."""
        given = 0
        for hole in self.space.warm_holes():
            if given >= wanted:
                break
            if spare is None or (hole.segment, hole.offset) != (spare.segment, spare.offset):
                before = self.space.reserved_bytes
                self._cool(hole)
                given += before - self.space.reserved_bytes
        return given

    def _cool(self, extent: Extent) -> None:
        self.space.cool(extent)
        self.effects.append(Punch(extent))

    # ---- objects that may leave ----------------------------------------------------------------------------------

    def rest(self, object: Object) -> None:
        """The object is not in use now."""
        if object.is_idle:
            self._idle[object.number] = object

    def use(self, object: Object) -> None:
        self._idle.pop(object.number, None)

    def release(self, object: Object, now: float) -> None:
        """It was dropped: its memory and its file, once nothing uses them."""
        self._idle.pop(object.number, None)
        self._unpublish(object)
        self.cancel(object)
        if object.pins or object.moving:
            return
        if object.extent is not None:
            self._vacate(object, now, written=object.sealed)
        if object.on_disk:
            self._remove_file(object)
        self.serve(now)

    def _make_room(self, size: int) -> bool:
        """Let the least recently used leave. True: some memory is free now; False: it will be, or never."""
        excess = self.space.reserved_bytes - self._leaving_bytes + size - self.capacity_bytes
        freed = False
        while excess > 0 and self._idle and not self._disk_text:
            _, leaving = self._idle.popitem(last=False)
            assert leaving.extent is not None
            excess -= leaving.extent.size
            if leaving.on_disk:
                self._unpublish(leaving)
                self.space.free(leaving.extent)
                leaving.extent = None
                freed = True
            else:
                self._spill(leaving, leaving.extent)
        if self._disk_text and not self._moving:
            self._refuse_first()
            freed = True
        return freed

    def _refuse_first(self) -> None:
        request = self._requests.popleft()
        self.granted.append((request.object, Refusal(StoreFailure.FULL, self._full_text(request.object.size))))
        if not self._requests:
            self._disk_text = ""  # the next may try the disk again

    # ---- the disk ------------------------------------------------------------------------------------------------

    def _spill(self, leaving: Object, extent: Extent) -> None:
        leaving.moving = True
        self._moving[leaving.number] = leaving
        self._leaving_bytes += extent.size
        self.effects.append(Spill(leaving.number, extent, leaving.size))

    def on_spilled(self, number: int, error: str, now: float) -> None:
        """``error`` empty: its bytes are on disk."""
        moved = self._moved(number)
        assert moved.extent is not None
        self._leaving_bytes -= moved.extent.size
        if error:
            self._disk_text = error
        else:
            moved.on_disk = True
            self.spilled_bytes += moved.size
            self._disk_text = ""
        if moved.dropped:
            self.release(moved, now)
        elif moved.on_disk and not moved.pins:
            self._vacate(moved, now, written=True)
        else:
            self.rest(moved)
        self.serve(now)

    def _load(self, wanted: Object) -> None:
        if wanted.on_disk and wanted.extent is not None:
            wanted.moving = True
            self._moving[wanted.number] = wanted
            self.effects.append(Load(wanted.number, wanted.extent, wanted.size))

    def on_loaded(self, number: int, error: str, now: float) -> Object:
        """``error``: its bytes are lost."""
        moved = self._moved(number)
        if error and moved.extent is not None:
            self._vacate(moved, now, written=False)
        if moved.dropped:
            self.release(moved, now)
        self.serve(now)
        return moved

    def on_not_loaded(self, wanted: Object, now: float) -> None:
        """There was no room for the object after all: its bytes stay on disk."""
        self._vacate(self._moved(wanted.number), now, written=False)

    def no_memory(self, size: int, reason: str) -> Refusal:
        return Refusal(
            StoreFailure.FULL,
            f"The object store of this host cannot allocate memory for {size:,} bytes from the system: {reason}. End "
            "other programs, or raise its limits.",
        )

    def _moved(self, number: int) -> Object:
        moved = self._moving.pop(number)
        moved.moving = False
        return moved

    def _remove_file(self, object: Object) -> None:
        object.on_disk = False
        self.spilled_bytes -= object.size
        self.effects.append(RemoveFile(object.number))

    # ---- words ---------------------------------------------------------------------------------------------------

    def _too_large(self, size: int) -> Refusal:
        return Refusal(
            StoreFailure.TOO_LARGE,
            f"An object of {size:,} bytes is larger than the whole object store of this host, which holds "
            f"{self.capacity_bytes:,} bytes. Raise --object-store-memory, or make the object smaller.",
        )

    def _full_text(self, size: int) -> str:
        why = f"it cannot be moved to disk ({self._disk_text})" if self._disk_text else "all of it is in use"
        cure = "--spill-directory a disk with free space" if self._disk_text else "tasks fewer objects at a time"
        return (
            f"The object store of this host has no space for {size:,} bytes: its limit is {self.capacity_bytes:,}"
            f" bytes, and {why}. Raise --object-store-memory, or give {cure}."
        )

    # ---- invariants ----------------------------------------------------------------------------------------------

    def check(self, objects: list[Object], regions: list[Extent]) -> None:
        """``objects`` are all there are, dropped ones with pins included; ``regions`` what peers hold ahead of need."""
        extents = [each.extent for each in objects if each.extent is not None]
        self.space.check(extents + regions)
        assert self.space.reserved_bytes <= self.capacity_bytes or not self.effects
        for each in objects:
            if each.published:
                assert each.sealed and each.extent is not None and not each.dropped and each.size < PUBLISHED_BYTES
        idle = {each.number for each in objects if each.is_idle}
        assert set(self._idle) == idle, "idle objects"
        assert self.spilled_bytes == sum(each.size for each in objects if each.on_disk)
        assert {number: each for number, each in self._moving.items() if not each.moving} == {}
        assert self._leaving_bytes == sum(
            each.extent.size for each in self._moving.values() if each.extent is not None and not each.on_disk
        )
        for request in self._requests:
            assert request.object.extent is None
