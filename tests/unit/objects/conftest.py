"""A store of its own for every test: a cluster that nobody else knows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from scaler_protocol.objects.connection import StoreConnection
from scaler_protocol.objects.memory import AVAILABLE
from scaler_protocol.security import ensure_token

Connect = Callable[[], StoreConnection]

if not AVAILABLE:
    pytest.skip("object stores need Linux", allow_module_level=True)


@pytest.fixture
def cluster() -> bytes:
    ensure_token()
    return os.urandom(16)


@pytest.fixture
def connect(cluster: bytes) -> Iterator[Connect]:
    """Makes connections of this process, which start the store; closes them."""
    made: list[StoreConnection] = []

    def connect() -> StoreConnection:
        made.append(StoreConnection(cluster, may_start=True))
        return made[-1]

    yield connect
    for connection in made:
        connection.close()
