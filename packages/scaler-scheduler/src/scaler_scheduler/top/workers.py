"""The table of workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scaler_protocol.monitor.format import (
    display_width,
    format_bytes_short,
    format_count,
    format_flags,
    format_latency,
    format_percent,
    left,
    right,
)
from scaler_protocol.monitor.messages import PeerState
from scaler_protocol.monitor.workers import Order, SortKey, WorkerRow, WorkerTotals
from scaler_scheduler.top.lines import Line, Span, Style, line_of

HOST_WIDTH, NAME_WIDTH = 12, 4
"""The minimum widths of host and name."""

HOST_WIDTH_LIMIT, NAME_WIDTH_LIMIT, HOST_WIDTH_LEAST = 32, 40, 4

_ROW_STYLES = {
    PeerState.CONNECTED: Style.PLAIN,
    PeerState.SUSPECT: Style.WARNING,
    PeerState.LOST: Style.BAD,
    PeerState.PAUSED: Style.DIM,
}


class WorkerColumn(NamedTuple):
    key: SortKey | None
    name: str
    least_width: int
    cell: Callable[[WorkerRow], str]
    total: Callable[[WorkerTotals], str]


COLUMNS = (
    WorkerColumn(
        SortKey.AGENT_CPU, "agt_cpu", 7,
        lambda row: format_percent(row.agent_cpu_percent), lambda total: format_percent(total.agent_cpu_percent),
    ),
    WorkerColumn(
        SortKey.AGENT_RSS, "agt_rss", 7,
        lambda row: format_bytes_short(row.agent_rss_bytes), lambda total: format_bytes_short(total.agent_rss_bytes),
    ),
    WorkerColumn(
        SortKey.CPU, "cpu", 5,
        lambda row: format_percent(row.cpu_percent), lambda total: format_percent(total.cpu_percent),
    ),
    WorkerColumn(
        SortKey.RSS, "rss", 6,
        lambda row: format_bytes_short(row.rss_bytes), lambda total: format_bytes_short(total.rss_bytes),
    ),
    WorkerColumn(SortKey.FREE, "free", 4, lambda row: str(row.free), lambda total: str(total.free)),
    WorkerColumn(SortKey.SENT, "sent", 4, lambda row: str(row.sent), lambda total: str(total.sent)),
    WorkerColumn(SortKey.QUEUED, "queued", 6, lambda row: str(row.queued), lambda total: str(total.queued)),
    WorkerColumn(SortKey.LAG, "lag", 5, lambda row: format_latency(row.lag_seconds), lambda total: ""),
    WorkerColumn(
        None, "ITL", 3,
        lambda row: format_flags(row.initialized, row.has_task, row.slot_lent), lambda total: "",
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class WorkerTable:
    """Rows that are shown, with the widths they need."""

    rows: Sequence[WorkerRow]
    totals: WorkerTotals
    all_workers: int
    order: Order
    pid_width: int
    host_width: int
    name_width: int
    widths: tuple[int, ...]

    @property
    def label_width(self) -> int:
        return self.pid_width + 1 + self.host_width + 1 + self.name_width

    @property
    def width(self) -> int:
        return self.label_width + sum(1 + width for width in self.widths)

    def total_line(self) -> Line:
        """Return how many workers; under it every sum, over its column."""
        text = _total_text(self.totals.workers, self.all_workers)
        cells = "".join(
            " " + right(column.total(self.totals), width) for column, width in zip(COLUMNS, self.widths, strict=True)
        )
        numbers = " " * self.label_width + cells
        if numbers[: len(text) + 1].strip() or not self.all_workers:
            return line_of(text, Style.TITLE)
        return (Span(text, Style.TITLE), Span(numbers[len(text) :]))

    def header_line(self) -> Line:
        title = _title(SortKey.WORKER, "worker", self.order)
        spans = [Span(right(title, self.label_width), _header_style(SortKey.WORKER, self.order))]
        for column, width in zip(COLUMNS, self.widths, strict=True):
            spans.append(Span(" ", Style.HEADER))
            title = right(_title(column.key, column.name, self.order), width)
            spans.append(Span(title, _header_style(column.key, self.order)))
        return tuple(spans)

    def row_line(self, row: WorkerRow) -> Line:
        cells = "".join(
            " " + right(column.cell(row), width) for column, width in zip(COLUMNS, self.widths, strict=True)
        )
        return line_of(self._label(row) + cells, _ROW_STYLES[row.state])

    def _label(self, row: WorkerRow) -> str:
        pid = right(str(row.pid), self.pid_width)
        return f"{pid}|{left(row.host, self.host_width)}|{left(row.name, self.name_width)}"


def worker_table(
    rows: Sequence[WorkerRow],
    totals: WorkerTotals,
    all_workers: int,
    order: Order,
    width: int,
    panel_widths: Sequence[int],
) -> WorkerTable:
    """A table for these rows in ``width`` columns. The panel next to it takes the first of ``panel_widths`` that fits:
    host and name take what is left over, and give way when it is tight."""
    widths = tuple(_width(column, rows, totals, order) for column in COLUMNS)
    pid_width = max([5, *(len(str(row.pid)) for row in rows)])
    wanted_host_width = max([HOST_WIDTH_LEAST, *(display_width(row.host) for row in rows)])
    wanted_name_width = max([NAME_WIDTH, *(display_width(row.name) for row in rows)])
    room = width - sum(widths) - len(widths) - pid_width - 2
    host_width, name_width = min(wanted_host_width, HOST_WIDTH), NAME_WIDTH
    spare = room - host_width - name_width
    spare -= next((panel for panel in panel_widths if panel <= spare), 0)
    if spare < 0:
        host_width = max(HOST_WIDTH_LEAST, host_width + spare)
    host_width, spare = _grown(host_width, min(wanted_host_width, HOST_WIDTH_LIMIT), spare)
    name_width, spare = _grown(name_width, min(wanted_name_width, NAME_WIDTH_LIMIT), spare)
    return WorkerTable(rows, totals, all_workers, order, pid_width, host_width, name_width, widths)


def _grown(width: int, ideal: int, spare: int) -> tuple[int, int]:
    more = max(0, min(ideal - width, spare))
    return width + more, spare - more


def _width(column: WorkerColumn, rows: Sequence[WorkerRow], totals: WorkerTotals, order: Order) -> int:
    cells = [len(column.cell(row)) for row in rows]
    title = _title(column.key, column.name, order)
    return max([column.least_width, len(title), len(column.total(totals)), *cells])


def _title(key: SortKey | None, name: str, order: Order) -> str:
    return f"[{name}]" if key is order.key else name


def _header_style(key: SortKey | None, order: Order) -> Style:
    return Style.SORTED if key is order.key else Style.HEADER


def _total_text(shown: int, all_workers: int) -> str:
    if shown == all_workers:
        return f"Total {format_count(all_workers)} worker(s)"
    return f"Total {format_count(shown)} of {format_count(all_workers)} worker(s)"
