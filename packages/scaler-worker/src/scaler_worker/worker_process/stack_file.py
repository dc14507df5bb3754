"""Lets the agent see where this process is: at a signal, Python writes the stacks of all threads to a memory file.

The signal handler is written in C, so it runs while Python code holds the GIL, or while a library does. System calls
that it interrupts are restarted.
"""

from __future__ import annotations

import faulthandler
import fcntl
import os

from scaler_worker.worker_process import channel


def offer_stacks() -> None:
    """The file stays open as long as this process. The agent empties it."""
    descriptor = os.memfd_create(channel.STACK_FILE, os.MFD_CLOEXEC)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_APPEND)
    faulthandler.register(channel.STACK_SIGNAL, file=descriptor, all_threads=True, chain=False)
