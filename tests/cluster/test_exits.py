"""Programs that end without a disconnect: at once, and without a word."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from scaler import Client, SchedulerClusterCombo
from tests.support import functions
from tests.support.commands import child_environment, start_scheduler
from tests.support.ports import free_address

START = """
import functools, itertools, sys, threading, time
from scaler import Client
client = Client(sys.argv[1])
assert sys.argv[1:2] == [client.address]
"""

ENDINGS = {
    "nothing under way": "",
    "unfinished futures": "futures = [client.submit(time.sleep, 3600) for _ in range(5)]",
    "futures that nobody has": "client.submit(time.sleep, 3600)",
    "an open iterator": "results = client.imap(abs, itertools.count()); next(results)",
    "an open iterator without order": "results = client.imap_unordered(abs, itertools.count()); next(results)",
    "a map in a daemon thread": """
threading.Thread(target=client.map, args=(time.sleep, [3600]), daemon=True).start()
client.submit(abs, -1).result()
""",
    "a wait in a daemon thread": """
threading.Thread(target=client.submit(time.sleep, 3600).exception, daemon=True).start()
client.submit(abs, -1).result()
""",
    "a callback": "client.submit(time.sleep, 3600).add_done_callback(lambda future: None)",
    "a large argument": "future = client.submit(len, bytes(50_000_000))",
    "a reference": "reference = client.send_object(bytes(5_000_000))",
    "a large result": "future = client.submit(bytes, 5_000_000); future.exception()",
    "a graph": "futures = client.get({'a': 3600, 'b': (time.sleep, 'a')}, ['b'], block=False)",
    "a cycle": "client.submit(abs, -1).result(); client.me = client",
    "several clients": "others = [Client(sys.argv[1]) for _ in range(3)]; others[1].submit(time.sleep, 3600)",
    "sys.exit": "client.submit(time.sleep, 3600); sys.exit(0)",
}


def run_ending(ending: str, address: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", START + ending, address],
        capture_output=True, text=True, timeout=40, env=child_environment(), check=False,
    )  # fmt: skip


@pytest.mark.parametrize("name", ENDINGS)
def test_a_program_that_forgets_its_client_ends(combo: SchedulerClusterCombo, name: str) -> None:
    done = run_ending(ENDINGS[name], combo.get_address())
    said = "" if name.endswith("in a daemon thread") else done.stderr  # Python may say that its wait was cancelled
    assert (done.returncode, done.stdout, said) == (0, "", "")
    with Client(combo.get_address()) as client:
        assert client.map(functions.square, range(4)) == [0, 1, 4, 9]  # its tasks hold no worker


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_program_whose_scheduler_is_gone_ends(number: signal.Signals) -> None:
    address = free_address()
    with start_scheduler(address) as scheduler:
        ending = f"client.submit(abs, -1); import os; os.kill({scheduler.pid}, {int(number)})"
        done = run_ending(ending, address)
        scheduler.process.send_signal(signal.SIGCONT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
