"""The command ``scaler_gui``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from scaler_protocol.command import BadInput, argument, option, run_command

_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")


@dataclass(frozen=True, kw_only=True)
class GuiSettings:
    address: str | None = argument(
        default=None, help="the scheduler's monitor address, such as ipc:///tmp/127.0.0.1_2345_monitor"
    )
    replay: str | None = option(None, "-r", help="show what was recorded here (scaler_scheduler --event-log)")
    timeout: float = option(5.0, "-t", help="seconds of silence after which the scheduler counts as lost", minimum=0.1)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    run_command(
        GuiSettings,
        run,
        program="scaler_gui",
        section="gui",
        description="Shows what a Scaler cluster does, in a window. Without an address it asks for one.",
        arguments=arguments,
    )


def run(settings: GuiSettings) -> int:
    """The exit code."""
    if settings.address is not None:
        _check_address(settings.address)
    _check_display()
    # Here, because -h and bad input need no window.
    try:
        from scaler_gui.application import run_application
    except ImportError as error:
        raise BadInput(f"Qt cannot be loaded ({error}): the README of scaler-gui names what it needs") from None
    return run_application(settings)


def _check_display() -> None:
    """Qt would abort the process without one."""
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in _DISPLAYS):
        raise BadInput("there is no display for a window here (DISPLAY is not set); scaler_top needs only a terminal")


def _check_address(address: str) -> None:
    from scaler_protocol.address import parse_watched_address

    try:
        parse_watched_address(address)
    except ValueError as error:
        raise BadInput(str(error)) from None
