"""Futures that are not those of a client, and coroutines: they belong to their process, and cannot be arguments."""

from __future__ import annotations

import concurrent.futures
import sys
from types import CoroutineType
from typing import Any, NoReturn


def is_foreign_future(kind: type) -> bool:
    """Return whether it is the type of coroutines, or of such futures. Those of clients reduce themselves."""
    if kind is CoroutineType:
        return True
    asyncio = sys.modules.get("asyncio")
    futures = (concurrent.futures.Future,) if asyncio is None else (concurrent.futures.Future, asyncio.Future)
    return issubclass(kind, futures) and kind.__reduce__ is object.__reduce__


def refuse_future(future: Any) -> NoReturn:
    how = "its result()" if isinstance(future, concurrent.futures.Future) else "what awaiting it returns"
    raise TypeError(f"cannot pickle a {type(future).__name__!r}, which belongs to its process. Pass {how}.")
