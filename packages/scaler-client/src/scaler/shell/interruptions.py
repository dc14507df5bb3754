"""Protection of code from exceptions that signal handlers raise, such as KeyboardInterrupt."""

from __future__ import annotations

import functools
import signal
import threading
import traceback
from collections.abc import Callable
from types import CodeType
from typing import Any

_REPEAT_SECONDS = 1.0
_INTERRUPTIONS_LIMIT = 3


# ---- whose exception it is ----------------------------------------------------------------------------------------


def is_interruption(error: BaseException, repeat: Callable[[], object]) -> bool:
    """Return whether ``error``, just caught in this thread, was raised by a signal handler and not by the interrupted
    code itself. The exception of Ctrl-C does not show it. Then ``repeat``, which does the same once more where no
    handler runs, shows whether it is raised again."""
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
    """The code of a function, a method, a partial of one, or a callable object."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    function = getattr(handler, "__func__", handler)
    if not hasattr(function, "__code__") and callable(function):
        function = type(function).__call__
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None


def _fails(repeat: Callable[[], object]) -> bool:
    """Return whether ``repeat`` raises an exception in another thread within a second."""
    failed: list[bool] = []

    def run() -> None:
        try:
            repeat()
        except BaseException:
            failed.append(True)

    helper = threading.Thread(target=run, name="scaler-repeat", daemon=True)
    try:
        helper.start()
    except RuntimeError:
        return False  # there is no thread: Ctrl-C is more frequent than code that raises its exception
    helper.join(_REPEAT_SECONDS)
    return bool(failed)


# ---- work that must not be left halfway ----------------------------------------------------------------------------


def shielded(action: Callable[[], object]) -> None:
    """Run ``action`` to its end even if a signal handler raises an exception meanwhile. Python runs signal handlers in
    the main thread only, so a call in that thread runs the action in a helper thread. A Ctrl-C is raised when the
    action has ended, or when it is the third one. The action must be idempotent, because an interruption while the
    helper starts makes it run again."""
    if threading.current_thread() is not threading.main_thread():
        action()
        return
    run = _Run(action)
    interruption: BaseException | None = None
    for _ in range(_INTERRUPTIONS_LIMIT):
        try:
            run.finish()
            break
        except BaseException as error:
            interruption = error
    if interruption is not None:
        raise interruption
    if run.failure is not None:
        raise run.failure


class _Run:
    def __init__(self, action: Callable[[], object]) -> None:
        self._action = action
        self._ended = threading.Event()
        self.failure: BaseException | None = None

    def finish(self) -> None:
        if self._ended.is_set():
            return
        try:
            threading.Thread(target=self._run, name="scaler-shielded", daemon=True).start()
        except RuntimeError:  # no thread can be started: the interpreter shuts down, or a limit is reached
            self._run()
        self._ended.wait()

    def _run(self) -> None:
        try:
            self._action()
        except BaseException as error:
            self.failure = error
        finally:
            self._ended.set()
