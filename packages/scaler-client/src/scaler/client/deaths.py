"""Describes deaths of worker processes, from the certificates that agents send."""

from __future__ import annotations

import json
from typing import Any

from scaler.utility.exceptions import ProcessorDiedError
from scaler_protocol.monitor.format import format_bytes

LONGEST_REASON = 200
"""Characters. A longer reason stays in the certificate, because the message is for one line."""


def processor_died(payload: bytes) -> ProcessorDiedError:
    """The exception of a task that ended each of its worker processes. ``payload``: a JSON list of certificates, or a
    single one; the text of anything else becomes the message."""
    try:
        found = json.loads(payload)
    except ValueError:
        return ProcessorDiedError(payload.decode(errors="replace"))
    certificates = [each for each in (found if isinstance(found, list) else [found]) if isinstance(each, dict)]
    return ProcessorDiedError(_message([_describe(each) for each in certificates or [{}]]), certificates)


def _message(deaths: list[str]) -> str:
    where = "The attribute 'certificates' of this exception has stacks and the last output."
    if len(deaths) == 1:
        return f"The worker process of the task died: {deaths[0]}. {where}"
    listed = "; ".join(f"({number}) {death}" for number, death in enumerate(deaths, 1))
    return f"The worker process of the task died {len(deaths)} times: {listed}. {where}"


def _describe(certificate: dict[str, Any]) -> str:
    """One line, for example: SIGKILL, out of memory, task simulate, host vm-3, process 812, peak memory 1.2 GiB."""
    get = certificate.get
    exit_code, peak, reason = get("exit_code"), get("peak_memory"), str(get("reason") or "").rstrip(".")
    parts = [
        str(get("signal") or ""),
        f"exit code {exit_code}" if exit_code is not None else "",
        "out of memory" if get("out_of_memory") else "",
        reason if "\n" not in reason and len(reason) <= LONGEST_REASON else "",
        *(f"{word} {get(key)}" if get(key) else "" for key, word in _PLACES.items()),
        f"peak memory {format_bytes(peak)}" if isinstance(peak, int) and peak else "",
    ]
    return ", ".join(filter(None, parts)) or "cause unknown"


_PLACES = {"task": "task", "host": "host", "pid": "process"}
"""Keys of a certificate, and the words for them."""
