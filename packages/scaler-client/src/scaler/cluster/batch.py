"""Workers in jobs of a batch system, with a scheduler and keys of their own if needed."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Any

from scaler.cluster.managed import ManagedWorkers
from scaler.cluster.own_keys import OwnKeys
from scaler.utility.siblings import load_sibling


class BatchWorkers:
    """Runs ``scaler_worker_manager KIND`` with these values of its settings, and a scheduler that the nodes can reach
    if ``address`` is None. Without keys, it makes some on the disk that the nodes share, and sets SCALER_KEYS in this
    process until ``shutdown``. Raises BadInput, a ValueError."""

    def __init__(self, kind: str, address: str | None, values: Mapping[str, Any], logging_level: str) -> None:
        self._keys = OwnKeys(f"{kind}-keys-{_host()}-")  # on some shared disks, locks are known to one host only
        own_address = None
        if address is None:
            own_address = load_sibling("scaler_worker.manager.shell.batch_route", "address_for_nodes")(kind)
            self._keys.make_if_missing()
        name = values.get("name") or _own_name(kind)
        try:
            self._workers = ManagedWorkers(kind, address, {**values, "name": name}, logging_level, own_address)
            self.address = self._workers.address
        except BaseException:
            self._keys.forget()
            raise

    def shutdown(self) -> None:
        """Cancel the jobs, and stop the scheduler if there is one of its own. Harmless when repeated."""
        self._workers.shutdown()
        self._keys.forget()


def _own_name(kind: str) -> str:
    """A name that no other cluster has: a scheduler of its own has nothing to do with the jobs of earlier ones."""
    return f"{kind}-{_host()}-{os.getpid()}-{os.urandom(4).hex()}"


def _host() -> str:
    return socket.gethostname().partition(".")[0][:32]
