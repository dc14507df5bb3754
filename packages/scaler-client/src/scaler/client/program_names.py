"""The names of the user and of the program of this process, for monitors."""

from __future__ import annotations

import functools
import os
import sys

from scaler.client.signatures import sendable_name

_LENGTH_LIMIT = 100


@functools.cache
def user_name() -> str:
    """The login name of the user of this process."""
    try:
        import pwd
    except ImportError:  # Windows
        return os.environ.get("USERNAME", "")[:_LENGTH_LIMIT]
    try:
        return pwd.getpwuid(os.geteuid()).pw_name[:_LENGTH_LIMIT]
    except KeyError:  # as in containers
        return f"uid {os.geteuid()}"


def program_name() -> str:
    """The module or the file that this process runs, without folders."""
    if "ipykernel" in sys.modules:
        return "notebook"
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is not None:
        return str(spec.name).removesuffix(".__main__")[:_LENGTH_LIMIT]
    first = sys.argv[0] if getattr(sys, "argv", None) else ""
    if not first or hasattr(sys, "ps1"):
        return "interactive"
    return "python -c" if first == "-c" else sendable_name(os.path.basename(first))[:_LENGTH_LIMIT]
