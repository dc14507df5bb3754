"""Figures for Prometheus, of a snapshot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler_protocol.monitor.messages import HostStoreStatus
from tests.support.monitoring import agent_status, snapshot

pytest.importorskip("prometheus_client")

from scaler_scheduler.metrics.families import families_of  # noqa: E402


def test_stores_have_figures_by_host() -> None:
    stores = (HostStoreStatus("a", 3, 1000, 4000, 20, 300, 7), HostStoreStatus("a", 1, 1, 4000), HostStoreStatus("b"))
    families = families_of(replace(snapshot(), stores=stores))
    samples = [sample for family in families for sample in family.samples]
    found = {(each.name, *each.labels.values()): each.value for each in samples}
    assert found["scaler_store_objects", "a"] == 4
    assert found["scaler_store_used_bytes", "a"] == 1001
    assert found["scaler_store_capacity_bytes", "a"] == 8000
    assert found["scaler_store_spilled_bytes", "a"] == 20
    assert found["scaler_store_sent_bytes_total", "a"] == 300
    assert found["scaler_store_received_bytes_total", "a"] == 7
    assert found["scaler_store_objects", "b"] == 0


def test_unfinished_tasks_are_told_apart_by_where_they_are() -> None:
    samples = [sample for family in families_of(snapshot((agent_status(0, 6),))) for sample in family.samples]
    found = {each.labels["state"]: each.value for each in samples if each.name == "scaler_tasks"}
    assert found == {"unassigned": 2_000, "queued": 7, "running": 3}
