"""Another user has taken the place of a directory that processes of a user share: nothing is removed there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from scaler_worker import module_cache, package_cache

CACHES = {
    "modules": (module_cache.cache_directory, module_cache.remove_unused),
    "packages": (package_cache.cache_directory, lambda: package_cache.remove_unused(0)),
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory whose files have names as in such a cache."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    project = tmp_path / "project"
    for name in ("uv", "uv.d"):
        (project / name).mkdir(parents=True)
    (project / "uv.lock").touch()
    return project


@pytest.mark.parametrize("directory, remove_unused", CACHES.values(), ids=CACHES)
def test_a_link_in_place_of_a_cache_is_not_followed(
    directory: Callable[[], str], remove_unused: Callable[[], None], project: Path
) -> None:
    os.symlink(project, directory())
    remove_unused()
    assert sorted(each.name for each in project.iterdir()) == ["uv", "uv.d", "uv.lock"]


@pytest.mark.parametrize("directory, remove_unused", CACHES.values(), ids=CACHES)
def test_a_cache_that_others_can_write_is_left_alone(
    directory: Callable[[], str], remove_unused: Callable[[], None], project: Path
) -> None:
    project.rename(directory())
    os.chmod(directory(), 0o777)
    remove_unused()
    assert sorted(os.listdir(directory())) == ["uv", "uv.d", "uv.lock"]
    os.chmod(directory(), 0o700)
    remove_unused()
    assert not os.path.exists(f"{directory()}/uv.lock")
