"""An unrelated distribution on the package index, ``scaler``, also installs a package of our name."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

_FOREIGN = "scaler"


def check_not_overwritten(package: Path) -> None:
    """Raises ImportError when files of the foreign distribution lie in ``package``, our own folder: then neither
    works."""
    try:
        foreign = metadata.distribution(_FOREIGN)
    except metadata.PackageNotFoundError:
        return
    if Path(str(foreign.locate_file(package.name))).resolve() == package.resolve():
        raise ImportError(
            f"The unrelated distribution 'scaler' {foreign.version} has overwritten files of scaler-client: run "
            "pip uninstall scaler, then pip install --force-reinstall scaler-client."
        )
