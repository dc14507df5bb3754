"""What an application that only connects is told when it needs another distribution."""

from __future__ import annotations

import sys

import pytest

from scaler.utility.siblings import load_sibling


@pytest.mark.parametrize("module", ["scaler_absent", "scaler_absent.manager.kinds"])
def test_a_missing_distribution_is_named(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "scaler_absent", raising=False)
    with pytest.raises(ImportError, match=r"KINDS needs scaler_absent: pip install 'scaler-client\[local\]'"):
        load_sibling(module, "KINDS")


def test_another_missing_module_is_not_taken_for_it() -> None:
    with pytest.raises(ModuleNotFoundError, match="scaler_worker.nothing"):
        load_sibling("scaler_worker.nothing", "KINDS")
