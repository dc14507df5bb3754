"""Warns when tasks run with other software than the program that submits them."""

from __future__ import annotations

import logging

from scaler.core.effects import CompareSoftware
from scaler.core.software_differences import differences
from scaler_protocol.command.logs import plain_text
from scaler_protocol.host_software import loaded_packages, this_machine, this_python

_SENTENCES_LIMIT = 100
"""Sentences of this process: workers on ever other hosts must not fill the log."""

_logger = logging.getLogger("scaler")
_said: set[str] = set()


def compare_software(effect: CompareSoftware) -> None:
    """Each difference is logged once in this process. Packages count that this process has imported by now."""
    packages = {} if effect.has_environment else loaded_packages()
    for text in differences(effect.workers, this_python(), this_machine(), packages):
        if text not in _said and len(_said) < _SENTENCES_LIMIT:
            _said.add(text)
            _logger.warning(plain_text(text))
