"""Warnings that tasks raise, on their way to the client.

Python shows a warning once per place and process. A client cannot know which of its tasks was the first in its process,
so here each task starts again, and the client, which has filters of its own, decides what is shown.
"""

from __future__ import annotations

import io
import pickle
import sys
import warnings
from collections.abc import Callable
from typing import TextIO

import cloudpickle

from scaler_worker.worker_process.cpython_internals import calling_frames

COUNT_LIMIT = 20
"""Maximum number of warnings of one task; of the others, only the number is reported."""

TEXT_LIMIT_CHARACTERS = 2000
PLACE_LIMIT_CHARACTERS = 1000


class TaskWarnings:
    """Takes the place of what shows warnings in this process. ``on_warning`` is called when there is one to take.
    ``echoes``: what the client is told of is written to stderr, too, unless its client receives that."""

    def __init__(self, on_warning: Callable[[], None], echoes: bool) -> None:
        self._on_warning = on_warning
        self._echoes = echoes
        self._show = warnings.showwarning
        self._taken: list[tuple[type[Warning], str, str, int, str]] = []
        self._left_out = 0
        self._log = ""
        self._listens = False
        self.is_streamed = False
        """The client of the tasks that follow receives their output."""

        warnings.showwarning = self._take

    def begin(self) -> None:
        """A task is about to run for the first time: from now on warnings are its own."""
        self._listens = True

    def take(self) -> bytes:
        """The warnings of the task. The next task in this process may issue the same ones."""
        taken, left_out = self._taken, self._left_out
        self._taken, self._left_out = [], 0
        warnings.simplefilter("default", append=True)  # changes nothing, but Python forgets what it has shown
        if left_out:
            taken.append((RuntimeWarning, f"{left_out} more warnings of this task were left out.", "", 0, ""))
        return pickle.dumps([(_pickled(category), *rest) for category, *rest in taken])

    def take_log(self) -> bytes:
        """Take the same as text for the log of the agent, which does not get them through stderr."""
        log, self._log = self._log, ""
        return log.encode(errors="replace")

    def _take(
        self,
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if file is None and self._listens:
            if len(self._taken) < COUNT_LIMIT:
                place = str(filename)[:PLACE_LIMIT_CHARACTERS]
                self._taken.append((category, _beginning(str(message)), place, lineno, _module_of(filename, lineno)))
            else:
                self._left_out += 1
                return
            self._on_warning()
            if self.is_streamed and self._echoes:
                self._log += warnings.formatwarning(message, category, filename, lineno, line)[:TEXT_LIMIT_CHARACTERS]
            if self.is_streamed or not self._echoes:
                return
            file = sys.__stderr__ or io.StringIO()
        self._show(message, category, filename, lineno, file, line)


def _beginning(text: str) -> str:
    if len(text) <= TEXT_LIMIT_CHARACTERS:
        return text
    return f"{text[:TEXT_LIMIT_CHARACTERS]}... ({len(text):,} characters)"


def _module_of(filename: str, lineno: int) -> str:
    """The module in which the warning was raised, as filters name it."""
    for frame in calling_frames():
        if frame.f_lineno == lineno and frame.f_code.co_filename == filename:
            return str(frame.f_globals.get("__name__", ""))
    return ""


def _pickled(category: type[Warning]) -> bytes:
    """Empty when it cannot be."""
    try:
        return cloudpickle.dumps(category)
    except Exception:
        return b""
