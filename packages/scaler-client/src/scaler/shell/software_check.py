"""Warns when tasks run with other software than the program that submits them."""

from __future__ import annotations

import logging

from scaler.core.effects import CompareSoftware
from scaler.core.software_differences import differences
from scaler_protocol.host_software import loaded_packages, this_machine, this_python

_logger = logging.getLogger("scaler")
_said: set[str] = set()


def compare_software(effect: CompareSoftware) -> None:
    """Each difference is logged once in this process. Packages count that this process has imported by now."""
    packages = {} if effect.has_environment else loaded_packages()
    for text in differences(effect.workers, this_python(), this_machine(), packages):
        if text not in _said:
            _said.add(text)
            _logger.warning(text)
