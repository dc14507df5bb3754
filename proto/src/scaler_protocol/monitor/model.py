"""The model of every screen: the state of the cluster, computed from the messages of the stream.

Pure: time is an argument, and screens differ only in how they draw. ``tables`` says which tables there are, ``rows``
what stands in them; histories, the task log and the task stream are filled as messages arrive.
"""

from __future__ import annotations

import enum
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from scaler_protocol.monitor import task_stream
from scaler_protocol.monitor.activity import Activity, Notice, WorkerName
from scaler_protocol.monitor.alerts import Alert, AlertBoard
from scaler_protocol.monitor.bar_parts import BarPart, bar_parts
from scaler_protocol.monitor.bounds import rate
from scaler_protocol.monitor.failures import details_text
from scaler_protocol.monitor.format import format_count
from scaler_protocol.monitor.graphs import GraphNode, WatchedGraph, nodes_of
from scaler_protocol.monitor.history import History
from scaler_protocol.monitor.host_memory import total_memory
from scaler_protocol.monitor.messages import Events, MonitorMessage, Snapshot, TaskCounts
from scaler_protocol.monitor.natural_order import NaturalKey, natural_key
from scaler_protocol.monitor.open_bars import OpenBar, open_bars
from scaler_protocol.monitor.output_log import STDOUT
from scaler_protocol.monitor.progress import ProgressWatch
from scaler_protocol.monitor.records import BadRecord
from scaler_protocol.monitor.rows import rows_of_table, rows_where
from scaler_protocol.monitor.running import RunningTaskRow, TaskKey, running_rows
from scaler_protocol.monitor.store_rates import StoreRate, StoreRates, TrafficRates
from scaler_protocol.monitor.tables import Row
from scaler_protocol.monitor.task_log import TaskLog
from scaler_protocol.monitor.workers import WorkerRow, rows_of

DEFAULT_TIMEOUT_SECONDS = 5.0
SET_BACK_SECONDS = 10.0
"""A snapshot that is so much earlier than what came before it was made by a clock that had been set back."""

FAILURE_LINES = 40
"""Lines of stdout that the details of a failure have."""

DEFAULT_TASK_LIMIT = 1_000_000
"""Number of the latest ended tasks that are kept individually; the counts include all tasks."""

HISTORIES = (
    "throughput",
    "failures",
    "unassigned",
    "running",
    "queued",
    "workers",
    "scheduler_cpu",
    "scheduler_rss",
    "agents_cpu",
    "agents_rss",
    "workers_cpu",
    "workers_rss",
    "hosts_used",
    "hosts_limit",
    "store_used",
    "store_spilled",
    "store_sent",
    "store_received",
    "clients",
)
"""Names of histories. ``throughput`` and ``failures`` are tasks per second, ``*_cpu`` percent of one processor,
``*_rss``, ``store_used`` and ``store_spilled`` bytes, ``hosts_used`` and ``hosts_limit`` the memory of all hosts in
bytes, ``store_sent`` and ``store_received`` bytes per second between hosts, the others how many: ``unassigned`` tasks
wait at the scheduler, ``queued`` ones on the hosts."""


class FeedState(enum.Enum):
    WAITING = "waiting"  # nothing arrived yet
    LIVE = "live"
    LOST = "lost"  # nothing arrived for the timeout


class StreamRow(NamedTuple):
    """A row of the task stream. ``worker_index`` is what ``Model.bars`` and the log call it; ``name`` the worker's
    name, with that of its agent if another worker of the host has the same."""

    worker_index: int
    worker: WorkerName
    name: str


