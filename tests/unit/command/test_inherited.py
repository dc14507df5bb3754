"""A command resets what it inherited from its parent, also where that has acted already."""

from __future__ import annotations

import subprocess
import sys

START = """
import signal
from scaler_protocol.command.inherited import restore_signals
signal.signal(signal.SIGALRM, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
signal.setitimer(signal.ITIMER_REAL, 0.001)
while signal.SIGALRM not in signal.sigpending():
    pass
restore_signals()
print(signal.getsignal(signal.SIGALRM).name, signal.pthread_sigmask(signal.SIG_BLOCK, ()))
"""


def test_a_timer_that_ran_out_before_the_start_does_not_end_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout) == (0, "SIG_DFL set()\n"), done.stderr
