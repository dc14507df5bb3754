"""The other distributions of Scaler, which an application that only connects does not need."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any


def load_sibling(module: str, name: str) -> Any:
    """Raises ImportError saying what to install."""
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        distribution = module.partition(".")[0]
        if error.name != distribution:
            raise
        raise ImportError(_hint(name, distribution)) from None


def require_siblings(name: str) -> None:
    """Raises ImportError saying what to install, without importing anything."""
    for module in ("scaler_scheduler", "scaler_worker"):
        if importlib.util.find_spec(module) is None:
            raise ImportError(_hint(name, module))


def _hint(name: str, module: str) -> str:
    return f"{name} needs {module}: pip install 'scaler-client[local]'"
