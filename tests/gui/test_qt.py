"""Whether the tests beside this one can run."""

from __future__ import annotations

import pytest


def test_qt_is_there() -> None:
    try:
        import PySide6.QtWidgets
        import pytestqt  # noqa: F401
    except ImportError as error:
        pytest.skip(f"the tests of scaler_gui need Qt and pytest-qt: {error}")
    assert PySide6.QtWidgets
