"""Settings that a process inherits from its parent and must reset.

Through ``exec`` go the signals that are ignored, the signals that are blocked, and a timer that runs. A daemon that
ignores SIGCHLD would start an agent that never learns of a death; a thread that blocks signals would start workers that
cannot be interrupted. A standard descriptor that is closed would become a connection, to which tasks would then print.
"""

from __future__ import annotations

import os
import signal

_KEPT = (
    *("SIGINT", "SIGQUIT", "SIGHUP"),  # ignored on purpose: background jobs of a shell, and nohup
    *("SIGUSR1", "SIGUSR2"),  # batch systems send these to all processes of a job, whose script handles them
    *("SIGTSTP", "SIGTTIN", "SIGTTOU"),  # job control
    *("SIGPIPE", "SIGXFSZ"),  # Python itself ignores these
)


def open_standard_descriptors() -> None:
    """Let those of stdin, stdout and stderr that are closed lead nowhere. Before this process opens anything else."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free, which is this one
            os.set_inheritable(fd, True)


def restore_signals() -> None:
    """Handle all other signals as a new process does, block none, and stop the timer. In the main thread, before any
    handler is installed. Other systems than Unix pass nothing on."""
    if not hasattr(signal, "pthread_sigmask"):
        return
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_IGN)  # discards the timer's signal, if it waits here blocked
    for number in signal.valid_signals() - {getattr(signal, name) for name in _KEPT if hasattr(signal, name)}:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
