"""Ends a process whose turns keep failing.

A process that fails in every turn neither works nor ends, and no peer notices. One failed turn is logged and survived,
because the next one may succeed; several in a row mean that the state is broken. The process then exits with a
diagnosis, its peers recover as from any death, and its parent, if it has one, starts another.

A process without memory is different: turns that need little succeed between those that fail. So the turns that fail
for lack of memory count together, until there was none for a while.
"""

from __future__ import annotations

import logging
import time
from types import TracebackType

from scaler_protocol.command.remedies import is_lack_of_memory, shortage_text

FAILED_TURNS_LIMIT = 8
BROKEN_CODE = 70
"""The exit code: EX_SOFTWARE of sysexits.h."""

MEMORY_SECONDS = 60.0
"""A turn that fails for lack of memory this long after the last one is the first of its kind again."""


class TurnGuard:
    """A context manager around each turn of a shell: ``with guard: ...``. It logs and swallows an Exception, and raises
    SystemExit when ``limit`` turns in a row have failed, or ``limit`` turns for lack of memory, whatever has succeeded
    between them. Turns may be nested: only the outermost one counts as a success. ``name``: what the log calls the
    process, such as "Scheduler"."""

    def __init__(self, name: str, limit: int = FAILED_TURNS_LIMIT) -> None:
        self.failures = 0
        self._name = name
        self._limit = limit
        self._depth = 0
        self._has_failed = False
        self._lacked_memory = False
        self._memory_failures = 0
        self._memory_failed_at = 0.0

    def failed(self, what: str, error: Exception) -> None:
        """Part of a turn failed and was survived: it is logged as ``what``, and the turn counts as failed. A lack of
        memory needs no traceback: it can happen anywhere."""
        self._has_failed = True
        lacks_memory = is_lack_of_memory(error)
        self._lacked_memory = self._lacked_memory or lacks_memory
        try:
            if lacks_memory:
                logging.error(f"{self._name}: {what} {shortage_text(error, 'This process')}")
            else:
                logging.error(f"{self._name}: {what}", exc_info=error)
        except MemoryError:
            pass  # not even for this line; the turn counts all the same

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
        if self._lacked_memory:
            self._count_memory_failure(time.monotonic())
        self._has_failed = self._lacked_memory = False
        if self._memory_failures >= self._limit:
            self._end(
                f"{self._memory_failures} turns failed for lack of memory",
                "Raise what limits its memory (ulimit -v, a service or container), or give it less to do.",
            )
        if self.failures >= self._limit:
            self._end(f"{self.failures} consecutive turns failed", "Please report the tracebacks above.")

    def _count_memory_failure(self, now: float) -> None:
        is_first = now - self._memory_failed_at >= MEMORY_SECONDS
        self._memory_failures = 1 if is_first else self._memory_failures + 1
        self._memory_failed_at = now

    def _end(self, diagnosis: str, advice: str) -> None:
        try:
            logging.critical(
                f"{self._name}: {diagnosis}, so this process exits with code {BROKEN_CODE}. Its peers recover as if it"
                f" had been killed. {advice}"
            )
        except MemoryError:
            pass  # it ends without its diagnosis
        raise SystemExit(BROKEN_CODE)
