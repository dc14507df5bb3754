"""The publisher's own process:
``python -m scaler_scheduler.shell.publisher_process FD ADDRESS LISTENER PATH LINK [LOG LIMIT]``.

Loads little before it can tell the scheduler, over the inherited socket FD, what this process lacks: ``lacks SENTENCE``
if it has no memory, or may start no thread. The rest is in ``publisher_service``.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys

from scaler_protocol.command.inherited import restore_signals
from scaler_protocol.command.remedies import shortage_text

SHORTAGE_CODE = 71
"""The exit code: EX_OSERR of sysexits.h."""


def _yield_to_tasks() -> None:
    """Whenever there is something to publish, others have work to do: this process interrupts none of them, and is run
    when its turn comes. A container may forbid this; then it is run like others."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def _stay(_number: int, _frame: object) -> None:
    """A signal that is sent to the whole process group reaches the scheduler, too, which then ends this process."""


def main() -> int:
    _yield_to_tasks()  # first: threads that are started later do as this one does
    restore_signals()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the scheduler, which then closes this process
    signal.signal(signal.SIGTERM, _stay)
    scheduler = socket.socket(fileno=int(sys.argv[1]))
    try:
        from scaler_scheduler.shell.publisher_service import serve

        return serve(scheduler, sys.argv[2:])
    except Exception as error:
        lack = shortage_text(error, "its process")
        if not lack:
            raise
        with contextlib.suppress(OSError):  # the scheduler has gone
            scheduler.send(f"lacks {lack}".encode())
        return SHORTAGE_CODE


if __name__ == "__main__":
    sys.exit(main())
