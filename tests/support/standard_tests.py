"""The standard library's own tests of executors. Many installations of Python come without them; Debian has them in a
package of their own (libpython3.11-testsuite), for its version of Python."""

from __future__ import annotations

import atexit
import importlib
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

_NAME = "test.test_concurrent_futures"
_OF_DEBIAN = Path(f"/usr/lib/python3.{sys.version_info.minor}/test")


def find_standard_tests() -> dict[str, str] | None:
    """Make the tests importable in this process, until it ends. Returns the environment variables with which other
    processes find them; None if this machine does not have them."""
    if _is_installed():
        return {}
    if not _OF_DEBIAN.is_dir():
        return None
    directory = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, directory)
    Path(directory, "test").symlink_to(_OF_DEBIAN)
    sys.path.insert(0, directory)
    for name in [each for each in sys.modules if each.partition(".")[0] == "test"]:
        del sys.modules[name]
    return {"PYTHONPATH": directory}


def _is_installed() -> bool:
    try:
        importlib.import_module(_NAME)
    except ModuleNotFoundError:
        return False
    return True


def standard_module(subject: str) -> Any:
    """Newer versions of Python have a module for each subject, older ones a single module."""
    package = importlib.import_module(_NAME)
    return importlib.import_module(f"{_NAME}.{subject}") if hasattr(package, "__path__") else package
