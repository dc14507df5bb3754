"""No message that can be encoded ends a reader, and none costs it more memory than a bound."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from scaler_protocol.monitor.document import document_of
from scaler_protocol.monitor.format import display_width, format_value
from scaler_protocol.monitor.graphs import nodes_of
from scaler_protocol.monitor.messages import Snapshot
from scaler_protocol.monitor.model import HISTORIES, Model
from scaler_protocol.monitor.tables import TABLES
from scaler_scheduler.metrics.families import families_of
from scaler_scheduler.top.lines import text_of
from scaler_scheduler.top.screen import Screen, draw
from scaler_scheduler.top.view import PAGES, View
from tests.support.hostile import Hostile

MESSAGES = 40
SEEDS = range(40)


def model_of(seed: int) -> Model:
    hostile, model = Hostile(seed), Model(0.0)
    for number in range(MESSAGES):
        model.apply(hostile.message(), float(number))
    return model


def refuse_constant(name: str) -> Any:
    raise AssertionError(f"{name} is no JSON")


@pytest.mark.parametrize("seed", SEEDS)
def test_every_table_can_be_sorted_filtered_and_written(seed: int) -> None:
    model = model_of(seed)
    for name, table in TABLES.items():
        for column in table.columns:
            for descending in (False, True):
                rows, total = model.rows(name, "", column.key, descending, 0, 50)
                for row in rows:
                    texts = [format_value(each.kind, value) for each, value in zip(table.columns, row, strict=True)]
                    assert all(text.isprintable() and len(text) <= 10_000 for text in texts)
        for text in ("1", "9" * 30, "²", "\0", "x"):
            model.rows(name, text)


@pytest.mark.parametrize("seed", SEEDS)
def test_histories_bars_graphs_and_details_can_be_read(seed: int) -> None:
    model = model_of(seed)
    for name in HISTORIES:
        times, values = model.history(name)
        assert all(0 <= value < float("inf") for value in values) and list(times) == sorted(times)
    rows = [row.worker_index for row in model.stream_rows()]
    for start, stop in ((0.0, 1e11), (-1e11, 1e-6), (1.7e9, 1.7e9), (9e10, 1e11)):
        model.bars(start, stop, 100, [*rows, 0xFFFFFFFF])
    for graph in model.activity.graphs.all():
        assert len(nodes_of(graph, model.log)) <= 10_000
        assert len(graph.edges) == graph.edge_count
    for group in range(len(model.activity.failures.groups)):
        assert model.failure_details(group)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 60), (3, 2)])
def test_every_page_of_scaler_top_can_be_drawn(seed: int, width: int, height: int) -> None:
    model = model_of(seed)
    for keys in [[page] for page in PAGES] + [["2", "s", "r"], ["4", "enter"], ["3", "enter"], ["8", "/", "x"]]:
        view, screen = View(), Screen([], 10, 0)
        for key in keys:
            view = view.pressed(key, screen.page_rows, screen.selected).limited(1 << 20)
            screen = draw(model, view, width, height, float(MESSAGES), "", True)
            assert len(screen.lines) <= height
            for line in screen.lines:
                assert display_width(text_of(line)) <= width and text_of(line).isprintable()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_json_document_and_the_figures_for_prometheus_can_be_written(seed: int) -> None:
    hostile = Hostile(seed)
    for message in (hostile.message() for _ in range(MESSAGES)):
        if not isinstance(message, Snapshot):
            continue
        json.loads(json.dumps(document_of(message)), parse_constant=refuse_constant)
        registry = CollectorRegistry()
        registry.register(_Collector(message))  # type: ignore[arg-type]
        assert list(text_string_to_metric_families(generate_latest(registry).decode()))
        generate_openmetrics(registry)


class _Collector:
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Any:
        return families_of(self._snapshot)


def test_the_same_of_records_that_are_in_no_message(tmp_path: Path) -> None:
    """Random bytes in the place of records."""
    model, hostile = Model(0.0), Hostile(99)
    for size in range(0, 3000, 7):
        for data in (hostile.chance.randbytes(size), bytes(size), b"\x01" * size, zlib.compress(bytes(size))):
            model.apply(hostile.events().__class__(1.7e9, 0, data, 0, 1, 1), 1.0)
    assert model.problem
