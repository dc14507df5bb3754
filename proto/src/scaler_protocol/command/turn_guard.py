"""Ends a process whose turns keep failing.

A process that fails in every turn neither works nor ends, and no peer notices. One failed turn is logged and survived,
because the next one may succeed; several in a row mean that the state is broken. The process then exits with a
diagnosis, its peers recover as from any death, and its parent, if it has one, starts another.
"""

from __future__ import annotations

import logging
from types import TracebackType

FAILED_TURNS_LIMIT = 8
BROKEN_CODE = 70
"""The exit code: EX_SOFTWARE of sysexits.h."""


class TurnGuard:
    """A context manager around each turn of a shell: ``with guard: ...``. It logs and swallows an Exception, and raises
    SystemExit when ``limit`` turns in a row have failed. Turns may be nested: only the outermost one counts as a
    success. ``name``: what the log calls the process, such as "Scheduler"."""

    def __init__(self, name: str, limit: int = FAILED_TURNS_LIMIT) -> None:
        self.failures = 0
        self._name = name
        self._limit = limit
        self._depth = 0
        self._has_failed = False

    def failed(self, what: str, error: Exception) -> None:
        """Part of a turn failed and was survived: it is logged as ``what``, and the turn counts as failed."""
        self._has_failed = True
        logging.error(f"{self._name}: {what}", exc_info=error)

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._depth -= 1
        if isinstance(error, Exception):
            self.failed("a turn failed.", error)
        if self._depth == 0:
            self._count()
        return isinstance(error, Exception)

    def _count(self) -> None:
        self.failures = self.failures + 1 if self._has_failed else 0
        self._has_failed = False
        if self.failures >= self._limit:
            logging.critical(
                f"{self._name}: {self.failures} consecutive turns failed, so this process exits with code"
                f" {BROKEN_CODE}. Its peers recover as if it had been killed. Please report the tracebacks above."
            )
            raise SystemExit(BROKEN_CODE)
