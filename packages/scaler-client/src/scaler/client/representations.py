"""The representation of clients and futures in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scaler.client.cluster_info import ClusterInfo

Rows = Iterable[tuple[str, str]]

_SHOWN_FUTURES = 20


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


def future_rows(futures: Mapping[str, Future[Any]]) -> Rows:
    """Return the number of futures in each state, and the state of each of the first futures."""
    states = [(name, _state_of(future)) for name, future in futures.items()]
    counts = {
        state: sum(each == state for _, each in states) for state in ("finished", "failed", "cancelled", "running")
    }
    yield "All", ", ".join(f"{count:,} {state}" for state, count in counts.items() if count)
    yield from islice(states, _SHOWN_FUTURES)
    if len(states) > _SHOWN_FUTURES:
        yield "...", f"{len(states) - _SHOWN_FUTURES:,} more"


def _state_of(future: Future[Any]) -> str:
    if not future.done():
        return "running"
    if future.cancelled():
        return "cancelled"
    return "failed" if future.exception() is not None else "finished"
