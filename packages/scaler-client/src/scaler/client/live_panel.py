"""A panel in a notebook that shows the cluster while it works."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from html import escape
from typing import Any

from scaler.client.cluster_info import ClusterInfo
from scaler_protocol.command.threads import lack_of_thread
from scaler_protocol.monitor.alerts import Alert
from scaler_protocol.monitor.bounds import short_text
from scaler_protocol.monitor.format import format_count, format_left, format_rate
from scaler_protocol.monitor.model import Model
from scaler_protocol.monitor.running import longest_running, summary_of
from scaler_protocol.monitor.tables import PROGRESS, Row

_logger = logging.getLogger("scaler")

_ROWS_LIMIT = 8
_RUNNING_LIMIT = 5
_NAME_LIMIT = 60
_NAMED_KINDS = ("all", "map", "graph")
"""Kinds that the names of rows contain."""

_COLOURS = {"critical": "#cf222e", "warning": "#9a6700"}


class LivePanel:
    """A live panel, created by ``Client.monitor``. The cell that creates it shows it, and it is updated until ``stop``
    is called or the client disconnects."""

    def __init__(self, ask: Callable[[], ClusterInfo], interval_seconds: float) -> None:
        self._ask = ask
        self._interval_seconds = interval_seconds
        self._model = Model(time.monotonic(), task_limit=1)
        self._problem = ""
        self._stopped = threading.Event()
        self._display: Any = None
        self._refresh()

    def stop(self) -> None:
        """Stop updating the panel. It keeps its last contents."""
        self._stopped.set()

    def _repr_html_(self) -> str:
        return self._html()

    def __repr__(self) -> str:
        snapshot = self._model.snapshot
        if snapshot is None:
            return f"<LivePanel: {self._problem or 'nothing is known yet'}>"
        unfinished = snapshot.unfinished
        return f"<LivePanel: {unfinished.running} tasks run, {unfinished.waiting} wait>"

    def _ipython_display_(self) -> None:
        """Show it, and keep it up to date. IPython calls this for the value of a cell."""
        from IPython.display import HTML, display

        if self._display is not None:
            display(HTML(self._html()))
            return
        self._display = display(HTML(self._html()), display_id=True)
        try:
            threading.Thread(target=self._run, name="scaler-panel", daemon=True).start()
        except RuntimeError as error:
            _logger.warning(f"Cannot keep the panel up to date: {lack_of_thread(error)}")

    def _run(self) -> None:
        from IPython.display import HTML

        while not self._stopped.wait(self._interval_seconds):
            self._refresh()
            self._display.update(HTML(self._html()))

    def _refresh(self) -> None:
        """An error is shown, and ends the panel: the client has left, or the scheduler is away for good."""
        try:
            self._model.apply(self._ask().snapshot, time.monotonic())
            self._problem = ""
        except Exception as error:
            self._problem = str(error) or type(error).__name__
            self._stopped.set()

    # ---- the page ----------------------------------------------------------------------------------------------------

    def _html(self) -> str:
        parts = [self._figures(), *map(_alert, self._model.alerts), self._progress(), self._running()]
        if self._problem:
            parts.append(_line(f"Not up to date any more: {self._problem}", _COLOURS["critical"]))
        return f'<div style="font: 13px system-ui, sans-serif; max-width: 900px">{"".join(parts)}</div>'

    def _figures(self) -> str:
        snapshot = self._model.snapshot
        if snapshot is None:
            return ""
        tasks, unfinished = snapshot.tasks, snapshot.unfinished
        rates = self._model.history("throughput", self._model.time - 10)[1]
        figures = [
            ("workers", format_count(len(self._model.worker_rows))),
            ("running", format_count(unfinished.running)),
            ("queued on hosts", format_count(unfinished.queued)),
            ("waiting", format_count(unfinished.waiting)),
            ("succeeded", format_count(tasks.success)),
            ("failed", format_count(tasks.failed)),
            ("throughput", format_rate(rates[-1] if rates else 0.0)),
        ]
        return "<div>" + "".join(
            f'<span style="display: inline-block; margin: 0 18px 6px 0"><b style="font-size: 18px">{value}</b><br>'
            f'<span style="opacity: .7">{name}</span></span>'
            for name, value in figures
        ) + "</div>"  # fmt: skip

    def _progress(self) -> str:
        rows, total = self._model.rows("progress", limit=_ROWS_LIMIT)
        unfinished = PROGRESS.index("unfinished")
        bars = "".join(_bar(row) for row in rows if row[unfinished])
        more = f"and {format_count(total - _ROWS_LIMIT)} more" if total > _ROWS_LIMIT else ""
        return f"<table>{bars}</table>{_line(more) if more else ''}" if bars else ""

    def _running(self) -> str:
        rows = longest_running(self._model.running.values())[:_RUNNING_LIMIT]
        return _line("longest-running: " + ", ".join(map(summary_of, rows))) if rows else ""


def _bar(row: Row) -> str:
    name, share, left = (row[PROGRESS.index(key)] for key in ("name", "progress", "left"))
    kind = row[PROGRESS.index("kind")]
    title = name if kind in _NAMED_KINDS else f"{kind} {name}"
    remaining = format_count(row[PROGRESS.index("unfinished")])
    until = f", {format_left(left)}" if left else ""
    blocked = row[PROGRESS.index("cannot_run")]
    cannot_run = f", {format_count(blocked)} cannot run" if blocked else ""
    return (
        f'<tr><td style="text-align: left" title="{escape(title)}">{escape(short_text(title, _NAME_LIMIT))}</td>'
        f'<td style="min-width: 260px"><progress value="{share:.4f}" style="width: 250px"></progress></td>'
        f'<td style="text-align: left">{100 * share:.0f} %, {remaining} remaining{cannot_run}{until}</td></tr>'
    )


def _alert(alert: Alert) -> str:
    return _line(alert.text, _COLOURS[alert.severity])


def _line(text: str, colour: str = "inherit") -> str:
    return f'<div style="color: {colour}; margin: 4px 0">{escape(text)}</div>'
