"""An unrelated distribution on the package index, ``scaler``, also installs a package of our name."""

from __future__ import annotations

import os

_PREFIX, _SUFFIX = "scaler-", ".dist-info"


def check_not_overwritten(package: str) -> None:
    """Raises ImportError when files of the foreign distribution lie in ``package``, our own folder: then neither
    works. Its metadata lies next to the package; ``importlib.metadata`` would take a fifth of the import time."""
    try:
        names = os.listdir(os.path.dirname(os.path.abspath(package)))
    except OSError:  # in an archive
        return
    for name in names:
        if name.startswith(_PREFIX) and name.endswith(_SUFFIX):
            version = name[len(_PREFIX) : -len(_SUFFIX)]
            raise ImportError(
                f"The unrelated distribution 'scaler' {version} has overwritten files of scaler-client: run "
                "pip uninstall scaler, then pip install --force-reinstall scaler-client."
            )
