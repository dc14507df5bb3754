"""A virtual environment for each peer that needs one, made when first asked for and kept."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.peers.catalogue import Peer

ROOT = Path(__file__).resolve().parent.parent


def interpreter_of(peer: Peer, directory: Path) -> str:
    """The path of the Python that has ``peer`` installed."""
    if not peer.requirements:
        return sys.executable
    home = directory / peer.name
    python = home / "bin" / "python"
    if not (home / "ready").exists():
        print(f"installing {', '.join(peer.requirements)} into {home}", flush=True)
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "psutil", *peer.requirements], check=True)
        (home / "ready").touch()
    return str(python)
