"""The unrelated distribution that installs a package of the same name."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from scaler.utility.foreign import check_not_overwritten
from scaler.utility.siblings import load_sibling


class Foreign:
    version = "9.9"

    def __init__(self, root: Path) -> None:
        self._root = root

    def locate_file(self, path: str) -> Path:
        return self._root / path


def test_files_of_the_foreign_distribution_among_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(metadata, "distribution", lambda name: Foreign(tmp_path))
    with pytest.raises(ImportError, match="pip uninstall scaler"):
        check_not_overwritten(tmp_path / "scaler")


def test_a_foreign_distribution_elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(metadata, "distribution", lambda name: Foreign(tmp_path / "other"))
    check_not_overwritten(tmp_path / "scaler")


def test_no_foreign_distribution(tmp_path: Path) -> None:
    check_not_overwritten(tmp_path / "scaler")


def test_a_missing_sibling_says_what_to_install() -> None:
    with pytest.raises(ImportError, match=r"pip install 'scaler-client\[local\]'"):
        load_sibling("scaler_not_there", "Cluster")
