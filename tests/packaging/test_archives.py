"""What is in the archives and wheels, and how they are built."""

from __future__ import annotations

import email
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.packaging.conftest import FOLDERS, Built, build_wheel, copy_sources, pack, source_archive, sources

COMPILED = {"scaler-protocol", "scaler-scheduler", "scaler-worker"}
SMALL_MODULE = "clock.pyx"
"""Of scaler-worker. It needs no other module."""


def names(built: Built, distribution: str) -> list[str]:
    with zipfile.ZipFile(built.wheel(distribution)) as wheel:
        return wheel.namelist()


def metadata(built: Built, distribution: str) -> email.message.Message:
    with zipfile.ZipFile(built.wheel(distribution)) as wheel:
        path = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(wheel.read(path))


@pytest.mark.parametrize("distribution", FOLDERS)
def test_a_wheel_holds_types_and_no_sources(built: Built, distribution: str) -> None:
    found = names(built, distribution)
    assert any(name.endswith("/py.typed") for name in found)
    assert not [name for name in found if name.endswith((".pyx", ".c", ".cpp"))]
    assert any(name.endswith("LICENSE") for name in found)


@pytest.mark.parametrize("distribution", sorted(COMPILED))
def test_every_compiled_module_is_in_the_wheel(built: Built, distribution: str) -> None:
    found = names(built, distribution)
    modules = [path.relative_to(FOLDERS[distribution] / "src") for path in FOLDERS[distribution].rglob("src/**/*.pyx")]
    assert modules
    for module in modules:
        stem = module.with_suffix("").as_posix()
        assert [name for name in found if name.startswith(stem + ".") and name.endswith(".so")], stem
        described = (FOLDERS[distribution] / "src" / module).with_suffix(".pyi").exists()
        assert (stem + ".pyi" in found) == described, "types of what Python modules import"


def test_the_schemas_are_in_the_wheel(built: Built) -> None:
    assert [name for name in names(built, "scaler-protocol") if name.endswith(".capnp")]


@pytest.mark.parametrize("distribution", FOLDERS)
def test_siblings_are_required_by_range(built: Built, distribution: str) -> None:
    required = metadata(built, distribution).get_all("Requires-Dist") or []
    for requirement in [line for line in required if line.startswith("scaler-") and "[" not in line.split(";")[0]]:
        assert ">=" in requirement and "<" in requirement.replace("<=", ""), requirement
    assert not [line for line in required if "==" in line.split(";")[0]]


@pytest.mark.parametrize("distribution", FOLDERS)
def test_metadata(built: Built, distribution: str) -> None:
    fields = metadata(built, distribution)
    assert fields["Name"] == distribution
    assert fields["License-Expression"] == "Apache-2.0"
    assert fields["Requires-Python"] == ">=3.11"
    assert f"## {fields['Version']}" in (FOLDERS[distribution] / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("distribution", FOLDERS)
def test_an_archive_holds_every_source_and_nothing_generated(distribution: str, tmp_path: Path) -> None:
    with tarfile.open(source_archive(distribution, tmp_path)) as archive:
        files = {Path(*Path(member.name).parts[1:]) for member in archive if member.isfile()}
    assert sources(distribution) <= files
    assert not [path for path in files if path.suffix in (".c", ".cpp", ".so")]


def test_a_failed_compile_fails_the_build(tmp_path: Path) -> None:
    """With one module: every module of an archive is translated before the compiler is called for the first."""
    copy = copy_sources("scaler-worker", tmp_path)
    for path in copy.rglob("*.pyx"):
        if path.name != SMALL_MODULE:
            path.unlink()
    archive = pack(copy)
    assert build_wheel(archive, tmp_path / "compiled").returncode == 0
    assert build_wheel(archive, tmp_path / "failed", CC="/bin/false").returncode != 0
    assert not list((tmp_path / "failed").glob("*.whl"))
