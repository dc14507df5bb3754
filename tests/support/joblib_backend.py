"""A plugin of pytest that lets joblib's own tests find a backend named "scaler".

SCALER_ADDRESS_OF_TESTS: the address of its cluster."""

from __future__ import annotations

import os
from functools import partial

from joblib.parallel import BACKENDS, register_parallel_backend

from scaler import Client
from scaler.integrations.joblib import ScalerBackend

_clients: list[Client] = []


def pytest_configure() -> None:
    client = Client(os.environ["SCALER_ADDRESS_OF_TESTS"])
    _clients.append(client)
    register_parallel_backend("scaler", partial(ScalerBackend, client=client))


def pytest_unconfigure() -> None:
    del BACKENDS["scaler"]
    _clients.pop().disconnect()
