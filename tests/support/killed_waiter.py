"""A client that is killed while it waits for something of the cluster."""

from __future__ import annotations

import signal
import subprocess
import sys

from scaler import Client
from tests.support.waiting import wait_until

_PROGRAM = """
import os, signal, sys, threading, traceback
from scaler import Client

address, kind, name, wait, ask = sys.argv[1:]
thing = getattr(Client(address), kind)(name)
waiter = threading.Thread(target=getattr(thing, wait), daemon=True)
waiter.start()
while all(frame.f_code.co_name != "wait" for frame, _ in traceback.walk_stack(sys._current_frames()[waiter.ident])):
    pass
getattr(thing, ask)()  # is answered after the request that waits was received
os.kill(os.getpid(), signal.SIGKILL)
"""


def kill_a_waiter(client: Client, address: str, kind: str, name: str, wait: str, ask: str) -> None:
    """Another client waits in the method ``wait`` of ``client.KIND(name)`` when it is killed. Returns when the
    scheduler knows that its connection has ended. ``ask``: a method that does not wait."""
    command = [sys.executable, "-c", _PROGRAM, address, kind, name, wait, ask]
    found = subprocess.run(command, check=False, timeout=50)
    assert found.returncode == -signal.SIGKILL
    wait_until(lambda: sum(each.connected for each in client.cluster_info().clients) == 1)
