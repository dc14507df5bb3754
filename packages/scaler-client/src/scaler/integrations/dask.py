"""Scaler as the scheduler of Dask: ``install(client)``, and ``futures_of`` for collections whose values stay there."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

import dask

from scaler.integrations.dask_collections import futures_of

if TYPE_CHECKING:
    from scaler.client.client import Client

__all__ = ["Installation", "futures_of", "install"]

SHORTENED = r"scaler[\\\/](client|core|shell|integrations|utility)[\\\/]"
"""The frames that Dask leaves out of a traceback, as it leaves out its own."""

_SHORTEN = "admin.traceback.shorten"
_SHUFFLE_METHOD = "dataframe.shuffle.method"


class Installation:
    """A client as Dask's scheduler, until ``uninstall``. As a context manager, until the block ends."""

    def __init__(self, client: Client) -> None:
        self.client = client
        _installations.add(self)

    def uninstall(self) -> None:
        """Give Dask the scheduler that it had before, or the client that was installed last and still is. May be called
        twice."""
        _installations.remove(self)

    def __enter__(self) -> Installation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.uninstall()


def install(client: Client) -> Installation:
    """Make ``client`` the scheduler of ``compute`` and ``persist`` for all collections of this process, unless a call
    names another one. Raises ``ClientQuitException`` if the client has been closed."""
    if not callable(getattr(client, "get", None)) or not hasattr(client, "persist"):
        raise TypeError(f"Cannot install {client!r} as Dask's scheduler: it is not a scaler.Client.")
    client._client_io.check_usable()
    return Installation(client)


def _other_settings() -> dict[str, Any]:
    """Return the settings that go with a cluster. Dask shuffles through files in a temporary folder unless a method is
    set, and workers on other hosts find that folder empty."""
    patterns = [*dask.config.get(_SHORTEN, []), SHORTENED]
    return {_SHORTEN: patterns, _SHUFFLE_METHOD: dask.config.get(_SHUFFLE_METHOD, None) or "tasks"}


class _Installations:
    """The installations of this process; the last one counts. Dask's own settings are kept until all are over."""

    def __init__(self) -> None:
        self._all: list[Installation] = []
        self._setting: Any = None

    def add(self, added: Installation) -> None:
        self._all.append(added)
        if self._setting is None:
            self._setting = dask.config.set({"scheduler": added.client, **_other_settings()})
        else:
            dask.config.set(scheduler=added.client)

    def remove(self, removed: Installation) -> None:
        if removed not in self._all:
            return
        self._all.remove(removed)
        if self._all:
            dask.config.set(scheduler=self._all[-1].client)
        else:
            setting, self._setting = self._setting, None
            setting.__exit__(None, None, None)


_installations = _Installations()
