"""A run of the tests always ends. A test's time limit is a signal, and some code does not listen to signals."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Generator
from typing import Any

import psutil
import pytest

GRACE_SECONDS = 30.0
END_SECONDS = 60.0
"""From the last test to the end of the process that reports."""


class Watchdog:
    """A plugin of pytest. Of a test that does not heed its limit, first the child processes are killed, which mostly
    lets it fail by itself; after as long again the run is ended, with its closing line."""

    def __init__(self, config: pytest.Config, grace_seconds: float = GRACE_SECONDS) -> None:
        self._config = config
        self._grace_seconds = grace_seconds
        self._item: pytest.Item | None = None
        self._deadline = float("inf")
        self._has_killed = False
        self._changed = threading.Condition()
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self._expect(item, limit_seconds(item) + self._grace_seconds)
        result = yield
        self._expect(None, float("inf"))
        return result

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """A process that runs tests for another waits without work for that one, which ends it."""
        if not hasattr(self._config, "workerinput"):
            self._expect(None, END_SECONDS)

    def pytest_enter_pdb(self) -> None:
        self._expect(None, float("inf"))

    def _expect(self, item: pytest.Item | None, seconds: float) -> None:
        """That this test, or without one the run, ends within so many seconds."""
        with self._changed:
            self._item, self._deadline, self._has_killed = item, time.monotonic() + seconds, False
            self._changed.notify()

    def _watch(self) -> None:
        with self._changed:
            while True:
                left = self._deadline - time.monotonic()
                if left > 0:
                    self._changed.wait(min(left, threading.TIMEOUT_MAX))
                else:
                    self._end()

    def _end(self) -> None:
        if self._has_killed or self._item is None:
            self._end_run()
        for child in psutil.Process().children(recursive=True):
            try:
                child.kill()
            except psutil.Error:
                pass
        self._has_killed, self._deadline = True, time.monotonic() + self._grace_seconds

    def _end_run(self) -> None:
        capture = self._config.pluginmanager.getplugin("capturemanager")
        if capture is not None:
            capture.suspend(in_=True)
        faulthandler.dump_traceback(sys.__stderr__ or 2)
        if hasattr(self._config, "workerinput"):  # the process that reports says which test ran when this one ended
            os._exit(1)
        reporter: Any = self._config.pluginmanager.getplugin("terminalreporter")
        if self._item is not None:
            words = "does not end, not even without its child processes; the run ends here"
            report = pytest.TestReport(self._item.nodeid, self._item.location, {}, "failed", words, "call")
            self._config.hook.pytest_runtest_logreport(report=report)
            reporter.summary_failures()
        else:
            reporter.line("pytest does not end: some test left a thread behind")
        reporter.short_test_summary()
        reporter.summary_stats()
        sys.stdout.flush()
        os._exit(1)


def limit_seconds(item: pytest.Item) -> float:
    """As pytest-timeout has it; without end when there is none."""
    given = item.config.getoption("timeout")
    marker = item.get_closest_marker("timeout")
    seconds = marker.args[0] if marker else item.config.getini("timeout") if given is None else given
    return float(seconds or 0) or float("inf")
