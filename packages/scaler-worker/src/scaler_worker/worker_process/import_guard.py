"""Guards imports against interrupts: a module with compiled code, such as numpy, cannot be imported again in a process
in which its first import has failed. Later tasks, perhaps of other clients, would fail there.
"""

from __future__ import annotations

import os
import threading
from types import FrameType

from scaler_worker.worker_process import channel

_IMPORT_SYSTEM = "<frozen importlib._bootstrap>"
_AGAIN_SECONDS = 0.05


def is_importing(frame: FrameType | None) -> bool:
    """Return whether a module is being imported somewhere up the stack."""
    while frame is not None:
        if frame.f_code.co_filename == _IMPORT_SYSTEM:
            return True
        frame = frame.f_back
    return False


def interrupt_later() -> None:
    """Interrupt the task again after a moment. If its import takes too long, the agent kills the process."""
    timer = threading.Timer(_AGAIN_SECONDS, os.kill, (os.getpid(), channel.INTERRUPT_SIGNAL))
    timer.daemon = True
    try:
        timer.start()
    except RuntimeError:
        pass  # there is no thread: the agent kills the process
