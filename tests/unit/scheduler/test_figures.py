"""Figures for Prometheus, of a snapshot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler_protocol.monitor.messages import (
    DURATION_BOUNDS_SECONDS,
    EventTotals,
    FunctionStatus,
    HostStoreStatus,
    PeerState,
    WaitGroup,
)
from tests.support.monitoring import MIB, agent_status, snapshot

pytest.importorskip("prometheus_client")

from scaler_scheduler.metrics.families import families_of  # noqa: E402


def test_stores_have_figures_by_host() -> None:
    stores = (HostStoreStatus("a", 3, 1000, 4000, 20, 300, 7), HostStoreStatus("a", 1, 1, 4000), HostStoreStatus("b"))
    families = families_of(replace(snapshot(), stores=stores))
    samples = [sample for family in families for sample in family.samples]
    found = {
        (each.name, *(text for label, text in each.labels.items() if label != "module")): each.value for each in samples
    }
    assert found["scaler_store_objects", "a"] == 4
    assert found["scaler_store_used_bytes", "a"] == 1001
    assert found["scaler_store_capacity_bytes", "a"] == 8000
    assert found["scaler_store_spilled_bytes", "a"] == 20
    assert found["scaler_store_sent_bytes_total", "a"] == 300
    assert found["scaler_store_received_bytes_total", "a"] == 7
    assert found["scaler_store_objects", "b"] == 0


def test_agents_are_counted_by_the_state_that_monitors_show() -> None:
    paused = agent_status(1, state=PeerState.PAUSED)
    agents = (agent_status(0), paused, replace(paused, draining=True), replace(paused, draining=True))
    samples = [sample for family in families_of(snapshot(agents)) for sample in family.samples]
    found = {each.labels["state"]: each.value for each in samples if each.name == "scaler_agents"}
    assert found == {"connected": 1, "paused": 1, "draining": 2}


def test_unfinished_tasks_are_told_apart_by_where_they_are() -> None:
    samples = [sample for family in families_of(snapshot((agent_status(0, 6),))) for sample in family.samples]
    found = {each.labels["state"]: each.value for each in samples if each.name == "scaler_tasks"}
    assert found == {"unassigned": 2_000, "queued": 7, "running": 3}


def test_functions_have_outcomes_processor_time_and_durations() -> None:
    counts = (3, 0, 4, *[0] * (len(DURATION_BOUNDS_SECONDS) - 2))
    function = FunctionStatus(b"", "f", 0, 9, 5, 3, 1, 2.5, cpu_seconds=1.5, executions=7, duration_counts=counts)
    families = families_of(replace(snapshot(), functions=(function,), time=100.0))
    found = {
        (each.name, *(text for label, text in each.labels.items() if label != "module")): each.value
        for family in families for each in family.samples if each.labels.get("function") == "f"
    }  # fmt: skip
    outcomes = [found["scaler_function_outcomes_total", "f", each] for each in ("success", "failed", "canceled")]
    assert outcomes == [5, 3, 1]
    assert found["scaler_function_cpu_seconds_total", "f"] == 1.5
    name = "scaler_function_duration_seconds"
    bounds = ("0.000256", "0.001024", "0.004096", "+Inf")
    assert [found[f"{name}_bucket", "f", bound] for bound in bounds] == [3, 3, 7, 7]
    assert (found[f"{name}_sum", "f"], found[f"{name}_count", "f"]) == (2.5, 7)
    assert found["scaler_function_tasks_ended_created", "f"] == 40  # since then, not since the first scrape


def test_waits_that_differ_in_numbers_are_one_reason() -> None:
    waits = (WaitGroup(b"", "f", "All 5 workers are busy.", 7), WaitGroup(b"", "g", "All 6 workers are busy.", 2))
    samples = [sample for family in families_of(replace(snapshot(), waits=waits)) for sample in family.samples]
    found = {each.labels["reason"]: each.value for each in samples if each.name == "scaler_waiting_tasks"}
    assert found == {"All # workers are busy.": 9}


def test_dropped_records_and_free_memory_are_figures() -> None:
    agent = replace(agent_status(0, 2), memory_limit_bytes=8192 * MIB)
    store = HostStoreStatus("h", disk_free_bytes=3, disk_capacity_bytes=9)
    states = replace(snapshot((agent,)), events=EventTotals(9, 4), stores=(store, HostStoreStatus("old")))
    samples = [sample for family in families_of(states) for sample in family.samples]
    found = {
        (each.name, *(text for label, text in each.labels.items() if label != "module")): each.value for each in samples
    }
    assert found["scaler_event_records_total", "dropped"] == 4
    assert found["scaler_host_free_bytes", "sd-1e7d-dfba"] == 4096 * MIB
    assert found["scaler_host_limit_bytes", "sd-1e7d-dfba"] == 8192 * MIB
    assert found["scaler_store_disk_free_bytes", "h"] == 3 and found["scaler_store_disk_bytes", "h"] == 9
    assert ("scaler_store_disk_bytes", "old") not in found


def test_functions_have_waits_and_parts_of_their_time() -> None:
    counts = (1, 2, *[0] * (len(DURATION_BOUNDS_SECONDS) - 1))
    function = FunctionStatus(
        b"",
        "f",
        duration_seconds=4.0,
        wait_counts=counts,
        waiting_seconds=2.0,
        loading_seconds=1.0,
        storing_seconds=0.5,
    )
    families = families_of(replace(snapshot(), functions=(function,)))
    samples = [each for family in families for each in family.samples if each.labels.get("function") == "f"]
    found = {
        (each.name, *(text for label, text in each.labels.items() if label != "module")): each.value for each in samples
    }
    assert found["scaler_function_wait_seconds_count", "f"] == 3
    assert found["scaler_function_wait_seconds_sum", "f"] == 2.0
    parts = ("dependencies", "waiting", "fetching", "loading", "running", "storing")
    seconds = [found["scaler_function_time_seconds_total", "f", part] for part in parts]
    assert seconds == [0, 2, 0, 1, 2.5, 0.5]


def test_long_names_are_cut_and_remain_different() -> None:
    names = "f" * 1000, "f" * 999 + "g", "short"
    functions = tuple(FunctionStatus(b"", name, 1, 0, 0, 0, 0, 0.0, module=name) for name in names)
    families = list(families_of(replace(snapshot(), functions=functions)))
    samples = [sample for family in families for sample in family.samples]
    found = {(each.labels["function"], each.labels["module"]) for each in samples if "function" in each.labels}
    assert len(found) == 3 and ("short", "short") in found
    assert all(len(text) <= 150 for each in found for text in each)
