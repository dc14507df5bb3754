"""Folders for keys, next to those of killed processes and of other users."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler_protocol import private_folder
from scaler_protocol.private_folder import MemoryFolder, PrivateFolder
from tests.support import leftovers
from tests.support.users import as_nobody, needs_root


@pytest.fixture
def parent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """All users may write there, as to /dev/shm."""
    tmp_path.chmod(0o1777)
    monkeypatch.setattr(private_folder, "_MEMORY", tmp_path)
    yield tmp_path


def make_abandoned(name: str) -> None:
    """Like the folder of a killed process. Every user may change it."""
    os.umask(0)
    os.mkdir(name)
    os.close(os.open(f"{name}/lock", os.O_CREAT | os.O_RDWR, 0o666))


def test_a_folder_of_a_killed_process_is_removed(parent: Path) -> None:
    abandoned = parent / f"scaler-keys-{os.geteuid()}-killed"
    mask = os.umask(0)
    make_abandoned(str(abandoned))
    os.umask(mask)
    made = MemoryFolder({"key": b"secret"})
    assert list(parent.iterdir()) == [made.path]
    made.remove()


@needs_root
def test_a_folder_of_another_user_is_left_alone(parent: Path) -> None:
    descriptor = os.open(parent, os.O_RDONLY)  # others may not enter the folders above
    name = f"scaler-keys-{os.geteuid()}-theirs"

    def make() -> None:
        os.fchdir(descriptor)
        make_abandoned(name)

    assert os.waitpid(as_nobody(make), 0)[1] == 0
    os.close(descriptor)
    made = MemoryFolder({"key": b"secret"})
    assert (parent / name / "lock").exists()
    made.remove()


def test_folders_with_another_prefix_and_of_running_processes_are_left_alone(tmp_path: Path) -> None:
    mask = os.umask(0)
    make_abandoned(str(tmp_path / "lsf-keys-killed"))
    make_abandoned(str(tmp_path / "slurm-keys-killed"))
    os.umask(mask)
    first, second = PrivateFolder(tmp_path, "slurm-keys-"), PrivateFolder(tmp_path, "slurm-keys-")
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "lsf-keys-killed", first.path, second.path])
    first.remove()
    second.remove()
    assert list(tmp_path.iterdir()) == [tmp_path / "lsf-keys-killed"]


def test_without_locks_a_folder_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    with monkeypatch.context() as patch:
        patch.setattr(private_folder.fcntl, "flock", refuse)
        running = PrivateFolder(tmp_path, "slurm-keys-")
        other = PrivateFolder(tmp_path, "slurm-keys-")
    PrivateFolder(tmp_path, "slurm-keys-").remove()
    assert sorted(tmp_path.iterdir()) == sorted([running.path, other.path])
    running.remove()
    other.remove()
    assert not list(tmp_path.iterdir())


def test_the_tests_see_who_uses_a_folder(parent: Path) -> None:
    """A folder of another test run is nothing that a test left behind."""
    made = MemoryFolder({"key": b"secret"})
    assert leftovers.uses(os.getpid(), str(made.path))
    made.remove()
    assert not leftovers.uses(os.getpid(), str(made.path))
