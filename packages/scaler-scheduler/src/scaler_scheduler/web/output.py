"""Answers to pages that show the output of tasks. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scaler_protocol.monitor.format import format_count, format_time
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.output_log import STDERR, PrintedBy, PrintedLine
from scaler_protocol.monitor.rows import short_id

LINES_LIMIT = 2000
FILTER_LIMIT = 200


def output_answer(model: Model, query: Mapping[str, Any]) -> dict[str, Any]:
    """The newest lines of all tasks, or of one: ``client`` is the id that tables show, ``task`` its number. ``worker``,
    ``filter``: as for ``PrintedBy``. ``offset``: lines after the last one."""
    output = model.activity.output
    task = query.get("task")
    wanted = PrintedBy(
        str(query.get("filter", ""))[:FILTER_LIMIT],
        _session(model, str(query.get("client", ""))),
        None if task is None else int(task),
        str(query.get("worker", "")),
    )
    limit = max(1, min(LINES_LIMIT, int(query.get("limit", LINES_LIMIT))))
    lines, total = output.newest(wanted, max(0, int(query.get("offset", 0))), limit)
    return {"lines": [_cells(line) for line in lines], "total": total, "note": _note(model, total)}


def _cells(line: PrintedLine) -> tuple[int, str, str, str, bool, str]:
    """Number, time, who has written it, the client, whether it is stderr, text."""
    client = short_id(line.session) if line.session else ""
    return line.number, format_time(line.time), line.prefix, client, line.stream == STDERR, line.text


def _note(model: Model, shown: int) -> str:
    total = model.activity.output.total
    return f"of {format_count(total)} while this monitor watched" if total > shown else ""


def _session(model: Model, shown: str) -> bytes:
    """Find the session of the client with this id in tables."""
    sessions = (named.session for named in model.activity.sessions.values())
    return next((session for session in sessions if shown and short_id(session) == shown), b"")
