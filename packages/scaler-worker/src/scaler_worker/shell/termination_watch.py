"""Polls for a termination notice of the machine's provider, in a thread of its own: the answers take a while."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from scaler_protocol.command.guarded_loop import GuardedLoop
from scaler_protocol.command.threads import lack_of_thread
from scaler_worker.termination_notice import POLL_SECONDS


class TerminationWatch:
    """``asks`` tells whether there is a notice. ``report`` is called in ``loop`` when there is one, once."""

    def __init__(self, loop: GuardedLoop, asks: Callable[[], bool], report: Callable[[], None]) -> None:
        self._loop = loop
        self._asks = asks
        self._report = report
        self._ended = threading.Event()
        self._obstacle = ""

    def begin(self) -> None:
        try:
            threading.Thread(target=self._watch, name="termination notices", daemon=True).start()
        except RuntimeError as error:
            logging.warning(f"Cannot watch for termination notices: {lack_of_thread(error)}")

    def end(self) -> None:
        self._ended.set()

    def _watch(self) -> None:
        while not self._has_notice():
            if self._ended.wait(POLL_SECONDS):
                return
        try:
            self._loop.call_soon_threadsafe(self._report)
        except RuntimeError:
            pass  # the loop is closed

    def _has_notice(self) -> bool:
        """An obstacle is logged once."""
        try:
            found, obstacle = self._asks(), ""
        except (OSError, ValueError, RecursionError) as error:
            found, obstacle = False, str(error)
        if obstacle and obstacle != self._obstacle:
            logging.warning(f"Cannot ask for termination notices: {obstacle}. Is --termination-notices right?")
        self._obstacle = obstacle
        return found
