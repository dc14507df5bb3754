"""What a process that uses the client loads."""

from __future__ import annotations

import subprocess
import sys

from tests.unit.client.fake_scheduler import FakeScheduler

USES_A_CLIENT = """
import operator, sys
from scaler import Client

with Client(sys.argv[1]) as client:
    assert client.submit(operator.neg, 1).result(10) == -1
    assert client.map(operator.neg, [1, 2]) == [-1, -2]
    assert list(client.imap(operator.neg, [1, 2])) == [-1, -2]
    client.send_object(bytes(100_000))
loaded = {"capnp", "dask", "asyncio", "graphblas", "numpy"} & set(sys.modules)
assert not loaded, loaded
"""


def test_a_client_that_talks_to_a_scheduler_loads_no_library_that_it_does_not_use() -> None:
    with FakeScheduler() as scheduler:
        subprocess.run([sys.executable, "-c", USES_A_CLIENT, scheduler.address], check=True, timeout=60)
