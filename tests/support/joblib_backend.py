"""joblib's own tests, with the backend "scaler" in the place of loky; and a plugin of pytest that makes it known.

SCALER_ADDRESS_OF_TESTS: the address of its cluster."""

from __future__ import annotations

import os
from pathlib import Path

import joblib
from joblib.parallel import BACKENDS

from scaler import Client
from scaler.integrations import joblib as integration

_IMPORT = "from joblib import Parallel, delayed"
"""Each program that the tests start contains this line, and nothing else of the file does."""

_clients: list[Client] = []


def source_of_joblib_tests() -> str:
    """Return the source of joblib's tests of Parallel, which take this backend for loky. Their programs register it,
    and have more time for that."""
    source = Path(joblib.__file__).with_name("test").joinpath("test_parallel.py").read_text()
    program = f"from tests.support import joblib_backend; joblib_backend.pytest_configure()\n{_IMPORT}"
    source = source.replace('"loky"', f'"{integration.NAME}"').replace("timeout=10,", "timeout=100,")
    return source.replace(_IMPORT, program)


def pytest_configure() -> None:
    client = Client(os.environ["SCALER_ADDRESS_OF_TESTS"])
    _clients.append(client)
    integration._task.client = client
    integration.register()


def pytest_unconfigure() -> None:
    integration._task.client = None
    del BACKENDS[integration.NAME]
    _clients.pop().disconnect()
