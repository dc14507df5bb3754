"""Alerts: what goes wrong in the cluster, or soon will. One list of rules for every monitor.

| Rule | Begins when | Severity |
|---|---|---|
| memory | a host has little memory left, or none within a minute at the present rate | critical |
| disk | the disk of an object store is nearly full | critical |
| silent | the scheduler has not heard from an agent for a while | warning |
| workers | tasks have waited for ten seconds, and no worker is connected | warning |
| capabilities | tasks have waited for ten seconds for capabilities that no connected worker has | warning |
| failures | more than a tenth of the tasks that ended within a minute failed, and at least five | warning |
| store | an object store has been nearly full for a minute | warning |

A rule has at most one alert, however many hosts or functions it is about. An alert stays for a few seconds after its
cause, so that it does not flicker. ``docs/grafana/alerts.yml`` has the same rules for Prometheus.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from scaler_protocol.monitor.format import format_bytes, format_count, format_duration, printable
from scaler_protocol.monitor.host_memory import HostMemory, memory_by_host
from scaler_protocol.monitor.messages import Snapshot, WaitGroup
from scaler_protocol.monitor.reasons import MISSING_CAPABILITIES, NO_WORKERS
from scaler_protocol.monitor.silence import silence_text, silent_agents
from scaler_protocol.objects.free_space import disk_reserve_bytes

MEMORY_RULE = "memory"
HOLD_SECONDS = 5.0
"""Seconds that an alert stays after its cause."""

WAIT_SECONDS = 10.0
STORE_SECONDS = 60.0
STORE_SHARE = 0.9
FAILURE_SHARE = 0.1
FAILURES_LEAST = 5
WINDOW_SECONDS = 60.0
"""Failures are counted, and memory is foreseen, for this long."""

TREND_SECONDS = 30.0
"""The consumption of memory is measured over this time."""

_TREND_LEAST_SECONDS = 8.0
_TREND_FREE_SHARE = 0.4
_GIBIBYTE = 1024**3
_SHOWN_NAME_LIMIT = 60

Severity = Literal["critical", "warning"]


@dataclass(frozen=True, slots=True)
class Alert:
    """``rule`` tells alerts apart; ``text`` is a sentence; ``since`` is in unix seconds of the scheduler's clock;
    ``table`` is the table that shows more."""

    rule: str
    severity: Severity
    text: str
    since: float
    table: str


class AlertBoard:
    """``active``: the alerts of the last snapshot, critical ones first, then those that began first."""

    def __init__(self) -> None:
        self.active: tuple[Alert, ...] = ()
        self._alerts: dict[str, Alert] = {}
        self._seen_at: dict[str, float] = {}
        self._outcomes = _RecentOutcomes()
        self._trends = _MemoryTrends()

    def follow(self, snapshot: Snapshot, time: float) -> None:
        """``time``: of the snapshot, in unix seconds."""
        self._outcomes.add(snapshot, time)
        self._trends.add(snapshot, time)
        look = _Look(snapshot, self._outcomes, self._trends)
        for rule in _RULES:
            text = rule.find(look)
            if text:
                self._see(rule, _sentence(text), time)
            elif time > self._seen_at.get(rule.name, 0.0) + HOLD_SECONDS:
                self._alerts.pop(rule.name, None)
        due = [each for each in self._alerts.values() if time >= each.since + _DELAYS[each.rule]]
        self.active = tuple(sorted(due, key=lambda each: (each.severity != "critical", each.since)))

    def _see(self, rule: _Rule, text: str, time: float) -> None:
        known = self._alerts.get(rule.name)
        self._seen_at[rule.name] = time
        self._alerts[rule.name] = (
            replace(known, text=text) if known else Alert(rule.name, rule.severity, text, time, rule.table)
        )


def alerts_text(alerts: Sequence[Alert]) -> str:
    """The first alert, and how many others there are; empty without alerts."""
    if not alerts:
        return ""
    others = len(alerts) - 1
    return f"{alerts[0].text} ({others} other alert{'' if others == 1 else 's'})" if others else alerts[0].text


# ---- what rules look at ----------------------------------------------------------------------------------------------


class _Look(NamedTuple):
    snapshot: Snapshot
    outcomes: _RecentOutcomes
    trends: _MemoryTrends


class _RecentOutcomes:
    """Return how many tasks ended and failed within ``WINDOW_SECONDS``."""

    def __init__(self) -> None:
        self._counts: deque[tuple[float, int, int]] = deque()

    def add(self, snapshot: Snapshot, time: float) -> None:
        tasks = snapshot.tasks
        ended = tasks.success + tasks.failed + tasks.canceled + tasks.not_found
        if self._counts and (ended < self._counts[-1][1] or time < self._counts[-1][0]):
            self._counts.clear()
        self._counts.append((time, ended, tasks.failed))
        while len(self._counts) > 2 and self._counts[1][0] <= time - WINDOW_SECONDS:
            self._counts.popleft()

    @property
    def ended(self) -> int:
        return self._counts[-1][1] - self._counts[0][1]

    @property
    def failed(self) -> int:
        return self._counts[-1][2] - self._counts[0][2]


class _MemoryTrends:
    """Free memory by host in the last ``TREND_SECONDS``."""

    def __init__(self) -> None:
        self._samples: dict[str, deque[tuple[float, int]]] = {}

    def add(self, snapshot: Snapshot, time: float) -> None:
        free = {host: memory.free_bytes for host, memory in memory_by_host(snapshot.agents).items()}
        self._samples = {host: self._samples.get(host, deque()) for host in free}
        for host, samples in self._samples.items():
            while samples and not time - TREND_SECONDS <= samples[0][0] <= time:
                samples.popleft()
            samples.append((time, free[host]))

    def seconds_left(self, host: str) -> float | None:
        """Return the seconds until the memory of the host is used up at the present rate; None: it is not being used
        up."""
        (first_time, first), (last_time, last) = self._samples[host][0], self._samples[host][-1]
        seconds = last_time - first_time
        if seconds < _TREND_LEAST_SECONDS or last >= first:
            return None
        return last * seconds / (first - last)


# ---- rules: the text of the alert, empty for none --------------------------------------------------------------------


def _memory(look: _Look) -> str:
    tight: list[tuple[int, str]] = []
    for host, memory in memory_by_host(look.snapshot.agents).items():
        left = look.trends.seconds_left(host)
        is_soon = left is not None and left < WINDOW_SECONDS and _share_free(memory) < _TREND_FREE_SHARE
        if is_soon or memory.free_bytes < _least_free_bytes(memory.limit_bytes):
            lasts = f", which last for {format_duration(left)} at the present rate" if is_soon and left else ""
            of = f" of {format_bytes(memory.limit_bytes)}" if memory.limit_bytes else ""
            tight.append((memory.free_bytes, f"{_short(host)} has {format_bytes(memory.free_bytes)}{of}{lasts}"))
    return _about_hosts("memory is about to run out", tight)


def _least_free_bytes(limit: int) -> int:
    """A gibibyte or 3 %, whichever is more, and at most a tenth."""
    return min(max(_GIBIBYTE, limit * 3 // 100), limit // 10) if limit else _GIBIBYTE


def _share_free(memory: HostMemory) -> float:
    return memory.free_bytes / memory.limit_bytes if memory.limit_bytes else 1.0


def _disk(look: _Look) -> str:
    full = [
        (
            each.disk_free_bytes,
            f"{_short(each.host)} has {format_bytes(each.disk_free_bytes)} of {format_bytes(each.disk_capacity_bytes)}",
        )
        for each in look.snapshot.stores
        if each.disk_free_bytes < disk_reserve_bytes(each.disk_capacity_bytes)
    ]
    return _about_hosts("the disk for objects is nearly full", full)


def _silent(look: _Look) -> str:
    return silence_text(silent_agents(look.snapshot))


def _workers(look: _Look) -> str:
    return _about_waits(look.snapshot, NO_WORKERS, "Start workers with scaler_cluster.")


def _capabilities(look: _Look) -> str:
    return _about_waits(look.snapshot, MISSING_CAPABILITIES, "Start workers with the missing capabilities.")


def _failures(look: _Look) -> str:
    failed, ended = look.outcomes.failed, look.outcomes.ended
    if failed < FAILURES_LEAST or failed <= FAILURE_SHARE * ended:
        return ""
    return f"{format_count(failed)} of the {format_count(ended)} tasks that ended within the last minute failed"


def _store(look: _Look) -> str:
    full = [
        (
            each.capacity_bytes - each.used_bytes,
            f"{_short(each.host)} uses {format_bytes(each.used_bytes)} of {format_bytes(each.capacity_bytes)}",
        )
        for each in look.snapshot.stores
        if each.capacity_bytes and each.used_bytes > STORE_SHARE * each.capacity_bytes
    ]
    return _about_hosts("the object store is nearly full and moves objects to its disk", full)


def _about_hosts(what: str, hosts: Iterable[tuple[int, str]]) -> str:
    """``hosts``: how much room each has, and what to say of it. The one with the least room is named."""
    ordered = sorted(hosts)
    if not ordered:
        return ""
    others = len(ordered) - 1
    more = f", and {format_count(others)} other host{'' if others == 1 else 's'}" if others else ""
    return f"{what}: {ordered[0][1]}{more}"


def _about_waits(snapshot: Snapshot, reason: str, remedy: str) -> str:
    waits = list(_waits_for(snapshot.waits, reason))
    if not waits:
        return ""
    count, first = sum(each.count for each in waits), max(waits, key=lambda each: each.oldest_seconds)
    function, age = _short(first.function), format_duration(first.oldest_seconds)
    one, several = f"A task of {function} waits", f"{format_count(count)} tasks wait, the first one, of {function},"
    return f"{one if count == 1 else several} for {age}: {first.reason} {remedy}"


def _waits_for(waits: Iterable[WaitGroup], reason: str) -> Iterator[WaitGroup]:
    for each in waits:
        if each.oldest_seconds >= WAIT_SECONDS and each.reason.casefold().startswith(reason):
            yield each


def _short(name: str) -> str:
    text = printable(name)
    return text if len(text) <= _SHOWN_NAME_LIMIT else text[: _SHOWN_NAME_LIMIT - 3] + "..."


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


class _Rule(NamedTuple):
    """``delay_seconds``: how long the cause must last."""

    name: str
    severity: Severity
    table: str
    find: Callable[[_Look], str]
    delay_seconds: float = 0.0


_RULES = (
    _Rule(MEMORY_RULE, "critical", "agents", _memory),
    _Rule("disk", "critical", "objects", _disk),
    _Rule("silent", "warning", "agents", _silent),
    _Rule("workers", "warning", "waits", _workers),
    _Rule("capabilities", "warning", "waits", _capabilities),
    _Rule("failures", "warning", "failures", _failures),
    _Rule("store", "warning", "objects", _store, STORE_SECONDS),
)
_DELAYS = {rule.name: rule.delay_seconds for rule in _RULES}
