"""Notices: the effects of the client's session that are carried out without the lock, because they call user code or
may block."""

from __future__ import annotations

import logging
import sys
import threading
from collections import deque
from collections.abc import Callable
from itertools import repeat

from scaler.core.effects import (
    CompareSoftware,
    DropStoredObjects,
    Effect,
    Finish,
    IssueWarnings,
    Log,
    PushObject,
    WriteOutput,
)
from scaler.shell.client_store import ClientStore
from scaler.shell.software_check import compare_software
from scaler.shell.task_warnings import WarningIssuer
from scaler_protocol.messages import ObjectKey

_logger = logging.getLogger("scaler")
_take_first: Callable[[deque[Effect]], Effect] = deque.popleft


class Notices(deque[Effect]):
    """The queue of notices. ``push_failed`` is called with the key of an object that could not be pushed."""

    def __init__(self, objects: ClientStore, push_failed: Callable[[ObjectKey], None]) -> None:
        super().__init__()
        self._objects = objects
        self._push_failed = push_failed
        self._threads: set[int] = set()  # which carry out notices now
        self._warnings = WarningIssuer()

    def settle(self) -> None:
        """Carry out all notices. If one is interrupted, by Ctrl-C or by a callback that exits, all others are carried
        out first."""
        interruption: BaseException | None = None
        me = threading.get_ident()
        is_outermost = me not in self._threads
        try:
            self._threads.add(me)  # here: an interruption must not leave it behind
            for notice in map(_take_first, repeat(self)):  # in C: no signal is taken between this and what follows
                try:
                    self._carry_out(notice)
                except BaseException as error:
                    interruption = interruption or error
                    if isinstance(notice, Finish):  # it may have been interrupted; finishing twice is harmless
                        notice.sink.finish(notice.outcome)
        except IndexError:  # empty
            pass
        finally:
            if is_outermost:
                self._threads.discard(me)
        if interruption is not None:
            raise interruption

    @property
    def are_settled_here(self) -> bool:
        """Whether this thread carries out notices now: its caller is a callback."""
        return threading.get_ident() in self._threads

    @property
    def are_elsewhere(self) -> bool:
        """Whether notices wait, or another thread carries one out."""
        return bool(self or self._threads - {threading.get_ident()})

    def _carry_out(self, notice: Effect) -> None:
        if isinstance(notice, Finish):
            notice.sink.finish(notice.outcome)
        elif isinstance(notice, WriteOutput):
            _write_output(notice)
        elif isinstance(notice, IssueWarnings):
            self._warnings.issue(notice.data)
        elif isinstance(notice, CompareSoftware):
            compare_software(notice)
        elif isinstance(notice, DropStoredObjects):
            self._objects.drop(notice.keys)
        elif isinstance(notice, PushObject):
            self._objects.push(notice.key, notice.data, notice.endpoint, self._push_failed)
        elif isinstance(notice, Log):
            _logger.log(logging.getLevelName(notice.level), notice.text)


def _write_output(output: WriteOutput) -> None:
    """Write the output of a task. It is dropped if this process has no such stream."""
    stream = sys.stderr if output.stream == 2 else sys.stdout
    if stream is None:
        return
    try:
        stream.write(output.data.decode(errors="replace"))
        stream.flush()
    except (OSError, ValueError):
        pass
