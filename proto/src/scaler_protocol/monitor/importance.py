"""The columns of tables that a screen leaves out when it has no room for all."""

from __future__ import annotations

from scaler_protocol.monitor.tables import TableSpec

_LESS_IMPORTANT = {
    "functions": (
        "digest",
        "module",
        "progress",
        "canceled",
        "finished",
        "longest",
        "median",
        "cpu_time",
        "parts",
        "left",
        "succeeded",
    ),
    "waits": ("task", "session", "priority"),
    "failures": ("group", "first", "hosts", "status", "functions", "last", "place", "message"),
    "progress": ("canceled", "end", "running", "failed"),
    "largest": ("copies", "function"),
    "objects": ("received", "sent", "spilled_rate", "spilled"),
    "graphs": ("canceled", "ready", "waiting"),
    "tasks": ("parts", "attempt", "session", "host", "actor"),
    "clients": (
        "canceled",
        "parent",
        "failed",
        "finished",
        "left",
        "state",
        "group",
        "session",
        "used",
        "user",
    ),
    "workers": ("agent_cpu", "agent_rss", "itl", "free", "sent", "lag", "queued", "capabilities", "state"),
    "processors": ("agent", "slot_lent", "initialized"),
    "agents": ("free", "sent", "lag", "silent", "pid", "queued"),
    "hosts": ("agents", "workers_rss", "memory_free", "workers"),
    "logs": ("number", "host", "level", "log"),
    "actors": ("task", "host", "session"),
    "running": ("started", "usual", "pid", "session", "priority"),
}
"""Columns that go first when there is no room, in this order. Others go from the right."""


def columns_by_importance(table: TableSpec, sort_key: str) -> list[str]:
    """The keys of the columns that may go, in the order in which they go. The first column stays, as does the one by
    which the table is sorted."""
    known = {column.key for column in table.columns}
    first = [key for key in _LESS_IMPORTANT.get(table.name, ()) if key in known and key != sort_key]
    others = [column.key for column in reversed(table.columns[1:]) if column.key not in (*first, sort_key)]
    return first + others
