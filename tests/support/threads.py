"""A process that cannot start threads."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import NoReturn

import pytest

AT_EXIT = "can't create new thread at interpreter shutdown"


@contextlib.contextmanager
def no_threads(monkeypatch: pytest.MonkeyPatch, why: str = "can't start new thread") -> Iterator[None]:
    """Let each start of a thread fail as in CPython."""

    def refuse(thread: threading.Thread) -> NoReturn:
        raise RuntimeError(why)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        yield