class Model:
    """Messages of one scheduler, in the order in which they came. ``now`` is any clock that only goes forward."""

    def __init__(
        self, now: float, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS, task_limit: int = DEFAULT_TASK_LIMIT
    ) -> None:
        self.timeout_seconds = timeout_seconds
        self.snapshot: Snapshot | None = None
        self.worker_rows: tuple[WorkerRow, ...] = ()
        self.running: dict[TaskKey, RunningTaskRow] = {}
        """The tasks that have run for a second or longer."""

        self.store_rates: list[StoreRate] = []
        """The speed at which each of the snapshot's stores works."""

        self.traffic_rates: dict[tuple[str, str], float] = {}
        """Bytes per second between two hosts, by source and target."""

        self.progress = ProgressWatch()
        self.restarted_at: float | None = None
        """The last time at which another epoch of the scheduler followed the one before."""

        self.latest: dict[str, float] = {}
        """By name of a history, its value in the last snapshot: histories keep means of seconds."""

        self.problem: str | None = None
        """The reason why the last message could not be shown: one sentence."""

        self.activity = Activity(task_limit)
        self._unseen = 0
        self._task_limit = task_limit
        self._histories = {name: History() for name in HISTORIES}
        self._store_rates, self._traffic_rates = StoreRates(), TrafficRates()
        self._alerts = AlertBoard()
        self._epoch: int | None = None
        self._heard_at = now

    # ---- taking in -----------------------------------------------------------------------------------------------

    def apply(self, message: MonitorMessage, now: float) -> None:
        """Take a message in. The same one again is harmless."""
        self._heard_at = now
        self.problem = None
        if isinstance(message, Events):
            self._follow_epoch(message.epoch or self._epoch, now)
            self._apply_events(message)
        else:
            self._follow_epoch(message.scheduler.epoch, now)
            self._apply_snapshot(message, now)

    def refuse(self, problem: str) -> None:
        """Something arrived that cannot be shown; what was known stays."""
        self.problem = problem

    # ---- how it stands -------------------------------------------------------------------------------------------

    def state(self, now: float) -> FeedState:
        if self.snapshot is None:
            return FeedState.WAITING
        return FeedState.LOST if self.silent_seconds(now) > self.timeout_seconds else FeedState.LIVE

    def silent_seconds(self, now: float) -> float:
        """Return the seconds since the last message, or since the start if there was none."""
        return max(0.0, now - self._heard_at)

    @property
    def time(self) -> float:
        """The scheduler's clock when it sent the newest message, in unix seconds; 0 when it does not say."""
        return max(self.activity.time, self.snapshot.time if self.snapshot is not None else 0.0)

    @property
    def alerts(self) -> tuple[Alert, ...]:
        """The problems of the cluster, most urgent first."""
        return self._alerts.active

    @property
    def late_text(self) -> str:
        """A note for the log of tasks: some had ended before the first that was seen here. Empty when none had."""
        if self.snapshot is None or not self._unseen:
            return ""
        return f"{format_count(ended_count(self.snapshot.tasks))} tasks ended in all; the earliest are not listed"

    # ---- what screens show ---------------------------------------------------------------------------------------

    def rows(
        self,
        table: str,
        filter_text: str = "",
        sort_key: str | None = None,
        descending: bool | None = None,
        offset: int = 0,
        limit: int | None = None,
    ) -> tuple[list[Row], int]:
        """Rows ``offset`` to ``offset + limit`` of those whose texts contain ``filter_text``, and how many these are.
        ``table`` and ``sort_key`` are names in ``tables``; None: the table's own order."""
        return rows_of_table(self, table, filter_text, sort_key, descending, offset, limit)

    def rows_where(self, table: str, values: Mapping[str, object]) -> list[Row]:
        """The rows of a table, other than that of tasks, with these values by the keys of their columns."""
        return rows_where(self, table, values)

    def failure_details(self, group: int) -> str:
        """All that is known of a row of the table of failures, for people; empty when there is no such group."""
        found = self.activity.failures.group(group)
        if found is None:
            return ""
        tasks = {(each.session, each.task) for each in found.examples}
        return details_text(found, self.activity.output.newest_of(tasks, STDOUT, FAILURE_LINES))

    def history(self, name: str, since: float = 0.0) -> tuple[Sequence[float], Sequence[float]]:
        """Times (unix seconds) and values of one of ``HISTORIES``."""
        return self._histories[name].since(since)

    @property
    def log(self) -> TaskLog:
        return self.activity.log

    def stream_rows(self, start: float = 0.0, stop: float = math.inf) -> list[StreamRow]:
        """A row for each worker that runs or has run something, by host and number; those without one come last.
        Workers of agents without a name have none until the name arrives. Tasks of which only the agent is known have a
        row if any of them ran between ``start`` and ``stop`` (unix seconds), and so have, behind all others, workers of
        agents that have left."""
        workers = self.activity.workers
        counts = Counter((worker.host, worker.name) for worker in workers)
        rows = [
            StreamRow(index, each, each.name if counts[each.host, each.name] == 1 else f"{each.name} ({each.agent})")
            for index, each in enumerate(workers)
            if (each.host or each.agent) and (each.number is not None or self._ran_unplaced(index, start, stop))
        ]
        agents = self.snapshot.agents if self.snapshot is not None else ()
        present = {(agent.host, agent.name) for agent in agents}
        here = [row for row in rows if (row.worker.host, row.worker.agent) in present]
        gone = [row for row in rows if (row.worker.host, row.worker.agent) not in present]
        return sorted(here, key=_place) + sorted(self._with_bars(gone, start, stop), key=_place)

    def _with_bars(self, rows: list[StreamRow], start: float, stop: float) -> list[StreamRow]:
        if not rows or math.isinf(stop):
            return rows
        found = set(self.bars(start, stop, 1, [row.worker_index for row in rows]).rows)
        return [row for place, row in enumerate(rows) if place in found]

    def _ran_unplaced(self, index: int, start: float, stop: float) -> bool:
        first, last = self.activity.unplaced_runs.get(index, (math.inf, -math.inf))
        return first <= stop * 1e6 and last >= start * 1e6

    def count_of_executions(self, start: float, stop: float) -> int:
        """Return how many of the tasks that are kept ran at a time from ``start`` to ``stop``, at any worker."""
        return self.bars(start, stop, 1, range(len(self.activity.workers))).tasks

    def bars(self, start: float, stop: float, width: int, workers: Sequence[int]) -> task_stream.Bars:
        """The bars that ``width`` pixels show of the time from ``start`` to ``stop`` (unix seconds); see
        ``task_stream``."""
        return task_stream.bars(self.log, int(start * 1e6), int(stop * 1e6), width, workers)

    def bar_parts(
        self, bars: task_stream.Bars, start: float, stop: float, width: int, least_pixels: float
    ) -> list[BarPart]:
        """The parts of executions inside ``bars``, which were made of the same time and width; see ``bar_parts``."""
        return bar_parts(self.log, self.activity.times, bars, start, stop, width, least_pixels)

    def open_bars(self, start: float, stop: float, width: int, workers: Sequence[int]) -> list[OpenBar]:
        """The bars of tasks that run, in addition to ``bars``: they end at the last snapshot."""
        if self.snapshot is None:
            return []
        running = list(self.running.values())
        return open_bars(self.activity, running, self.snapshot.time, start, stop, width, workers)

    def graph(self, session: bytes, number: int) -> tuple[WatchedGraph, list[GraphNode]] | None:
        """The shape of a graph and where its nodes are; None when nothing was heard of it."""
        for index, named in self.activity.sessions.items():
            graph = self.activity.graphs.get(index, number) if named.session == session else None
            if graph is not None:
                return graph, nodes_of(graph, self.log)
        return None

    # ---- inside --------------------------------------------------------------------------------------------------

    def _follow_epoch(self, epoch: int | None, now: float) -> None:
        if self._epoch is not None and epoch != self._epoch:
            self.restarted_at = now
            self.activity = Activity(self._task_limit)
            self._alerts = AlertBoard()
            self.progress = ProgressWatch()
            self.latest = {}
        self._epoch = epoch

    def _apply_events(self, events: Events) -> None:
        try:
            self.activity.apply(events)
        except BadRecord as error:
            self.refuse(f"some events cannot be read: {error}")
            self.activity.notices.append(Notice(events.time, "bad events", str(error)))

    def _apply_snapshot(self, snapshot: Snapshot, now: float) -> None:
        snapshot = self.activity.function_names.with_shown_names(snapshot)
        before, self.snapshot = self.snapshot, snapshot
        self.worker_rows = tuple(row for agent in snapshot.agents for row in rows_of(agent))
        time = snapshot.time or now
        self.running = {row.key: row for row in running_rows(snapshot, self.running)}
        self.activity.add_workers(((row.agent.session, row.task.worker) for row in self.running.values()), time)
        latest = max(self.activity.time, before.time if before is not None else 0.0)
        if snapshot.time and snapshot.time < latest - SET_BACK_SECONDS:
            self._follow_clock(snapshot.time)
        self.store_rates = self._store_rates.add(time, snapshot.stores)
        self.traffic_rates = self._traffic_rates.add(time, snapshot.traffic)
        self.activity.expect(snapshot.events.recorded + snapshot.events.dropped, time)
        self.progress.add(snapshot)
        for function in snapshot.functions:
            if function.number:
                self.activity.colours.learn(function.name, function.number - 1)
        self._count_unseen(snapshot, before)
        self._alerts.follow(snapshot, time)
        self._add_levels(snapshot, time)
        if before is not None and before.scheduler.epoch == snapshot.scheduler.epoch:
            self._add_rates(before, snapshot)

    def _follow_clock(self, time: float) -> None:
        """The scheduler's clock was set back: what comes is now, though what came seems to be later."""
        self.activity.time = time
        self._store_rates, self._traffic_rates = StoreRates(), TrafficRates()
        self._alerts = AlertBoard()
        for history in self._histories.values():
            history.forget_after(time)

    def _count_unseen(self, snapshot: Snapshot, before: Snapshot | None) -> None:
        """Events come a little earlier or later than the counts that include them: the least difference is true."""
        unseen = max(0, ended_count(snapshot.tasks) - self.log.ended)
        is_first = before is None or before.scheduler.epoch != snapshot.scheduler.epoch
        self._unseen = unseen if is_first else min(unseen, self._unseen)

    def _add_levels(self, snapshot: Snapshot, time: float) -> None:
        agents, rows = snapshot.agents, self.worker_rows
        memory = total_memory(agents)
        unfinished = snapshot.unfinished
        levels = {
            "unassigned": unfinished.waiting,
            "running": unfinished.running,
            "queued": unfinished.queued,
            "workers": len(rows),
            "scheduler_cpu": snapshot.scheduler.cpu_percent,
            "scheduler_rss": snapshot.scheduler.rss_bytes,
            "agents_cpu": sum(agent.cpu_percent for agent in agents),
            "agents_rss": sum(agent.rss_bytes for agent in agents),
            "workers_cpu": sum(row.cpu_percent for row in rows),
            "workers_rss": sum(row.rss_bytes for row in rows),
            "hosts_used": memory.used_bytes,
            "hosts_limit": memory.limit_bytes,
            "store_used": sum(store.used_bytes for store in snapshot.stores),
            "store_spilled": sum(store.spilled_bytes for store in snapshot.stores),
            "store_sent": sum(rate.sent for rate in self.store_rates),
            "store_received": sum(rate.received for rate in self.store_rates),
            "clients": sum(client.connected for client in snapshot.clients),
        }
        self._add_values(levels, time)

    def _add_rates(self, before: Snapshot, snapshot: Snapshot) -> None:
        seconds = snapshot.scheduler.uptime_seconds - before.scheduler.uptime_seconds
        if seconds <= 0:
            return
        ended = ended_count(snapshot.tasks) - ended_count(before.tasks)
        failed = snapshot.tasks.failed - before.tasks.failed
        time = snapshot.time or snapshot.scheduler.uptime_seconds
        rates = {"throughput": rate(max(0, ended), seconds), "failures": rate(max(0, failed), seconds)}
        self._add_values(rates, time)

    def _add_values(self, values: Mapping[str, float], time: float) -> None:
        self.latest.update(values)
        for name, value in values.items():
            self._histories[name].add(time, value)


def _place(row: StreamRow) -> tuple[NaturalKey, NaturalKey, bool, int]:
    worker = row.worker
    return natural_key(worker.host), natural_key(worker.agent), worker.number is None, worker.number or 0


def ended_count(tasks: TaskCounts) -> int:
    """Tasks that have ended, however they did."""
    return tasks.success + tasks.failed + tasks.canceled + tasks.not_found
