"""Event records as bytes: headers, names, columns, failures and edges are read, or refused with BadRecord.

The compiled reader finds the same lasting records as the plain one.
"""

from __future__ import annotations

from collections.abc import Iterator

from fuzz.choices import Choices
from fuzz.events import a_record
from scaler_protocol.monitor import records
from scaler_protocol.monitor.failures import read_payload
from scaler_protocol.monitor.records import BadRecord, Kind, Record
from scaler_protocol.monitor.ring import lasting_in


def one_input(data: bytes) -> None:
    found: list[Record] = []
    try:
        for record in records.records(data):
            found.append(record)
            examine(record)
    except BadRecord as error:
        assert str(error)
    lasting = [(each.kind, each.flags, each.first) for each in found if each.kind in records.LASTING]
    heads = [next(records.records(each)) for each in lasting_in(data)]
    assert [(each.kind, each.flags, each.first) for each in heads][: len(lasting)] == lasting


def examine(record: Record) -> None:
    if record.kind == Kind.NAME:
        records.name_of(record)
    elif record.kind in records.ENDINGS:
        columns = records.ended_columns(record)
        assert all(column is None or len(column) == record.count for column in columns)
    elif record.kind == Kind.FAILED:
        size, payload = records.failure_of(record)
        assert len(payload) <= len(record.body) and size >= 0
        assert all(isinstance(text, str) for text in read_payload(record.flags, payload))
    elif record.kind == Kind.LOG:
        assert len(records.log_line_of(record).text) <= records.LOG_LINE_LIMIT_BYTES
    elif record.kind == Kind.GRAPH:
        _, edges = records.edges_of(record)
        assert len(edges) % 2 == 0


def seeds() -> Iterator[bytes]:
    for seed in range(40):
        yield b"".join(a_record(Choices(bytes([kind, *range(seed, seed + 60)]))) for kind in range(14))
