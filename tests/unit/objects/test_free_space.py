"""Room for the objects of one store in another one: in its memory, and on the disk to which it spills."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler_protocol.messages import ObjectKey, StoreCreate, StoreDrop, StoreSeal, StoreStatus
from scaler_protocol.objects.core.sizes import Sizes
from scaler_protocol.objects.core.store import StoreCore
from scaler_protocol.objects.free_space import disk_reserve_bytes, fits

GIB = 1 << 30
STORE = StoreStatus(b"s" * 16, 1, "", 5, 2 * GIB, 2 * GIB, 4 * GIB, 0, 0, 0, 0)
"""Half full, without a disk that is known."""

WITH_DISK = replace(STORE, disk_free_bytes=50 * GIB, disk_capacity_bytes=100 * GIB)


def objects(used: float, spilled: float = 0, largest: float = 0) -> StoreStatus:
    return replace(
        STORE, used_bytes=int(used * GIB), spilled_bytes=int(spilled * GIB), largest_bytes=int(largest * GIB)
    )


def test_memory_alone_has_room_for_what_is_free_in_it() -> None:
    assert fits(objects(1, 1), STORE) and not fits(objects(1, 1.5), STORE)


def test_what_memory_has_no_room_for_goes_to_the_disk_except_for_its_reserve() -> None:
    assert fits(objects(1, 46, largest=1), WITH_DISK)
    assert not fits(objects(1, 46.1, largest=1), WITH_DISK)


def test_an_object_that_does_not_fit_into_the_memory_does_not_fit_onto_the_disk() -> None:
    assert fits(objects(10, largest=2), WITH_DISK)
    assert not fits(objects(10, largest=2.5), WITH_DISK)
    assert fits(objects(2, largest=2), replace(WITH_DISK, used_bytes=0)), "it needs no disk"


def test_of_a_store_that_does_not_say_what_its_largest_object_is_all_is_one_object() -> None:
    assert not fits(objects(10), WITH_DISK)
    assert fits(objects(1, 1), replace(WITH_DISK, used_bytes=4 * GIB))


def test_a_store_whose_limit_was_lowered_has_no_room() -> None:
    assert not fits(objects(1), replace(STORE, used_bytes=8 * GIB))


@pytest.mark.parametrize(("capacity", "reserve"), [(0, 0), (100 * GIB, 5 * GIB), (1000 * GIB, 10 * GIB)])
def test_a_part_of_each_disk_is_left_to_others(capacity: int, reserve: int) -> None:
    assert disk_reserve_bytes(capacity) == reserve


def test_the_largest_size_is_known_within_a_factor_of_two() -> None:
    sizes = Sizes()
    assert sizes.largest_bytes == 0
    for size in (0, 5, 1000, 5):
        sizes.add(size)
        sizes.check([0, 5, 1000, 5][: sum(sizes._counts)])
    assert 1000 <= sizes.largest_bytes < 2000
    sizes.remove(1000)
    assert 5 <= sizes.largest_bytes < 10
    for size in (5, 5, 0):
        sizes.remove(size)
    assert sizes.largest_bytes == 0


def test_a_store_says_how_large_its_largest_object_is_at_most() -> None:
    store = StoreCore(b"s" * 16, 1, GIB)
    store.on_connected(1)
    for number, size in enumerate((40_000, 3_000_000)):
        key = ObjectKey(b"o" * 16, number)
        for body in (StoreCreate(key, size), StoreSeal(key)):
            store.on_message(1, body, 0.0)
        store.check()
    assert 3_000_000 <= store.status().largest_bytes < 6_000_000
    store.on_message(1, StoreDrop((ObjectKey(b"o" * 16, 1),)), 0.0)
    assert 40_000 <= store.status().largest_bytes < 80_000
    store.check()
