"""Workers in jobs of a batch system, with a scheduler and keys of their own if needed."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scaler.cluster.managed import ManagedWorkers
from scaler.utility.siblings import load_sibling
from scaler_protocol.keys import VARIABLE
from scaler_protocol.security import home_directory


class BatchWorkers:
    """Runs ``scaler_worker_manager KIND`` with these values of its settings, and a scheduler that the nodes can reach
    if ``address`` is None. Without keys, it makes some on the disk that the nodes share, and sets SCALER_KEYS in this
    process until ``shutdown``. Raises BadInput, a ValueError."""

    def __init__(self, kind: str, address: str | None, values: Mapping[str, Any], logging_level: str) -> None:
        self._keys: Path | None = None
        own_address = None
        if address is None:
            own_address = load_sibling("scaler_worker.manager.shell.batch_route", "address_for_nodes")(kind)
            if VARIABLE not in os.environ:
                self._make_keys(kind)
        name = values.get("name") or _own_name(kind)
        try:
            self._workers = ManagedWorkers(kind, address, {**values, "name": name}, logging_level, own_address)
            self.address = self._workers.address
        except BaseException:
            self._forget_keys()
            raise

    def shutdown(self) -> None:
        """Cancel the jobs, and stop the scheduler if there is one of its own. Harmless when repeated."""
        self._workers.shutdown()
        self._forget_keys()

    def _make_keys(self, kind: str) -> None:
        from scaler_protocol.key_files import generate
        from scaler_protocol.transport.curve_authentication import new_key_pair

        home_directory().mkdir(mode=0o700, parents=True, exist_ok=True)
        prefix = f"{kind}-keys-{_host()}-"
        remove_leftovers(home_directory(), prefix)
        self._keys = Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=home_directory()))
        generate(self._keys, new_key_pair)
        os.environ[VARIABLE] = str(self._keys)
        atexit.register(self._forget_keys)

    def _forget_keys(self) -> None:
        if self._keys is None:
            return
        if os.environ.get(VARIABLE) == str(self._keys):
            del os.environ[VARIABLE]
        shutil.rmtree(self._keys, ignore_errors=True)
        atexit.unregister(self._forget_keys)
        self._keys = None


def remove_leftovers(folder: Path, prefix: str) -> None:
    """Remove the keys of programs that were killed on this host. ``prefix``: of their names, before the number of the
    process."""
    for keys in folder.glob(f"{prefix}*"):
        process = keys.name.removeprefix(prefix).partition("-")[0]
        if process.isdigit() and not _is_running(int(process)):
            shutil.rmtree(keys, ignore_errors=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it belongs to another user
    return True


def _own_name(kind: str) -> str:
    """A name that no other cluster has: a scheduler of its own has nothing to do with the jobs of earlier ones."""
    return f"{kind}-{_host()}-{os.getpid()}-{os.urandom(4).hex()}"


def _host() -> str:
    return socket.gethostname().partition(".")[0][:32]
