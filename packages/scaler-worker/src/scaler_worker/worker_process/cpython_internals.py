"""All uses of private parts of CPython in this distribution.

tests/unit/worker/test_cpython_internals.py checks each of them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, MutableMapping
from types import FrameType


def environment_data(environ: os._Environ[str]) -> MutableMapping[bytes, bytes]:
    """The mapping in which ``os.environ`` keeps its variables, as bytes. Python has no public hook for reads of a
    variable, and writing SCALER_PARENT through ``os.environ`` for each task would cost more than a short task."""
    return environ._data  # type: ignore[attr-defined]


def replace_environment_data(environ: os._Environ[str], data: MutableMapping[bytes, bytes]) -> None:
    """Let ``environ`` read and write ``data`` from now on."""
    environ._data = data  # type: ignore[attr-defined]


def calling_frames() -> Iterator[FrameType]:
    """The frames of the function that iterates and of its callers, innermost first. ``inspect.stack`` would read the
    source of every frame."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def frame_of(thread: int) -> FrameType | None:
    """Return the frame that a thread executes now, by its identifier; None if there is no such thread."""
    return sys._current_frames().get(thread)
