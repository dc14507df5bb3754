"""Small tables of a label and a number: scheduler, tasks, messages, clients, functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from scaler_protocol.monitor.format import display_width, format_bytes_short, format_count, format_percent, right
from scaler_protocol.monitor.messages import ClientStatus, FunctionStatus, MessageCount, Snapshot
from scaler_scheduler.top.lines import Line, Span, Style, joined

ELLIPSIS = "..."


@dataclass(frozen=True, slots=True)
class Entry:
    label: str
    value: str
    style: Style = Style.PLAIN


@dataclass(frozen=True, slots=True)
class Table:
    """A title over entries. ``label_width`` and ``value_width`` are exact."""

    title: str
    entries: tuple[Entry, ...]
    label_width: int
    value_width: int

    @property
    def width(self) -> int:
        return self.label_width + 1 + self.value_width

    def lines(self, height: int) -> list[Line]:
        """Exactly ``height`` lines, all as wide as the table; the last one says when entries are missing."""
        title = (Span(right(self.title, self.label_width), Style.TITLE), Span(" " * (1 + self.value_width)))
        entries = fitting(self.entries, height - 1)
        blank = (Span(" " * self.width),)
        return ([title] + [self._line(entry) for entry in entries] + [blank] * height)[:height]

    def _line(self, entry: Entry) -> Line:
        label = right(entry.label, self.label_width)
        return (Span(label + " ", _label_style(entry.style)), Span(right(entry.value, self.value_width), entry.style))


def fitting(entries: Sequence[Entry], count: int) -> list[Entry]:
    """All entries, or as many as fit with an ellipsis after them."""
    if len(entries) <= count:
        return list(entries)
    return [*entries[: max(0, count - 1)], Entry(ELLIPSIS, "", Style.DIM)]


def table_of(title: str, entries: Sequence[Entry], label_width: int = 0, value_width: int = 6) -> Table:
    """A table as wide as its contents need, and at least as wide as told."""
    labels = [display_width(entry.label) for entry in entries]
    values = [len(entry.value) for entry in entries]
    return Table(title, tuple(entries), max(label_width, len(title), *labels, 0), max(value_width, *values, 0))


def header_lines(snapshot: Snapshot, width: int, height: int) -> list[Line]:
    """The tables over the workers, next to each other; those at the right that do not fit are left out."""
    tables = [scheduler_table(snapshot), task_table(snapshot), *message_tables(snapshot, height - 1)]
    if total_width(tables) > width:
        tables[2:] = [both_messages_table(snapshot, height - 1)]
    while total_width(tables) > width and len(tables) > 1:
        tables.pop()
    columns = [table.lines(height) for table in tables]
    return [joined(parts) for parts in zip(*columns, strict=True)]


def total_width(tables: Sequence[Table]) -> int:
    return sum(table.width for table in tables) + 3 * (len(tables) - 1)


def scheduler_table(snapshot: Snapshot) -> Table:
    scheduler = snapshot.scheduler
    entries = [
        Entry("cpu", format_percent(scheduler.cpu_percent)),
        Entry("rss", format_bytes_short(scheduler.rss_bytes)),
    ]
    return table_of("scheduler", entries)


def task_table(snapshot: Snapshot) -> Table:
    tasks, unfinished = snapshot.tasks, snapshot.unfinished
    entries = [
        Entry("unassigned", format_count(unfinished.waiting)),
        Entry("queued", format_count(unfinished.queued)),
        Entry("running", format_count(unfinished.running)),
        Entry("success", format_count(tasks.success), Style.GOOD if tasks.success else Style.PLAIN),
        Entry("failed", format_count(tasks.failed), Style.BAD if tasks.failed else Style.PLAIN),
        Entry("canceled", format_count(tasks.canceled), Style.WARNING if tasks.canceled else Style.PLAIN),
        Entry("not_found", format_count(tasks.not_found), Style.WARNING if tasks.not_found else Style.PLAIN),
    ]
    return table_of("task_manager", entries)


def message_tables(snapshot: Snapshot, count: int) -> list[Table]:
    sent = table_of("scheduler_sent", _messages(snapshot.sent, count), 18, 7)
    return [sent, table_of("scheduler_received", _messages(snapshot.received, count), 18, 7)]


def both_messages_table(snapshot: Snapshot, count: int) -> Table:
    """Sent and received in one table, for narrow screens."""
    sent = {each.name: each.count for each in snapshot.sent}
    received = {each.name: each.count for each in snapshot.received}
    all_counts = {name: sent.get(name, 0) + received.get(name, 0) for name in [*sent, *received]}
    names = [each.name for each in most_frequent([MessageCount(*item) for item in all_counts.items()], count)]
    pairs = [(name, *(format_count(each.get(name, 0)) for each in (sent, received))) for name in names]
    widths = [
        max([len(title), *(len(pair[column]) for pair in pairs)]) for column, title in ((1, "sent"), (2, "received"))
    ]
    entries = [Entry(name, f"{first:>{widths[0]}} {second:>{widths[1]}}") for name, first, second in pairs]
    hidden = [Entry(ELLIPSIS, "", Style.DIM)] if len(entries) < len(all_counts) else []
    title = f"{'messages':>{max(8, *map(len, names), 0)}} {'sent':>{widths[0]}} {'received':>{widths[1]}}"
    return _WideTitle("", tuple(entries + hidden), max(8, *map(len, names), 0), sum(widths) + 1, title)


@dataclass(frozen=True, slots=True)
class _WideTitle(Table):
    """A table whose title stands over its values too."""

    wide_title: str = ""

    def lines(self, height: int) -> list[Line]:
        lines = Table.lines(self, height)
        return [(Span(right(self.wide_title, self.width), Style.TITLE),), *lines[1:]][:height]


def most_frequent(counts: Sequence[MessageCount], limit: int) -> list[MessageCount]:
    """Return the counts in the order of names, so that lines stay where they are; if not all fit, those with the
    highest counts."""
    if len(counts) > limit:
        counts = sorted(counts, key=lambda each: (-each.count, each.name))[: max(0, limit - 1)]
    return sorted(counts, key=lambda each: each.name)


def client_entries(clients: Sequence[ClientStatus]) -> list[Entry]:
    """The unfinished tasks of each client, most first."""
    ordered = sorted(clients, key=lambda each: (-_unfinished(each), each.host, each.pid, each.session))
    return [Entry(_client_label(each), format_count(_unfinished(each)), _client_style(each)) for each in ordered]


def function_entries(functions: Sequence[FunctionStatus]) -> list[Entry]:
    """The unfinished tasks of each function, most first."""
    ordered = sorted(functions, key=lambda each: (-each.unfinished, -each.finished, each.name, each.digest))
    return [
        Entry(each.name, format_count(each.unfinished), Style.PLAIN if each.unfinished else Style.DIM)
        for each in ordered
    ]


def widened(table: Table, width: int) -> Table:
    """The same table with another width, for its labels."""
    return replace(table, label_width=max(1, width - 1 - table.value_width))


def _messages(counts: Sequence[MessageCount], limit: int) -> list[Entry]:
    entries = [Entry(each.name, format_count(each.count)) for each in most_frequent(counts, limit)]
    return entries if len(entries) == len(counts) else [*entries, Entry(ELLIPSIS, "", Style.DIM)]


def _unfinished(client: ClientStatus) -> int:
    return client.unassigned + client.running


def _client_label(client: ClientStatus) -> str:
    mark = ">" if client.parent_session else ""
    return f"{mark}{client.pid}|{client.host}|{client.session.hex()[:3]}+"


def _client_style(client: ClientStatus) -> Style:
    if not client.connected:
        return Style.WARNING
    return Style.PLAIN if _unfinished(client) else Style.DIM


def _label_style(style: Style) -> Style:
    return style if style in (Style.DIM, Style.WARNING) else Style.PLAIN
