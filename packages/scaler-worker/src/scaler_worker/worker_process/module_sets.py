"""The modules that clients have sent, importable while their tasks run."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from scaler_protocol.shipping.modules import ShippedModule, ShippedModules, set_current_modules
from scaler_worker.module_cache import ModuleFolder, acquire, remove_unused


class _ModuleSet:
    """The modules of one client content. ``loaded`` has its imported modules while it is not in use."""

    def __init__(self, shipped: ShippedModules) -> None:
        self.modules: tuple[ShippedModule, ...] = shipped.modules
        self.names = frozenset(each.name for each in shipped.modules)
        self.folders: list[ModuleFolder] = []
        self.loaded: dict[str, ModuleType] = {}

    def acquire(self) -> None:
        try:
            for each in self.modules:
                self.folders.append(acquire(each))
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        while self.folders:
            self.folders.pop().release()


class ModuleSets:
    """The sets of modules, of which at most one is importable at a time. Each set has module objects of its own, so
    that two clients may have different contents of one module: the objects of the others leave ``sys.modules`` until
    their next task.

    The main thread calls this between tasks, or shielded from interrupts."""

    def __init__(self) -> None:
        self._sets: dict[bytes, _ModuleSet] = {}
        self._used: _ModuleSet | None = None
        self._replaced: dict[str, ModuleType] = {}

    def __contains__(self, name: bytes) -> bool:
        return name in self._sets

    def add(self, name: bytes, shipped: ShippedModules) -> None:
        """Raises OSError if the files cannot be written, and ValueError if they are not what their digest says."""
        if not self._sets:
            remove_unused()
        new = _ModuleSet(shipped)
        new.acquire()
        self._sets[name] = new

    def use(self, name: bytes) -> None:
        """Make the modules of set ``name`` importable; those of no client if there is no such set."""
        wanted = self._sets.get(name)
        if wanted is self._used:
            return
        if self._used is not None:
            self._leave(self._used)
        if wanted is not None:
            self._enter(wanted)

    def drop(self, name: bytes) -> None:
        """No client needs the set any more."""
        dropped = self._sets.pop(name, None)
        if dropped is not None:
            if dropped is self._used:
                self._leave(dropped)
            dropped.release()

    def _enter(self, wanted: _ModuleSet) -> None:
        self._replaced = _take_modules(wanted.names)
        sys.modules.update(wanted.loaded)
        sys.path[:0] = [folder.path for folder in wanted.folders]
        importlib.invalidate_caches()
        set_current_modules(wanted.modules)
        self._used = wanted

    def _leave(self, used: _ModuleSet) -> None:
        used.loaded = _take_modules(used.names)
        for folder in used.folders:
            while folder.path in sys.path:
                sys.path.remove(folder.path)
            sys.path_importer_cache.pop(folder.path, None)
        sys.modules.update(self._replaced)
        self._replaced = {}
        set_current_modules(())
        self._used = None


def _take_modules(names: frozenset[str]) -> dict[str, ModuleType]:
    """Remove modules and their submodules from ``sys.modules``."""
    found = {name: module for name, module in list(sys.modules.items()) if name.partition(".")[0] in names}
    for name in found:
        sys.modules.pop(name, None)
    return found
