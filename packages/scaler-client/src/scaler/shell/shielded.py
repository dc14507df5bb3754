"""Work that a signal handler must not interrupt halfway, such as cancelling what a call has submitted."""

from __future__ import annotations

import threading
from collections.abc import Callable

_INTERRUPTIONS_LIMIT = 3


def shielded(action: Callable[[], object]) -> None:
    """Run ``action`` to its end. Python runs signal handlers in the main thread only, so there the action runs in a
    helper thread; a Ctrl-C meanwhile is raised when the action has ended, or at the third one. The action must be
    idempotent: an interruption while the helper starts makes it run again."""
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
