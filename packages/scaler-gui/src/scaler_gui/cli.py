"""The command ``scaler_gui``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from scaler_gui import __version__
from scaler_gui.config import GuiSettings
from scaler_protocol.command import BadInput, run_command
from scaler_protocol.monitor.past import GO_TO_TEXT

_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    run_command(
        GuiSettings,
        run,
        program="scaler_gui",
        section="gui",
        description="Show the state of a Scaler cluster in a window. Without ADDRESS, it asks for one.",
        version=__version__,
        distribution="scaler-gui",
        arguments=arguments,
    )


def run(settings: GuiSettings) -> int:
    """The exit code."""
    if settings.address is not None:
        _check_address(settings.address)
    if settings.go_to is not None and settings.replay is None:
        raise BadInput(GO_TO_TEXT)
    _check_display()
    # Here, because -h and bad input need no window.
    try:
        from scaler_gui.application import run_application
    except ImportError as error:
        raise BadInput(f"Cannot load Qt: {error}. Install the libraries that the README of scaler-gui lists.") from None
    return run_application(settings)


def _check_display() -> None:
    """Qt would abort the process without one."""
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in _DISPLAYS):
        raise BadInput("Cannot open a window: there is no display (DISPLAY is not set). Use scaler_top in a terminal.")


def _check_address(address: str) -> None:
    from scaler_protocol.address import parse_watched_address

    try:
        parse_watched_address(address)
    except ValueError as error:
        raise BadInput(str(error)) from None
