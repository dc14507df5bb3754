"""Another process of this interpreter that imports what this one can import."""

from __future__ import annotations

import os
import sys

_ORIGINAL = "SCALER_ORIGINAL_PYTHONPATH"


def module_command(module: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """Command line and environment that run ``python -m module`` with this process's ``sys.path``, whatever script,
    REPL or notebook it is. The started program calls ``restore_environment`` first thing."""
    environment = dict(os.environ)
    environment[_ORIGINAL] = environment.get("PYTHONPATH", "")
    environment["PYTHONPATH"] = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
    return [sys.executable, "-P", "-m", module, *arguments], environment


def restore_environment() -> None:
    """Give PYTHONPATH back its value: programs that tasks start must not see this interpreter's path."""
    original = os.environ.pop(_ORIGINAL, None)
    if original is None:
        return
    if original:
        os.environ["PYTHONPATH"] = original
    else:
        os.environ.pop("PYTHONPATH", None)
