"""The part of a failure's payload that an event record keeps.

A payload within the limit is kept as it is. A longer one is written again, in the same form, with the beginning and the
end of each of its texts, so that readers of every version can read it. A pickle is never loaded, only searched for its
texts: its objects belong to other programs.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import pickletools
from itertools import islice
from typing import Any

from scaler_protocol.messages import Status

FAILURE_LIMIT_BYTES = 32 * 1024

PICKLED = (Status.EXCEPTION, Status.EXCEPTION_NOT_SERIALIZABLE, Status.DESERIALIZE_FAILED)
"""Failures whose payload is the pickled tuple (exception as bytes, type name, message, formatted traceback), and after
it the end of what the task wrote to stderr."""

STDERR_LIMIT_BYTES = 4 * 1024
"""Kept of the stderr of a task whose payload is too long."""

_OPCODE_LIMIT = 64
"""Opcodes searched for the texts of that tuple, which takes about 15."""

_TEXT_LIMITS_BYTES = (512, 10 * 1024, 16 * 1024)
_TEXT_OPCODES = ("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "UNICODE", "BINGET", "LONG_BINGET")
_CERTIFICATE_LIMIT_BYTES = 1024 * 1024
"""Longer lists of death certificates are not parsed."""

_CERTIFICATES_KEPT = 4
_FIELD_LIMITS_BYTES = (6 * 1024, 1024, 128)
"""The limits for the texts of death certificates: the first one with which they fit is used."""


def kept_payload(status: int, payload: bytes) -> bytes:
    """Return at most ``FAILURE_LIMIT_BYTES`` of a payload. Never raises."""
    if len(payload) <= FAILURE_LIMIT_BYTES:
        return payload
    kept = None
    with contextlib.suppress(Exception):
        if status in PICKLED:
            kept = _shorter_exception(payload)
        elif status == Status.PROCESSOR_DIED:
            kept = _shorter_certificates(payload)
    if kept is not None and len(kept) <= FAILURE_LIMIT_BYTES:
        return kept
    return payload[:FAILURE_LIMIT_BYTES] if status in PICKLED else _ends(payload, FAILURE_LIMIT_BYTES)


def exception_texts(payload: bytes) -> list[str]:
    """Type name, message and traceback of a pickled failure, or the first of them if it was cut."""
    found: list[str] = []
    with contextlib.suppress(Exception):
        _find_texts(payload, found)
    return found


def _find_texts(payload: bytes, found: list[str]) -> None:
    """Raises an exception where the payload was cut."""
    remembered: list[str | None] = []
    last: str | None = None
    for opcode, value, _ in islice(pickletools.genops(payload), _OPCODE_LIMIT):
        if opcode.name == "MEMOIZE":
            remembered.append(last)
            continue
        if opcode.name in ("BINGET", "LONG_BINGET"):
            assert isinstance(value, int)
            value = remembered[value]
        last = value if isinstance(value, str) and opcode.name in _TEXT_OPCODES else None
        if last is not None:
            found.append(last)
        if len(found) == len(_TEXT_LIMITS_BYTES):
            break


def stderr_of(payload: bytes) -> bytes:
    """The end of what the task wrote to stderr, which follows the pickle. Empty if it wrote nothing, or if the payload
    was cut."""
    with contextlib.suppress(Exception):
        return _after_pickle(payload)
    return b""


def _after_pickle(payload: bytes) -> bytes:
    for opcode, _, position in islice(pickletools.genops(payload), _OPCODE_LIMIT):
        if opcode.name == "STOP" and position is not None:
            return payload[position + 1 :]
    return b""


def _shorter_exception(payload: bytes) -> bytes | None:
    texts = exception_texts(payload)
    if not texts:
        return None
    shorter = pickle.dumps((b"", *map(_shorter, texts, _TEXT_LIMITS_BYTES)), protocol=4)
    return shorter + stderr_of(payload)[-STDERR_LIMIT_BYTES:]


def _shorter_certificates(payload: bytes) -> bytes | None:
    if len(payload) > _CERTIFICATE_LIMIT_BYTES:
        return None
    certificates = json.loads(payload)
    if not isinstance(certificates, list):
        certificates = [certificates]
    for limit in _FIELD_LIMITS_BYTES:
        kept = [_shorter_certificate(each, limit) for each in certificates[-_CERTIFICATES_KEPT:]]
        encoded = json.dumps(kept).encode()
        if len(encoded) <= FAILURE_LIMIT_BYTES:
            return encoded
    return None


def _shorter_certificate(certificate: dict[str, Any], limit: int) -> dict[str, Any]:
    return {name: _shorter_field(value, limit) for name, value in certificate.items()}


def _shorter_field(value: Any, limit: int) -> Any:
    if isinstance(value, list):
        return _shorter("\n".join(map(str, value)), limit).split("\n")
    return _shorter(value, limit) if isinstance(value, str) else value


def _shorter(text: str, limit: int) -> str:
    return _ends(text.encode("utf-8", "replace"), limit).decode("utf-8", "ignore")


def _ends(data: bytes, limit: int) -> bytes:
    """The beginning and the end of ``data``, with a line between them that says how much is left out."""
    if len(data) <= limit:
        return data
    half = (limit - 64) // 2
    return data[:half] + b"\n[%d bytes are left out]\n" % (len(data) - 2 * half) + data[-half:]
