"""The task that this process runs, as its threads and subprocesses see it.

A client made inside a task must know which task it is nested in. A process writes ``SCALER_PARENT`` for every task it
starts; as that is the hot path, the C environment holds one buffer that is overwritten in place (subprocesses inherit
it), and ``os.environ`` reads the same buffer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from scaler_worker.worker_process.cpython_internals import environment_data, replace_environment_data

PARENT_VARIABLE = "SCALER_PARENT"
"""``<session in hex>:<task>:<attempt>:<depth>`` of the task under way; empty between tasks."""

AGENT_SOCKET_VARIABLE = "SCALER_AGENT_SOCKET"
SCHEDULER_ADDRESS_VARIABLE = "SCALER_SCHEDULER_ADDRESS"
WORKER_NAME_VARIABLE = "SCALER_WORKER_NAME"
SPILL_DIRECTORY_VARIABLE = "SCALER_SPILL_DIRECTORY"
"""The directory to which this host's object store moves objects; empty: its default. ``scaler doctor`` reads it."""


class _LiveEnvironment(dict):
    """The dict in which ``os.environ`` keeps its variables. SCALER_PARENT is computed when it is read; ``on_change`` is
    called when one of ``own`` is set or deleted."""

    __slots__ = ("on_change", "own", "read_parent")
    read_parent: Callable[[], bytes]
    own: frozenset[bytes]
    on_change: Callable[[], None]

    def __getitem__(self, key: bytes) -> bytes:
        if key == b"SCALER_PARENT":
            return self.read_parent()
        return super().__getitem__(key)

    def __setitem__(self, key: bytes, value: bytes) -> None:
        super().__setitem__(key, value)
        if key in self.own:
            self.on_change()

    def __delitem__(self, key: bytes) -> None:
        super().__delitem__(key)
        if key in self.own:
            self.on_change()


class TaskEnvironment:
    """The variables by which a client inside a task finds out where it is. A task may do with its environment what it
    likes, and the next task sees that; but these are there again for it. ``on_change`` is called when they may not be:
    then ``restore`` is to be called before the next task."""

    def __init__(
        self,
        values: Mapping[str, str],
        install_parent: Callable[[], None],
        read_parent: Callable[[], bytes],
        on_change: Callable[[], None],
    ) -> None:
        self.environ = os.environ
        self._values = {os.fsencode(name): os.fsencode(value) for name, value in values.items()}
        self._install_parent = install_parent
        self._data = _LiveEnvironment(environment_data(self.environ))
        self._data.read_parent = read_parent
        self._data.own = frozenset((*self._values, PARENT_VARIABLE.encode()))
        self._data.on_change = on_change
        self.restore()

    def restore(self) -> None:
        os.environ = self.environ  # noqa: B003  (a task may have put another mapping in its place)
        replace_environment_data(self.environ, self._data)
        for name, value in self._values.items():
            os.putenv(name, value)
            dict.__setitem__(self._data, name, value)
        dict.__setitem__(self._data, PARENT_VARIABLE.encode(), b"")
        self._install_parent()
