"""The command ``scaler_gui``."""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from scaler_gui import __version__
from scaler_gui.config import GuiSettings
from scaler_protocol.command import BadInput, run_command
from scaler_protocol.command.remedies import is_lack_of_memory
from scaler_protocol.monitor.past import GO_TO_TEXT

_THREADS_NEEDED = 4
"""Threads of Qt for the display and for D-Bus, and of ZeroMQ."""

_MEMORY_NEEDED_BYTES = 320 * 1024 * 1024
"""Address space of the libraries of a window; half of it is never used."""

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
    _prepare_threads()
    _check_memory()
    # Here, because -h and bad input need no window.
    try:
        from scaler_gui.application import run_application
    except ImportError as error:
        if is_lack_of_memory(error):
            raise
        raise BadInput(f"Cannot load Qt: {error}. Install the libraries that the README of scaler-gui lists.") from None
    return run_application(settings)


def _prepare_threads() -> None:
    """Qt waits forever for threads that it cannot start, and OpenBLAS ends the process. Both read these variables when
    they are loaded: then Qt starts none to paint, and OpenBLAS none at all. Raises RuntimeError if the system does not
    allow those that remain."""
    for name in ("QT_NO_GUI_THREADPOOL", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    from scaler_protocol.transport.zeromq import require_threads

    require_threads(_THREADS_NEEDED)


def _check_memory() -> None:
    """Qt would abort the process, or continue with half a window. Raises OSError if there is no address space."""
    mmap.mmap(-1, _MEMORY_NEEDED_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ).close()


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
