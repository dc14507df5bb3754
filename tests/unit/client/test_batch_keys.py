"""Keys that clusters in batch systems make on the disk that the nodes share."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from scaler.cluster.batch import remove_leftovers


def test_keys_of_programs_that_were_killed_on_this_host_are_removed(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    names = [
        f"slurm-keys-here-{ended.pid}-a",
        f"slurm-keys-here-{os.getpid()}-b",
        f"slurm-keys-there-{ended.pid}-c",
        "slurm-keys-here-d",
        f"lsf-keys-here-{ended.pid}-e",
    ]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "work.key").touch()
    remove_leftovers(tmp_path, "slurm-keys-here-")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names[1:])
