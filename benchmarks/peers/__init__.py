"""One adapter per engine, each with the same few verbs, so that a workload reads the same for all.

An adapter is imported only in the interpreter of its own environment: this package imports no engine at the top.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol


class Future(Protocol):
    def result(self) -> Any: ...


class Engine(Protocol):
    def submit(self, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Future: ...

    def map(self, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]: ...

    def gather(self, futures: Iterable[Future]) -> list[Any]: ...

    def get(self, graph: dict[str, Any], key: str) -> Any:
        """The value of ``key``. Engines without graphs have no such method."""

    def send(self, value: Any) -> Any:
        """Return the object that represents ``value`` as an argument; it travels once. Engines without objects have no
        such method."""

    def compute(self, collection: Any) -> Any:
        """The value of a collection of Dask's, for engines that take these."""


def open_engine(name: str, workers: int) -> AbstractContextManager[Engine]:
    """A running engine of that name with so many workers, warm: each worker has answered."""
    module = importlib.import_module(f"benchmarks.peers.{name}")
    return module.open_engine(workers)


def gather_in_order(futures: Iterable[Future]) -> list[Any]:
    return [future.result() for future in futures]
