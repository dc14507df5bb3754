"""Compiled code checks what it reads attributes of: a None raises AttributeError and never crashes the process."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.architecture.sources import REPOSITORY, SOURCE_FOLDERS

COMPILED = sorted({path for folder in SOURCE_FOLDERS for path in folder.rglob("*.pyx")})
BUILDS = sorted({folder.parent / "setup.py" for folder in SOURCE_FOLDERS if any(folder.rglob("*.pyx"))})


def test_there_is_compiled_code() -> None:
    assert len(COMPILED) > 20 and len(BUILDS) == 3


@pytest.mark.parametrize("build", BUILDS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_none_is_checked_everywhere(build: Path) -> None:
    assert '"nonecheck": True' in build.read_text(encoding="utf-8")


def test_no_module_goes_without() -> None:
    assert not [path for path in COMPILED if re.search(r"nonecheck\W*False", path.read_text(encoding="utf-8"))]


def test_a_none_raises() -> None:
    from scaler_scheduler.core.assignments import assign_queued
    from scaler_scheduler.core.data_locations import DataLocations
    from scaler_scheduler.core.priority_queues import QueueClass

    queue = QueueClass((), 0)
    queue.count = 1
    with pytest.raises(AttributeError, match="'NoneType' object has no attribute"):
        assign_queued(queue, None, DataLocations({}, 1.0), 1)  # type: ignore[arg-type]
