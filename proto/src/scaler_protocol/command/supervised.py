"""A command as a child process of a script, restarted when it fails or is killed."""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from scaler_protocol.command.child import EXIT_TIMEOUT_SECONDS, START_TIMEOUT_SECONDS, ChildCommand
from scaler_protocol.command.exit_descriptor import open_exit_descriptor
from scaler_protocol.command.threads import lack_of_thread
from scaler_protocol.command.turn_guard import BROKEN_CODE

_log = logging.getLogger("scaler")

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 10.0
"""The pause before a start doubles with each early end, up to this."""

EARLY_SECONDS = 10.0
EARLY_LIMIT = 5
"""A command that has ended this often in a row, each time within ``EARLY_SECONDS`` of its start, is given up."""


class RestartPolicy:
    """The rule that decides whether a command that ended is started again, and when."""

    def __init__(self) -> None:
        self._early = 0

    def pause_after(self, exit_code: int, ran_seconds: float) -> float | None:
        """Seconds until the next start; None: not started again. ``exit_code`` is negative when a signal ended it."""
        if exit_code >= 0 and exit_code != BROKEN_CODE:
            return None
        self._early = self._early + 1 if ran_seconds < EARLY_SECONDS else 0
        if self._early >= EARLY_LIMIT:
            return None
        return min(FIRST_PAUSE_SECONDS * 2 ** max(0, self._early - 1), LONGEST_PAUSE_SECONDS)


class SupervisedCommand(ChildCommand):
    """A ChildCommand that is started again if it breaks (code 70) or another process kills it: a thread waits for that.
    ``name`` is for log lines; ``renewed`` returns the arguments of the next start, given what the first one reported,
    such as the port that it found."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        name: str,
        renewed: Callable[[dict[str, Any]], Sequence[str]] | None = None,
    ) -> None:
        super().__init__(module, arguments)
        self._name = name
        self._renewed = renewed
        self._policy = RestartPolicy()
        self._unwanted = threading.Event()  # it is not started again
        self._over = threading.Event()  # it has ended, and is not started again
        self._over.set()
        self._start_lock = threading.Lock()
        self._is_awaited = True

    @property
    def exit_code(self) -> int | None:
        """None also while it is about to be started again."""
        return super().exit_code if self._over.is_set() else None

    def start(self, is_awaited: bool = True) -> None:
        """``is_awaited``: the caller will call ``wait_ready``. Otherwise a line says why the command refuses its
        input."""
        if not self._over.is_set():
            return
        self._is_awaited = is_awaited
        self._policy = RestartPolicy()
        self._unwanted.clear()
        super().start()
        self._over.clear()
        try:
            threading.Thread(target=self._supervise, name=self._name, daemon=True).start()
        except RuntimeError as error:
            self._unwanted.set()
            self._over.set()
            self.kill()
            raise RuntimeError(f"Cannot start {self._name}: {lack_of_thread(error)}") from error

    def wait_ready(self, timeout_seconds: float = START_TIMEOUT_SECONDS) -> dict[str, Any]:
        try:
            return super().wait_ready(timeout_seconds)
        except BaseException:
            self._unwanted.set()  # the caller knows that it has failed
            raise

    def terminate(self) -> None:
        with self._start_lock:
            self._unwanted.set()
            super().terminate()

    def join(self, timeout_seconds: float | None = None) -> None:
        if not self._over.wait(timeout_seconds):
            raise TimeoutError(f"{self._module} is still running after {timeout_seconds} seconds")
        super().join(EXIT_TIMEOUT_SECONDS)

    # ---- the thread ----------------------------------------------------------------------------------------------

    def _supervise(self) -> None:
        try:
            while True:
                started_at = time.monotonic()
                code = self._wait_for_end()
                pause = self._policy.pause_after(code, time.monotonic() - started_at)
                if self._unwanted.is_set():
                    return
                self._tell(code, pause)
                if pause is None or self._unwanted.wait(pause) or not self._start_again():
                    return
        finally:
            self._over.set()

    def _wait_for_end(self) -> int:
        assert self._process is not None
        try:
            descriptor = open_exit_descriptor(self._process.pid)
        except ProcessLookupError:
            return self._process.wait()
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll()
        os.close(descriptor)
        return self._process.wait()

    def _tell(self, code: int, pause: float | None) -> None:
        if code >= 0 and code != BROKEN_CODE:
            if code and not self._is_awaited:
                self._tell_refusal()
            return
        how = f"with code {code}" if code >= 0 else f"by signal {-code}"
        if pause is None:
            _log.error(f"{self._name} ended {how}, the last of {EARLY_LIMIT} times: it will not be restarted.")
        else:
            _log.warning(f"{self._name} ended {how}: restarting it.")

    def _tell_refusal(self) -> None:
        try:
            error = self._read_message(time.monotonic() + EXIT_TIMEOUT_SECONDS).get("error")
        except (RuntimeError, TimeoutError):
            return
        if error is not None:
            _log.error(f"{self._name} has ended, and will not be restarted. {error}")

    def _start_again(self) -> bool:
        """False: it is not wanted any more, or refuses to start."""
        with self._start_lock:
            if self._unwanted.is_set():
                return False
            if self._renewed is not None and self._facts is not None:
                self._arguments = tuple(self._renewed(self._facts))
            self._close_ready_fd()
            try:
                self._spawn()
            except OSError as error:
                _log.error(f"{self._name} cannot be restarted. {error}")
                return False
        return True
