"""The audit log: which user did what with the cluster, and when. Lines of JSON, which are only ever appended."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import time
from dataclasses import asdict

from scaler_protocol.command import BadInput
from scaler_scheduler.core.effects import Audit

_END = "\n"


class AuditLog:
    """``path``: None: nothing is recorded. Only this user can read the file."""

    def __init__(self, path: str | None = None) -> None:
        """Raises BadInput if the file cannot be written."""
        self._path = path or ""
        self._descriptor = _open(path) if path is not None else None
        self._is_cut = path is not None and _is_cut(path)

    def record(self, audit: Audit) -> None:
        """Append a line. An error is only logged, because the action has been carried out. If a full disk has cut a
        line, its beginning stays, and the next line begins after it."""
        if self._descriptor is None:
            return
        line = line_of(audit)
        data = f"{_END * self._is_cut}{line}{_END}".encode()
        try:
            self._append(self._descriptor, data)
        except OSError as error:
            logging.error(f"Cannot write to the audit log {self._path}: {error.strerror}. Not recorded: {line}")

    def _append(self, descriptor: int, data: bytes) -> None:
        """Raises OSError also if only a part could be written."""
        written = os.write(descriptor, data)
        self._is_cut = not data[:written].endswith(_END.encode())
        if written < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

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


def _is_cut(path: str) -> bool:
    """Return whether the last line of the file has no end."""
    if not os.path.isfile(path) or not os.path.getsize(path):
        return False
    with contextlib.suppress(OSError), open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) != _END.encode()
    return False


def _now_text() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
