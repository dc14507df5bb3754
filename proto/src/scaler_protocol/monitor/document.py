"""A snapshot as plain JSON values, for programs."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

from scaler_protocol.monitor.messages import Snapshot
from scaler_protocol.monitor.workers import rows_of, total_of


def document_of(snapshot: Snapshot) -> dict[str, Any]:
    """Names as in the messages, except that ``tasks`` tells running tasks from those that are queued on hosts. Sessions
    and digests are hexadecimal; ``workers`` are rows as screens show them; ``running`` are tasks
    that have run for a second or longer."""
    rows = [row for agent in snapshot.agents for row in rows_of(agent)]
    document = _plain(snapshot)
    document["tasks"] |= {"queued": snapshot.unfinished.queued, "running": snapshot.unfinished.running}
    document["sent"] = {each.name: each.count for each in snapshot.sent}
    document["received"] = {each.name: each.count for each in snapshot.received}
    document["settings"] = {each.name: each.value for each in snapshot.settings}
    document["workers"] = [_plain(row) for row in rows]
    document["running"] = [
        {**_plain(task), "agent": agent.name, "host": agent.host} for agent in snapshot.agents for task in agent.running
    ]
    document["totals"] = total_of(rows)._asdict()
    for agent in document["agents"]:
        del agent["workers"], agent["running"]
    return document


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return value.hex()
    return value.name.lower() if isinstance(value, enum.Enum) else value
