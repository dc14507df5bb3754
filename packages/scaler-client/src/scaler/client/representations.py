"""The representation of clusters and futures in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from html import escape
from itertools import islice
from typing import Any

Rows = Iterable[tuple[str, str]]

_SHOWN_FUTURES = 20


def table(title: str, rows: Rows) -> str:
    """A title and rows of names and values, as HTML."""
    cells = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(value)}</td></tr>'
        for name, value in rows
    )
    return f"<div><strong>{escape(title)}</strong><table>{cells}</table></div>"


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
