"""The code that tasks need from their client: the source of local modules, read for the workers, and their
environment."""

from __future__ import annotations

import importlib
import io
import os
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType

from scaler_protocol.shipping.environments import Environment, current_environment
from scaler_protocol.shipping.modules import ShippedModule, current_modules

LIMIT_BYTES = 64 * 1024 * 1024
"""Maximum size of the files of one module."""

_DATE = (1980, 1, 1, 0, 0, 0)  # so that equal files give equal archives
_COMPRESSION_LEVEL = 1
_OWN = frozenset({"__main__", "scaler", "scaler_protocol", "scaler_scheduler", "scaler_worker", "cloudpickle", "tblib"})

_registered: dict[str, None] = {}


@dataclass(frozen=True, slots=True)
class ModuleSource:
    """A module as it was read here. ``stamps``: by path of its files and folders, what differs when a file has been
    written, added or removed."""

    module: ShippedModule
    stamps: Mapping[str, tuple[int, int]]

    def is_touched(self) -> bool:
        """Costs a system call per file and folder. True does not mean that the content differs."""
        return any(_stamp(path) != stamp for path, stamp in self.stamps.items())


def ship(module: ModuleType | str) -> None:
    """Send the source of ``module``, and of the whole package to which it belongs, with all clients that this process
    makes from now on. As ``Client(modules=[module])``, for all clients."""
    name = _top_level(module)
    read_source(name)
    _registered[name] = None


def sources_of(modules: Iterable[ModuleType | str]) -> tuple[ModuleSource, ...]:
    """Read the modules of a new client: ``modules``, and those of ``ship``. Raises ValueError or ImportError for a
    module that cannot be sent."""
    if isinstance(modules, (str, ModuleType)):
        raise TypeError(f"modules must be a list of modules, not {modules!r}.")
    names = dict.fromkeys([_top_level(each) for each in modules])
    names.update(_registered)
    return tuple(read_source(name) for name in names)


def modules_of(sources: Iterable[ModuleSource]) -> tuple[ShippedModule, ...]:
    """The modules of a new client: those that it has read, and inside a task those of the client that has sent the
    task."""
    found = {each.name: each for each in (*current_modules(), *(source.module for source in sources))}
    return tuple(found[name] for name in sorted(found))


def environment_text(environment: Environment | None) -> str:
    """The environment of a new client, as text. None: that of the task in which the client is made, if any."""
    if environment is None:
        return current_environment()
    if not isinstance(environment, Environment):
        raise TypeError(f"environment must be a scaler.Environment, not {environment!r}.")
    return environment.to_text()


def _top_level(module: ModuleType | str) -> str:
    if not isinstance(module, (ModuleType, str)):
        raise TypeError(f"Cannot ship {module!r}: it is not a module.")
    name = module if isinstance(module, str) else module.__name__
    top = name.partition(".")[0]
    if top in _OWN:
        own = "its functions are sent in any case" if top == "__main__" else "workers have it, as Scaler needs it"
        raise ValueError(f"Cannot ship {top}: {own}. Leave it out.")
    if top in sys.stdlib_module_names:
        raise ValueError(f"Cannot ship {top}: it is a part of Python. Leave it out.")
    return top


def read_source(name: str) -> ModuleSource:
    """The files of a module as they are now. Raises OSError, ImportError or ValueError."""
    module = sys.modules.get(name) or importlib.import_module(name)
    files = dict(sorted(_files(name, module)))
    if not files:
        raise ValueError(f"Cannot ship {name}: it has no source file. Install it on the workers.")
    folders = [os.path.dirname(path) for path in files.values()] if hasattr(module, "__path__") else []
    stamps = {path: _stamp(path) for path in (*files.values(), *folders)}
    size = 0
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=_COMPRESSION_LEVEL) as archive:
        for target, path in files.items():
            with open(path, "rb") as file:
                data = file.read(LIMIT_BYTES - size + 1)
            size += len(data)
            if size > LIMIT_BYTES:
                raise ValueError(
                    f"Cannot ship {name}: its files have more than {LIMIT_BYTES >> 20} MiB, up to {target}. "
                    "Move data elsewhere, or install it on the workers."
                )
            entry = zipfile.ZipInfo(target, _DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return ModuleSource(ShippedModule.of(name, buffer.getvalue()), stamps)


def _stamp(path: str) -> tuple[int, int]:
    """(0, 0): the file is gone."""
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def _files(name: str, module: ModuleType) -> Iterator[tuple[str, str]]:
    """The place of each file below the directory of imports, and its path here. Editable installations and namespace
    packages may have their directories anywhere."""
    paths = getattr(module, "__path__", None)
    if paths is None:
        path = getattr(module, "__file__", None)
        if path and os.path.isfile(path):
            yield os.path.basename(path), path
        return
    for folder in reversed(list(paths)):  # of two files in one place, the first is imported
        for parent, folders, names in os.walk(folder):
            folders[:] = sorted(each for each in folders if each != "__pycache__" and not each.startswith("."))
            for each in names:
                path = os.path.join(parent, each)
                if not each.endswith(".pyc") and not each.startswith(".") and os.path.isfile(path):
                    yield os.path.join(name, os.path.relpath(path, folder)), path
