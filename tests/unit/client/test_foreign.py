"""The unrelated distribution that installs a package of the same name."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaler.utility.foreign import check_not_overwritten
from scaler.utility.siblings import load_sibling


def test_files_of_the_foreign_distribution_among_ours(tmp_path: Path) -> None:
    (tmp_path / "scaler-9.9.dist-info").mkdir()
    with pytest.raises(ImportError, match=r"'scaler' 9\.9 has overwritten .* pip uninstall scaler"):
        check_not_overwritten(str(tmp_path / "scaler"))


def test_distributions_of_ours(tmp_path: Path) -> None:
    for name in ("scaler_client-1.0.dist-info", "scaler_protocol-1.0.dist-info", "scaler"):
        (tmp_path / name).mkdir()
    check_not_overwritten(str(tmp_path / "scaler"))


def test_no_folder_to_look_into(tmp_path: Path) -> None:
    check_not_overwritten(str(tmp_path / "archive.zip" / "scaler"))


def test_a_missing_sibling_says_what_to_install() -> None:
    with pytest.raises(ImportError, match=r"pip install 'scaler-client\[local\]'"):
        load_sibling("scaler_not_there", "Cluster")
