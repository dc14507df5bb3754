"""The store reports how full the disk is to which it moves objects."""

from __future__ import annotations

import os
from pathlib import Path

from scaler_protocol.objects.spilling import Disk
from tests.support.waiting import wait_until
from tests.unit.objects.conftest import Connect


def test_the_space_of_a_directory_that_does_not_exist_yet_is_that_of_its_file_system(tmp_path: Path) -> None:
    disk = Disk(lambda number: -1)
    assert disk.space == (0, 0)
    disk.use_directory(str(tmp_path / "not" / "yet"))
    disk.measure()
    wait_until(lambda: disk.space != (0, 0))
    found = os.statvfs(tmp_path)
    assert disk.space[1] == found.f_blocks * found.f_frsize and 0 < disk.space[0] <= disk.space[1]
    disk.close()
    os.close(disk.fd)


def test_a_store_reports_it(connect: Connect) -> None:
    store = connect()
    wait_until(lambda: 0 < store.status(30).disk_free_bytes <= store.status(30).disk_capacity_bytes)
