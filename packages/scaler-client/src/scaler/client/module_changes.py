"""Notices that a module has changed since a client read its source for the workers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from scaler.client.shipping import ModuleSource, read_source

_REMEMBERED_LIMIT = 4096

_logger = logging.getLogger("scaler")


class ModuleChanges:
    """Looks at the files when the client gets a function with new code. A module that is loaded again has new
    functions, or its functions get new code (IPython's autoreload). To look for each task would cost more than the
    task."""

    def __init__(self, sources: Iterable[ModuleSource]) -> None:
        self._sources = {each.module.name: each for each in sources}
        self._sent = {name: each.module.digest for name, each in self._sources.items()}
        self._seen: dict[int, object] = {}

    def on_function(self, callable_: Callable[..., Any]) -> None:
        """A function has the same code whatever it captures."""
        code = callable_ if isinstance(callable_, type) else getattr(callable_, "__code__", None)
        if code is None or self._seen.get(id(code)) is code:
            return
        if len(self._seen) >= _REMEMBERED_LIMIT:
            self._seen.clear()
        self._seen[id(code)] = code
        for name in self._changed():
            _logger.warning(
                f"The files of {name} have changed since this client was made, and its tasks use the content of that "
                "time. Make another client to send the new content."
            )

    def _changed(self) -> list[str]:
        """Return each changed module once for each change."""
        found = []
        for name, source in list(self._sources.items()):
            if source.is_touched() and self._read_again(name) != self._sent[name]:
                found.append(name)
        return found

    def _read_again(self, name: str) -> bytes | None:
        """Return the digest; None: the module cannot be read any more, and is not looked at further."""
        try:
            source = self._sources[name] = read_source(name)
        except (OSError, ImportError, ValueError):
            self._sources.pop(name, None)
            return None
        return source.module.digest
