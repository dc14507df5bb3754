"""The other distributions of Scaler, which an application that only connects does not need."""

from __future__ import annotations

import importlib
from typing import Any


def load_sibling(module: str, name: str) -> Any:
    """Raises ImportError saying what to install."""
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module:
            raise
        raise ImportError(f"{name} needs {module}: pip install 'scaler-client[local]'") from None
