"""The representation of clients and futures in a notebook."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scaler.client.cluster_info import ClusterInfo

Rows = Iterable[tuple[str, str]]


def table(title: str, rows: Rows) -> str:
    """A title and rows of names and values, as HTML."""
    cells = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(value)}</td></tr>'
        for name, value in rows
    )
    return f"<div><strong>{escape(title)}</strong><table>{cells}</table></div>"


def cluster_rows(info: ClusterInfo) -> Rows:
    """Return the facts of a cluster that a user wants to see at a glance."""
    workers = [worker for worker in info.workers if worker.is_connected]
    unfinished = info.unfinished
    hosts = len({worker.host for worker in workers})
    return [
        ("Workers", f"{len(workers)} on {hosts} {'host' if hosts == 1 else 'hosts'}"),
        ("Busy workers", str(sum(worker.is_busy for worker in workers))),
        ("Tasks running", f"{unfinished.running:,}"),
        ("Tasks queued on hosts", f"{unfinished.queued:,}"),
        ("Tasks waiting", f"{unfinished.waiting:,}"),
        ("Clients", str(len(info.clients))),
    ]
