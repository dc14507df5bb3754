"""The audit log: which user did what with the cluster, and when. Lines of JSON, which are only ever appended."""

from __future__ import annotations

import json
import logging
import os
import time
from dataclasses import asdict

from scaler_protocol.command import BadInput
from scaler_scheduler.core.effects import Audit


class AuditLog:
    """``path``: None: nothing is recorded. Only this user can read the file."""

    def __init__(self, path: str | None = None) -> None:
        """Raises BadInput if the file cannot be written."""
        self._path = path or ""
        self._descriptor = _open(path) if path is not None else None

    def record(self, audit: Audit) -> None:
        """Errors are logged: the action has been carried out."""
        if self._descriptor is None:
            return
        line = line_of(audit) + "\n"
        try:
            os.write(self._descriptor, line.encode())
        except OSError as error:
            logging.error(f"Cannot write to the audit log {self._path}: {error.strerror}. Not recorded: {line.strip()}")

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def line_of(audit: Audit) -> str:
    """The line that records it, without its end."""
    return json.dumps({"time": _now_text(), **asdict(audit)}, ensure_ascii=True)


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise BadInput(f"Cannot write the audit log {path}: {error.strerror}. Check --audit-log.") from None


def _now_text() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
