"""The files of modules that clients have sent."""

from __future__ import annotations

import dataclasses
import io
import os
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from scaler_protocol.shipping.modules import ShippedModule
from scaler_worker.module_cache import acquire, cache_directory, remove_unused


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def module(text: str) -> ShippedModule:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as writer:
        writer.writestr("local.py", text)
    return ShippedModule.of("local", archive.getvalue())


def test_equal_modules_share_their_files_until_the_last_is_released() -> None:
    first, second = acquire(module("a = 1")), acquire(module("a = 1"))
    assert first.path == second.path
    first.release()
    assert Path(second.path, "local.py").read_text() == "a = 1"
    second.release()
    assert os.listdir(cache_directory()) == []


def test_an_archive_under_the_digest_of_another_is_refused() -> None:
    forged = dataclasses.replace(module("a = 2"), digest=module("a = 1").digest)
    with pytest.raises(ValueError, match="its files do not match their digest"):
        acquire(forged)
    held = acquire(module("a = 1"))
    assert Path(held.path, "local.py").read_text() == "a = 1"
    held.release()


def test_a_path_out_of_the_directory_stays_inside() -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as writer:
        writer.writestr("../../outside.py", "a = 1")
    held = acquire(ShippedModule.of("local", archive.getvalue()))
    assert [path.name for path in Path(held.path).rglob("*.py")] == ["outside.py"]
    held.release()


def test_a_directory_that_others_can_write_to_is_refused() -> None:
    os.mkdir(cache_directory(), 0o777)
    os.chmod(cache_directory(), 0o777)
    with pytest.raises(PermissionError, match="another user can write to it"):
        acquire(module("a = 1"))


def test_a_link_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    """Another user may have made it first, where everyone can."""
    (tmp_path / "elsewhere").mkdir()
    os.symlink(tmp_path / "elsewhere", cache_directory())
    with pytest.raises(PermissionError, match="another user can write to it"):
        acquire(module("a = 1"))
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize(
    "damage", [lambda data: b"", lambda data: data[:-8], lambda data: data.replace(b"a = 1", b"a = 2")]
)
def test_a_damaged_archive_leaves_nothing(damage: Callable[[bytes], bytes]) -> None:
    broken = ShippedModule.of("local", damage(module("a = 1").archive))
    with pytest.raises(ValueError, match="its archive is damaged"):
        acquire(broken)
    assert [each for each in os.listdir(cache_directory()) if not each.endswith(".lock")] == []


def test_a_host_without_a_directory_for_temporary_files_has_nothing_to_remove(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> NoReturn:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", refuse)
    remove_unused()
