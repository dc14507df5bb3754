"""The calls of every screen on the model behind it."""

from __future__ import annotations

from fuzz.choices import Choices
from scaler_protocol.monitor import tables
from scaler_protocol.monitor.document import document_of
from scaler_protocol.monitor.format import format_value
from scaler_protocol.monitor.model import HISTORIES, Model
from scaler_protocol.monitor.parts import parts_of_task

TABLES = tuple(each for each in vars(tables).values() if isinstance(each, tables.TableSpec))
FILTERS = ("", "name", "a b", "\x00", "x" * 400)


def look_at(model: Model, choices: Choices, now: float) -> None:
    """One table, formatted as screens do, and whatever else a screen shows."""
    table = choices.pick(TABLES)
    column = choices.pick(table.columns)
    rows, count = model.rows(table.name, choices.pick(FILTERS), column.key, choices.flag(), choices.below(4), 10)
    assert len(rows) <= 10 and count >= len(rows)
    for row in rows:
        for each, value in zip(table.columns, row, strict=True):
            assert isinstance(format_value(each.kind, value), str)
    model.history(choices.pick(HISTORIES), 0.0)
    model.failure_details(choices.below(4))
    model.state(now)
    assert isinstance(model.late_text, str) and isinstance(model.problem, str | None)
    look_at_stream(model, choices)
    look_at_parts(model)
    look_at_graphs(model)
    if model.snapshot is not None:
        document_of(model.snapshot)


def look_at_stream(model: Model, choices: Choices) -> None:
    workers = [row.worker_index for row in model.stream_rows()][:8]
    latest = model.time
    width = 1 + choices.below(200)
    bars = model.bars(latest - choices.below(100), latest + 1, width, workers)
    assert len(bars) <= bars.tasks
    assert all(model.log.row(serial) is not None for serial in bars.serials)


def look_at_parts(model: Model) -> None:
    """Check that no part of the newest executions is longer than the whole."""
    for serial in range(max(model.log.first, model.log.total - 20), model.log.total):
        row = model.log.row(serial)
        assert row is not None and 0 <= model.log.running_us(serial) <= row[2]
        parts = parts_of_task(model.activity.times, row)
        assert sum(parts[2:]) * 1e6 <= row[2] + 2


def look_at_graphs(model: Model) -> None:
    for graph in model.activity.graphs.all():
        named = model.activity.sessions.get(graph.session)
        if named is not None:
            model.graph(named.session, graph.graph)
