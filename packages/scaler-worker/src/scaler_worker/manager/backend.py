"""The interface of a kind of worker manager: four functions that start, stop, list and explain jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from scaler_worker.manager.core.jobs import Job


class StartError(Exception):
    """No job could be started. Its text is one sentence, which says what to do; the manager tries again later.
    ``wait_seconds``: not before."""

    def __init__(self, sentence: str, wait_seconds: float = 0.0) -> None:
        super().__init__(sentence)
        self.wait_seconds = wait_seconds


class ListError(Exception):
    """The jobs could not be listed. Its text is one sentence, which says what to do; the manager tries again later, and
    until then it neither starts nor misses any job."""


class WorkerBackend(Protocol):
    """The interface of what runs jobs. No function waits for a job to start or to end. They are called one after the
    other, in a thread of their own, and may block while a command runs that ends in a few seconds: each bounds its
    commands in time."""

    def start(self, n: int, capabilities: Sequence[str]) -> Sequence[Job]:
        """Start jobs that have ``n`` workers together, each of which offers the capabilities (name or name=amount).
        Raises StartError if none could be started, and BadInput if none ever can, which ends a manager that begins."""

    def stop(self, ids: Sequence[str]) -> None:
        """Ask these jobs to end cleanly. Harmless for those that have ended."""

    def list(self) -> Sequence[Job]:
        """Every job of this manager that exists; one that ended without being asked to is listed once more. Where jobs
        outlive their manager, those of an earlier one of the same name are listed, too. Raises ListError."""

    def close(self) -> None:
        """Remove what belongs to the manager and not to a job. The last call: no job is left."""

    def why_not(self) -> Sequence[str]:
        """Sentences that say why jobs that were started do not run."""
