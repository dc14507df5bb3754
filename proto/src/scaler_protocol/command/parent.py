"""The parent: the script whose ``ChildCommand`` started this process, seen from the child."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from scaler_protocol.command.exit_descriptor import open_exit_descriptor

if TYPE_CHECKING:
    import asyncio

VARIABLE = "SCALER_COMMAND_PARENT"
"""Environment variable from parent to child: JSON with ``pid`` and ``ready_fd``."""


class Parent:
    def __init__(self, pid: int, ready_fd: int) -> None:
        self._pid = pid
        self._ready_fd: int | None = ready_fd
        self._exit_fd: int | None = None

    def report_ready(self, **facts: Any) -> None:
        """Tell the parent that this command serves, with what it waits to know (such as ``address=...``). Once."""
        self._report({"ready": facts})

    def report_error(self, text: str) -> bool:
        """Tell the parent why this command ends. False: it already counted on it, or is gone."""
        return self._report({"error": text})

    @property
    def is_gone(self) -> bool:
        """The parent has ended, however."""
        return os.getppid() != self._pid

    def watch(self, loop: asyncio.AbstractEventLoop, on_gone: Callable[[], None]) -> None:
        """Call ``on_gone`` once when the parent has ended, however. A pidfd: unlike a pipe no fork of the parent holds
        it open, and unlike PR_SET_PDEATHSIG it does not fire when only the starting thread ends."""
        try:
            descriptor = open_exit_descriptor(self._pid)
        except ProcessLookupError:
            loop.call_soon(on_gone)
            return
        if os.getppid() != self._pid:  # it ended before the descriptor was made, and its number may be someone else's
            os.close(descriptor)
            loop.call_soon(on_gone)
            return
        self._exit_fd = descriptor
        loop.add_reader(descriptor, self._on_exit, loop, on_gone)

    def _on_exit(self, loop: asyncio.AbstractEventLoop, on_gone: Callable[[], None]) -> None:
        """The descriptor stays readable."""
        if self._exit_fd is not None:
            loop.remove_reader(self._exit_fd)
            os.close(self._exit_fd)
            self._exit_fd = None
            on_gone()

    def _report(self, message: dict[str, Any]) -> bool:
        if self._ready_fd is None:
            return False
        descriptor, self._ready_fd = self._ready_fd, None
        try:
            os.write(descriptor, json.dumps(message).encode())
            return True
        except OSError:
            return False
        finally:
            os.close(descriptor)


@functools.cache
def current_parent() -> Parent | None:
    """The parent, when this process was started by ChildCommand. Takes its variable out of the environment, so that
    processes started from here do not see it."""
    text = os.environ.pop(VARIABLE, None)
    if text is None:
        return None
    facts = json.loads(text)
    os.set_inheritable(facts["ready_fd"], False)
    return Parent(facts["pid"], facts["ready_fd"])
