"""A control group with a limit of memory, in which commands can be started."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.waiting import wait_until

ROOT = Path("/sys/fs/cgroup")


@contextmanager
def memory_group(limit_bytes: int) -> Iterator[list[str]]:
    """What the command line of a process in the group begins with. Skips the test where no group can be made."""
    is_first_version = (ROOT / "memory").is_dir()
    folder = _own_folder(is_first_version) / f"scaler-{uuid.uuid4().hex[:8]}"
    name = "memory.limit_in_bytes" if is_first_version else "memory.max"
    try:
        folder.mkdir()
        try:
            (folder / name).write_text(str(limit_bytes))
        except OSError:
            folder.rmdir()
            raise
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        yield ["sh", "-c", f'echo $$ > {folder}/cgroup.procs; exec "$@"', "sh"]
    finally:
        wait_until(lambda: not (folder / "cgroup.procs").read_text())
        folder.rmdir()


def _own_folder(is_first_version: bool) -> Path:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == ("memory" if is_first_version else ""):
            return ROOT / ("memory" if is_first_version else "") / path.strip("/")
    return ROOT
