"""``scaler completion``: a script that makes a shell complete the command lines of all installed commands."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from scaler.command.settings import CompletionSettings
from scaler_protocol.command import BadInput
from scaler_protocol.command.completion import FLAG, SHELLS

COMMANDS = (
    "scaler",
    "scaler_scheduler",
    "scaler_cluster",
    "scaler_worker",
    "scaler_worker_manager",
    "scaler_symphony_cluster",
    "scaler_top",
    "scaler_ui",
    "scaler_gui",
    "scaler_keygen",
)


def run(settings: CompletionSettings) -> int:
    """Commands of distributions that are not installed are left out."""
    if settings.shell not in SHELLS:
        raise BadInput(f"Cannot complete commands in {settings.shell!r}. Give one of {', '.join(SHELLS)}.")
    for command in COMMANDS:
        path = _path_of(command)
        if path is not None:
            shown = subprocess.run([path, FLAG, settings.shell], capture_output=True, text=True, check=False)
            if shown.returncode:
                raise BadInput(shown.stderr.partition(": ")[2])
            print(shown.stdout)
    return 0


def _path_of(command: str) -> str | None:
    """Return the path of a command: next to this Python, or in the search path."""
    return shutil.which(command, path=str(Path(sys.executable).parent)) or shutil.which(command)
