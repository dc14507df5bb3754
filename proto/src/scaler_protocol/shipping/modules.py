"""The source of modules as values, and the values that the task under way was sent with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from scaler_protocol.ids import digest


@dataclass(frozen=True, slots=True)
class ShippedModule:
    """A top-level module or package. ``archive`` is a ZIP archive of its files, with paths relative to the directory
    from which the module is imported; equal sources give equal archives."""

    name: str
    digest: bytes
    archive: bytes

    @classmethod
    def of(cls, name: str, archive: bytes) -> ShippedModule:
        return cls(name, digest(archive), archive)


@dataclass(frozen=True, slots=True)
class ShippedModules:
    """All modules of a client, in the place of its serializer. ``serializer``: the client's own one, pickled; empty for
    the default serializer. ``environment``: that of the client, as text."""

    modules: tuple[ShippedModule, ...]
    serializer: bytes = b""
    environment: str = ""

    @staticmethod
    def deserialize(payload: bytes) -> NoReturn:
        """Called on hosts of Symphony, where any program may run the tasks."""
        raise RuntimeError(
            "Cannot use Client(modules=..., environment=...) on hosts of Symphony: they have no cache for packages. "
            "Install them there."
        )

    @staticmethod
    def serialize(value: Any) -> NoReturn:
        ShippedModules.deserialize(b"")


_current: tuple[ShippedModule, ...] = ()


def current_modules() -> tuple[ShippedModule, ...]:
    """The modules with which the client of the running task has sent it; () outside of tasks."""
    return _current


def set_current_modules(modules: tuple[ShippedModule, ...]) -> None:
    global _current
    _current = modules
