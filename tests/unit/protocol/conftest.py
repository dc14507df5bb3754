from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from scaler_protocol.security import ensure_token


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    context = zmq.Context()
    yield context
    context.destroy(0)


@pytest.fixture
def token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user of its own: nobody else's peers are met."""
    monkeypatch.setenv("SCALER_HOME", str(tmp_path / "home"))
    ensure_token()


@pytest.fixture
def closing() -> Iterator[Callable[[Any], Any]]:
    """What is handed to it is closed at the end, the last first."""
    with contextlib.ExitStack() as stack:

        def register(thing: Any) -> Any:
            stack.callback(thing.close)
            return thing

        yield register
