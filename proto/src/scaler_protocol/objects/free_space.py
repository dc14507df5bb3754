"""Computes whether the objects of one store fit into another one, and which part of a disk objects may fill."""

from __future__ import annotations

from scaler_protocol.messages import StoreStatus
from scaler_protocol.objects.core.memory import PINNED_SHARE

_RESERVE_SHARE = 20
_RESERVE_LIMIT_BYTES = 10 * 1024**3


def disk_reserve_bytes(capacity_bytes: int) -> int:
    """Return the free space, in bytes, below which a disk of this size counts as nearly full."""
    return min(capacity_bytes // _RESERVE_SHARE, _RESERVE_LIMIT_BYTES)


def fits(objects: StoreStatus, store: StoreStatus) -> bool:
    """Return whether all objects of one store fit into another one: into its memory, or into memory and disk together
    if none is larger than the memory that is never pinned, since each comes into memory first."""
    wanted_bytes = objects.used_bytes + objects.spilled_bytes
    free_bytes = max(0, store.capacity_bytes - store.used_bytes)
    if wanted_bytes <= free_bytes:
        return True
    largest_bytes = min(objects.largest_bytes or wanted_bytes, wanted_bytes)
    unpinned_bytes = store.capacity_bytes - store.capacity_bytes // PINNED_SHARE
    return largest_bytes <= unpinned_bytes and wanted_bytes <= free_bytes + _spare_disk_bytes(store)


def _spare_disk_bytes(store: StoreStatus) -> int:
    return max(0, store.disk_free_bytes - disk_reserve_bytes(store.disk_capacity_bytes))
