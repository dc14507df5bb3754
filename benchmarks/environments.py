"""A virtual environment for each peer that needs one, made when first asked for and kept while it needs the same."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.peers.catalogue import Competitor

ROOT = Path(__file__).resolve().parent.parent


def interpreter_of(peer: Competitor, directory: Path) -> str:
    """The path of the Python that has ``peer`` installed."""
    if not peer.requirements:
        return sys.executable
    home = directory / peer.name
    python = home / "bin" / "python"
    ready, wanted = home / "ready", "\n".join(peer.requirements)
    if not ready.exists() or ready.read_text() != wanted:
        print(f"installing {', '.join(peer.requirements)} into {home}", flush=True)
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "psutil", *peer.requirements], check=True)
        ready.write_text(wanted)
    return str(python)
