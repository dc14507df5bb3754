"""A snapshot as OpenMetrics families. Names end in their unit; ratios are 0 to 1 per processor core."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from itertools import accumulate
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric

from scaler_protocol.monitor.messages import DURATION_BOUNDS_SECONDS, FunctionStatus, HostStoreStatus, Snapshot
from scaler_protocol.monitor.parts import parts_of_function

_BOUNDS = [repr(bound) for bound in DURATION_BOUNDS_SECONDS]
_FUNCTION = ("function", "module")
"""The labels of a function."""

_LABEL_LIMIT = 150
"""Characters of the value of a label. Each function has more than fifty series, and its name is in all of them."""


def families_of(snapshot: Snapshot) -> Iterator[Metric]:
    """Every family, in a fixed order. Functions of one name and module count as one; so do
    workers of one name and agent."""
    yield from _scheduler(snapshot)
    yield from _tasks(snapshot)
    yield from _messages(snapshot)
    yield from _agents(snapshot)
    yield from _workers(snapshot)
    yield from _functions(snapshot)
    yield from _waits(snapshot)
    yield from _records(snapshot)
    yield from _stores(snapshot)


def _scheduler(snapshot: Snapshot) -> Iterator[Metric]:
    scheduler = snapshot.scheduler
    labels = {"version": scheduler.version, "host": scheduler.host, "address": scheduler.address}
    yield InfoMetricFamily("scaler_scheduler", "Version, host and address of the scheduler; always 1.", value=labels)
    yield GaugeMetricFamily(
        "scaler_scheduler_uptime_seconds", "Seconds since the scheduler started.", value=scheduler.uptime_seconds
    )
    yield GaugeMetricFamily(
        "scaler_scheduler_cpu_ratio",
        "Processor use of the scheduler; 1 is one core.",
        value=scheduler.cpu_percent / 100,
    )
    yield GaugeMetricFamily(
        "scaler_scheduler_resident_bytes", "Resident memory of the scheduler.", value=scheduler.rss_bytes
    )
    yield GaugeMetricFamily(
        "scaler_clients", "Sessions of clients, connected or within their timeout.", value=len(snapshot.clients)
    )


def _tasks(snapshot: Snapshot) -> Iterator[Metric]:
    tasks = snapshot.tasks
    unfinished = snapshot.unfinished
    now = {"unassigned": unfinished.waiting, "queued": unfinished.queued, "running": unfinished.running}
    values = {(name,): value for name, value in now.items()}
    yield _gauges("scaler_tasks", "Unfinished tasks: unassigned, queued on hosts, running.", ("state",), values)
    ended = {
        ("success",): tasks.success,
        ("failed",): tasks.failed,
        ("canceled",): tasks.canceled,
        ("not_found",): tasks.not_found,
    }
    yield _counters("scaler_tasks_ended", "Tasks ended since the scheduler started.", ("outcome",), ended)


def _messages(snapshot: Snapshot) -> Iterator[Metric]:
    for direction, counts in (("sent", snapshot.sent), ("received", snapshot.received)):
        values = {(each.name,): each.count for each in counts}
        yield _counters(f"scaler_messages_{direction}", f"Messages {direction} by the scheduler.", ("message",), values)


def _agents(snapshot: Snapshot) -> Iterator[Metric]:
    states = Counter((agent.state_name,) for agent in snapshot.agents)
    yield _gauges("scaler_agents", "Agents, one per cluster command.", ("state",), states)
    labels = ("host", "agent")
    agents = snapshot.agents
    free = {(agent.host,): agent.rss_free_bytes for agent in agents}  # agents of one host report the same memory
    yield _gauges("scaler_host_free_bytes", "Memory that tasks of the host may still take.", ("host",), free)
    limits = {(agent.host,): agent.memory_limit_bytes for agent in agents if agent.memory_limit_bytes}
    yield _gauges("scaler_host_limit_bytes", "Memory that the host, or its control group, may use.", ("host",), limits)
    for name, help_text, values in (
        ("scaler_agent_cpu_ratio", "Processor use of the agent.", [each.cpu_percent / 100 for each in agents]),
        ("scaler_agent_resident_bytes", "Memory of the agent.", [each.rss_bytes for each in agents]),
        ("scaler_agent_queued_tasks", "Tasks that wait at the agent.", [each.queued for each in agents]),
        ("scaler_agent_sent_tasks", "Tasks handed to the agent, unfinished.", [each.sent for each in agents]),
        ("scaler_agent_lag_seconds", "Latency to the scheduler.", [each.lag_seconds for each in agents]),
    ):
        keys = [(agent.host, agent.name) for agent in agents]
        yield _gauges(name, help_text, labels, _summed(zip(keys, values, strict=True)))


def _workers(snapshot: Snapshot) -> Iterator[Metric]:
    workers = [((agent.host, agent.name, worker.name), worker) for agent in snapshot.agents for worker in agent.workers]
    for name, help_text, values in (
        (
            "scaler_worker_cpu_ratio",
            "Processor use of the worker; 1 is one core.",
            [worker.cpu_percent / 100 for _, worker in workers],
        ),
        ("scaler_worker_resident_bytes", "Resident memory of the worker.", [worker.rss_bytes for _, worker in workers]),
        (
            "scaler_worker_busy",
            "1 while the worker runs a task, otherwise 0.",
            [int(worker.has_task) for _, worker in workers],
        ),
    ):
        keys = [key for key, _ in workers]
        yield _gauges(name, help_text, ("host", "agent", "worker"), _summed(zip(keys, values, strict=True)))


def _functions(snapshot: Snapshot) -> Iterator[Metric]:
    functions = snapshot.functions
    unfinished = _summed((_labels(each), each.unfinished) for each in functions)
    yield _gauges("scaler_function_tasks", "Unfinished tasks of a function.", _FUNCTION, unfinished)
    for name, help_text, values in (
        ("scaler_function_tasks_ended", "Ended tasks of a function.", [each.finished for each in functions]),
        (
            "scaler_function_cpu_seconds",
            "Processor time of the ended tasks of a function.",
            [each.cpu_seconds for each in functions],
        ),
    ):
        sums = _summed((_labels(each), value) for each, value in zip(functions, values, strict=True))
        yield _counters(name, help_text, _FUNCTION, sums, _started_at(snapshot))
    outcomes = _summed(entry for each in functions for entry in _outcomes(each))
    help_text = "Ended tasks of a function, by outcome."
    yield _counters("scaler_function_outcomes", help_text, (*_FUNCTION, "outcome"), outcomes, _started_at(snapshot))
    yield _histogram(
        "scaler_function_duration_seconds", "How long executions of a function ran, without loading and storing.",
        ((_labels(each), each.duration_counts, each.running_seconds) for each in functions),
    )  # fmt: skip
    yield _histogram(
        "scaler_function_wait_seconds", "How long tasks of a function waited for a worker.",
        ((_labels(each), each.wait_counts, each.waiting_seconds) for each in functions),
    )  # fmt: skip
    parts = {
        (*_labels(each), part): seconds
        for each in functions
        for part, seconds in parts_of_function(each)._asdict().items()
    }
    help_text = "Time of tasks of a function: waiting for dependencies, waiting, fetching, loading, running, storing."
    yield _counters("scaler_function_time_seconds", help_text, (*_FUNCTION, "part"), parts, _started_at(snapshot))


def _labels(function: FunctionStatus) -> tuple[str, str]:
    """The values of ``_FUNCTION``."""
    return function.name, function.module


def _outcomes(function: FunctionStatus) -> Iterator[tuple[tuple[str, ...], float]]:
    yield (*_labels(function), "success"), function.succeeded
    yield (*_labels(function), "failed"), function.failed
    yield (*_labels(function), "canceled"), function.canceled


def _histogram(
    name: str, help_text: str, functions: Iterable[tuple[tuple[str, str], tuple[int, ...], float]]
) -> Metric:
    """Return the histogram of each function: its labels, the counts between the bounds, and the sum in seconds.
    Functions of one name and module are one row of a snapshot, so their distributions need not be added."""
    family = HistogramMetricFamily(name, help_text, labels=_FUNCTION)
    for function, (counts, seconds) in {each[0]: each[1:] for each in functions}.items():
        sums = accumulate(counts or (0,) * (len(_BOUNDS) + 1))
        buckets = [(bound, float(count)) for bound, count in zip((*_BOUNDS, "+Inf"), sums, strict=False)]
        if len(buckets) == len(_BOUNDS) + 1:
            family.add_metric(_shown(function), buckets, seconds)
    return family


def _waits(snapshot: Snapshot) -> Iterator[Metric]:
    """Sentences that differ only in numbers are one reason."""
    counts: Counter[tuple[str, ...]] = Counter()
    for wait in snapshot.waits:
        counts[(re.sub(r"\d+", "#", wait.reason),)] += wait.count
    yield _gauges("scaler_waiting_tasks", "Tasks that do not run, by reason.", ("reason",), counts)


def _records(snapshot: Snapshot) -> Iterator[Metric]:
    events = {("recorded",): snapshot.events.recorded, ("dropped",): snapshot.events.dropped}
    help_text = "Event records for monitors since the recording began."
    yield _counters("scaler_event_records", help_text, ("outcome",), events)


def _started_at(snapshot: Snapshot) -> float | None:
    """Return when the counters were 0: series that appear later did not begin with their first value."""
    return snapshot.time - snapshot.scheduler.uptime_seconds if snapshot.time else None


def _stores(snapshot: Snapshot) -> Iterator[Metric]:
    stores = snapshot.stores
    for name, help_text, values in (
        ("scaler_store_objects", "Objects in the store.", [each.objects for each in stores]),
        ("scaler_store_used_bytes", "Memory of its objects.", [each.used_bytes for each in stores]),
        ("scaler_store_capacity_bytes", "Memory they may take.", [each.capacity_bytes for each in stores]),
        ("scaler_store_spilled_bytes", "Of objects on disk.", [each.spilled_bytes for each in stores]),
    ):
        yield _gauges(name, help_text, ("host",), _by_host(stores, values))
    measured = [each for each in stores if each.disk_capacity_bytes]
    for name, help_text, values in (
        (
            "scaler_store_disk_free_bytes",
            "Free, where it spills.",
            [each.disk_free_bytes for each in measured],
        ),
        ("scaler_store_disk_bytes", "Size of that file system.", [each.disk_capacity_bytes for each in measured]),
    ):
        yield _gauges(name, help_text, ("host",), _by_host(measured, values))
    for direction, moved in (
        ("sent", [each.sent_bytes for each in stores]),
        ("received", [each.received_bytes for each in stores]),
    ):
        help_text = f"Bytes {direction} between hosts."
        yield _counters(f"scaler_store_{direction}_bytes", help_text, ("host",), _by_host(stores, moved))


def _by_host(stores: Iterable[HostStoreStatus], values: Iterable[int]) -> _Values:
    return _summed(((each.host,), value) for each, value in zip(stores, values, strict=True))


_Values = Mapping[Any, float]


def _summed(entries: Iterable[tuple[tuple[str, ...], float]]) -> _Values:
    """A family may name each set of labels only once."""
    sums: dict[tuple[str, ...], float] = {}
    for key, value in entries:
        sums[key] = sums.get(key, 0) + value
    return sums


def _gauges(name: str, help_text: str, labels: tuple[str, ...], values: _Values) -> Metric:
    family = GaugeMetricFamily(name, help_text, labels=labels)
    for key, value in values.items():
        family.add_metric(_shown(key), value)
    return family


def _counters(
    name: str, help_text: str, labels: tuple[str, ...], values: _Values, created: float | None = None
) -> Metric:
    family = CounterMetricFamily(name, help_text, labels=labels)
    for key, value in values.items():
        family.add_metric(_shown(key), value, created=created)
    return family


def _shown(key: tuple[str, ...]) -> tuple[str, ...]:
    """Return the values of labels as Prometheus gets them."""
    return tuple(map(_short, key)) if max(map(len, key)) > _LABEL_LIMIT else key


def _short(text: str) -> str:
    """Return the beginning of a long text. Different texts remain different: they end with a digest."""
    if len(text) <= _LABEL_LIMIT:
        return text
    mark = f"…{blake2b(text.encode(errors='replace'), digest_size=4).hexdigest()}"
    return text[: _LABEL_LIMIT - len(mark)] + mark
