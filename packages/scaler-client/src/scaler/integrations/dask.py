"""Scaler as the scheduler of Dask: ``install(client)``."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

import dask

if TYPE_CHECKING:
    from scaler.client.client import Client

SHORTENED = r"scaler[\\\/](client|core|shell|integrations|utility)[\\\/]"
"""The frames that Dask leaves out of a traceback, as it leaves out its own."""

_SHORTEN = "admin.traceback.shorten"


class Installation:
    """A client as Dask's scheduler, until ``uninstall``. As a context manager, until the block ends."""

    def __init__(self, client: Client) -> None:
        patterns = [*dask.config.get(_SHORTEN, []), SHORTENED]
        self._setting = dask.config.set({"scheduler": client, _SHORTEN: list(dict.fromkeys(patterns))})
        self._is_installed = True

    def uninstall(self) -> None:
        """Give Dask the scheduler that it had before. May be called twice."""
        if self._is_installed:
            self._is_installed = False
            self._setting.__exit__(None, None, None)

    def __enter__(self) -> Installation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.uninstall()


def install(client: Client) -> Installation:
    """Make ``client`` the scheduler of ``compute`` and ``persist`` for all collections of this process, unless a call
    names another one."""
    if not callable(getattr(client, "get", None)) or not hasattr(client, "persist"):
        raise TypeError(f"Cannot install {client!r} as Dask's scheduler: it is not a scaler.Client.")
    return Installation(client)
