"""The software and the machine of this process: what workers report to their scheduler, and clients compare."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from scaler_protocol.messages import HostSoftware

PACKAGES = ("cloudpickle", "numpy", "pandas", "pyarrow", "polars", "torch", "scikit-learn", "dask")
"""Their values often travel as arguments and results."""

_MODULES = {"scikit-learn": "sklearn"}
_X86_LEVELS: tuple[tuple[str, frozenset[str]], ...] = (
    ("x86_64-v2", frozenset(["cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"])),
    ("x86_64-v3", frozenset(["abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"])),
    ("x86_64-v4", frozenset(["avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"])),
)
"""The levels of the x86-64 psABI, by the names of the features in /proc/cpuinfo. Each includes those before it."""


def installed_software(host: str) -> HostSoftware:
    """Return the software of this interpreter, with the packages that are installed, although they may not be
    loaded."""
    import importlib.metadata  # takes a while, and clients do not need it

    packages = []
    for name in PACKAGES:
        try:
            packages.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return HostSoftware(host, this_python(), this_machine(), tuple(packages))


def loaded_packages() -> dict[str, str]:
    """The versions of those of ``PACKAGES`` that this process has imported."""
    found = {}
    for name in PACKAGES:
        version = getattr(sys.modules.get(_MODULES.get(name, name)), "__version__", None)
        if isinstance(version, str):
            found[name] = version
    return found


def this_python() -> str:
    """The version of this interpreter: 3.12.1."""
    return ".".join(map(str, sys.version_info[:3]))


def this_machine() -> str:
    """The architecture, with the level of its features where there are levels: x86_64-v3."""
    machine = os.uname().machine if hasattr(os, "uname") else ""
    return machine_with(machine, _processor_features()) if machine == "x86_64" else machine


def machine_with(machine: str, features: Iterable[str]) -> str:
    """``machine`` at the highest level whose features, and those of all lower levels, are among ``features``."""
    present = frozenset(features)
    for name, needed in _X86_LEVELS:
        if not needed <= present:
            break
        machine = name
    return machine


def _processor_features() -> list[str]:
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
            return _flags_in(lines)
    except OSError:
        return []


def _flags_in(lines: Iterable[str]) -> list[str]:
    for line in lines:
        if line.startswith("flags"):
            return line.partition(":")[2].split()
    return []
