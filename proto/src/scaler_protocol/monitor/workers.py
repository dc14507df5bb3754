"""Rows of the table of workers: what they hold, their order, their filter and their totals.

A worker's row repeats what is its agent's; :class:`WorkerTotals` counts that once.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from scaler_protocol.messages import WorkerStatus
from scaler_protocol.monitor.messages import AgentStatus, PeerState
from scaler_protocol.monitor.natural_order import natural_key


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """One worker, with its agent's values."""

    agent_session: bytes
    state: PeerState
    state_name: str
    pid: int
    host: str
    name: str
    agent_cpu_percent: float
    agent_rss_bytes: int
    cpu_percent: float
    rss_bytes: int
    free: int  # queue slots left
    sent: int  # handed over and unfinished
    queued: int  # the agent's
    lag_seconds: float
    initialized: bool
    has_task: bool
    slot_lent: bool
    capabilities: str = ""

    @property
    def label(self) -> str:
        return f"{self.pid}|{self.host}|{self.name}"


class SortKey(enum.Enum):
    """The columns of the worker table, in order. The value is the column's name."""

    WORKER = "worker"
    AGENT_CPU = "agt_cpu"
    AGENT_RSS = "agt_rss"
    CPU = "cpu"
    RSS = "rss"
    FREE = "free"
    SENT = "sent"
    QUEUED = "queued"
    LAG = "lag"


_SORT_VALUES: dict[SortKey, Callable[[WorkerRow], Any]] = {
    SortKey.WORKER: lambda row: (natural_key(row.host), row.pid, natural_key(row.name)),
    SortKey.AGENT_CPU: lambda row: row.agent_cpu_percent,
    SortKey.AGENT_RSS: lambda row: row.agent_rss_bytes,
    SortKey.CPU: lambda row: row.cpu_percent,
    SortKey.RSS: lambda row: row.rss_bytes,
    SortKey.FREE: lambda row: row.free,
    SortKey.SENT: lambda row: row.sent,
    SortKey.QUEUED: lambda row: row.queued,
    SortKey.LAG: lambda row: row.lag_seconds,
}


@dataclass(frozen=True, slots=True)
class Order:
    """The order of rows. Numbers start with the largest, names with the first letter."""

    key: SortKey = SortKey.CPU
    reversed: bool = False

    def pressed(self, key: SortKey) -> Order:
        """The order after its user chose ``key``: the same one twice turns the order."""
        return Order(key, not self.reversed) if key is self.key else Order(key)


class WorkerTotals(NamedTuple):
    workers: int
    agents: int
    agent_cpu_percent: float
    agent_rss_bytes: int
    cpu_percent: float
    rss_bytes: int
    free: int
    sent: int
    queued: int


def rows_of(agent: AgentStatus) -> list[WorkerRow]:
    """One row per worker of the agent; ``sent`` and ``free`` are divided so that the rows add up to the agent's."""
    busy_first = sorted(range(len(agent.workers)), key=lambda index: not agent.workers[index].has_task)
    sent = _divide(agent.sent, busy_first)
    free = _divide(agent.free, busy_first[::-1])
    return [_row(agent, worker, free[index], sent[index]) for index, worker in enumerate(agent.workers)]


def sort_rows(rows: Iterable[WorkerRow], order: Order) -> list[WorkerRow]:
    """Equal values stand in the order of names, whichever way the column runs."""
    by_name = sorted(rows, key=_SORT_VALUES[SortKey.WORKER])
    largest_first = order.key is not SortKey.WORKER
    return sorted(by_name, key=_SORT_VALUES[order.key], reverse=largest_first is not order.reversed)


def filter_rows(rows: Iterable[WorkerRow], text: str) -> list[WorkerRow]:
    """Rows whose pid, host, name, state or capabilities contain the text, whatever the case."""
    wanted = text.casefold()
    return [row for row in rows if wanted in f"{row.label}|{row.state_name}|{row.capabilities}".casefold()]


def total_of(rows: Sequence[WorkerRow]) -> WorkerTotals:
    """Sums over rows; what is an agent's counts once, however many of its workers are shown."""
    agents = {row.agent_session: row for row in rows}.values()
    return WorkerTotals(
        workers=len(rows),
        agents=len(agents),
        agent_cpu_percent=sum(row.agent_cpu_percent for row in agents),
        agent_rss_bytes=sum(row.agent_rss_bytes for row in agents),
        cpu_percent=sum(row.cpu_percent for row in rows),
        rss_bytes=sum(row.rss_bytes for row in rows),
        free=sum(row.free for row in rows),
        sent=sum(row.sent for row in rows),
        queued=sum(row.queued for row in agents),
    )


def _row(agent: AgentStatus, worker: WorkerStatus, free: int, sent: int) -> WorkerRow:
    return WorkerRow(
        agent_session=agent.session,
        state=agent.state,
        state_name=agent.state_name,
        pid=worker.pid,
        host=agent.host,
        name=worker.name,
        agent_cpu_percent=agent.cpu_percent,
        agent_rss_bytes=agent.rss_bytes,
        cpu_percent=worker.cpu_percent,
        rss_bytes=worker.rss_bytes,
        free=free,
        sent=sent,
        queued=agent.queued,
        lag_seconds=agent.lag_seconds,
        initialized=worker.initialized,
        has_task=worker.has_task,
        slot_lent=worker.slot_lent,
        capabilities=agent.capabilities,
    )


def _divide(total: int, order: Sequence[int]) -> list[int]:
    """``total`` in whole parts that differ by one at most, the larger ones first in ``order``."""
    parts = [0] * len(order)
    if order:
        share, rest = divmod(total, len(order))
        for position, index in enumerate(order):
            parts[index] = share + (position < rest)
    return parts
