"""Tells an exception that a signal handler has raised from one that the interrupted code has raised by itself."""

from __future__ import annotations

import functools
import signal
import threading
import traceback
from collections.abc import Callable
from types import CodeType
from typing import Any

_REPEAT_SECONDS = 1.0


def is_interruption(error: BaseException, repeat: Callable[[], object]) -> bool:
    """Whether ``error``, just caught in this thread, came from a signal handler. Ctrl-C leaves no trace of that: then
    ``repeat``, which does the same once more where no handler runs, shows whether it is raised again."""
    if threading.current_thread() is not threading.main_thread():
        return False  # handlers run in the main thread only
    handlers = _handler_codes()
    if any(frame.f_code in handlers for frame, _ in traceback.walk_tb(error.__traceback__)):
        return True
    if not isinstance(error, KeyboardInterrupt) or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return False
    return not _fails(repeat)


def _handler_codes() -> set[CodeType]:
    handlers = map(signal.getsignal, signal.valid_signals())
    return {code for handler in handlers if (code := _code_of(handler)) is not None}


def _code_of(handler: Any) -> CodeType | None:
    """Of a function, a method, a partial of one, or an object that can be called."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    function = getattr(handler, "__func__", handler)
    if not hasattr(function, "__code__") and callable(function):
        function = type(function).__call__
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None


def _fails(repeat: Callable[[], object]) -> bool:
    """Whether it raises something, in another thread and within a second."""
    failed: list[bool] = []

    def run() -> None:
        try:
            repeat()
        except BaseException:
            failed.append(True)

    helper = threading.Thread(target=run, name="scaler-repeat", daemon=True)
    helper.start()
    helper.join(_REPEAT_SECONDS)
    return bool(failed)
