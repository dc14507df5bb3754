"""Progress of all tasks, and of those of each client, group of clients, function, map and graph. Pure.

The estimate is the same on every screen: the number of unfinished tasks times the time that one has lately taken. What
is lately depends on how many end: the last half minute, or the last ten tasks if these took longer. Tasks that are
cancelled do not count: they say nothing about the time that the others take. Tasks that a map has still to submit
count; there is no estimate if their number is not known.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple

from scaler_protocol.monitor.messages import (
    ClientStatus,
    FunctionStatus,
    GraphStatus,
    MapStatus,
    Snapshot,
    user_of_client,
)

ALL = "all"
CLIENT = "client"
GROUP = "group"
FUNCTION = "function"
MAP = "map"
GRAPH = "graph"

RECENT_SECONDS = 30.0
RECENT_ENDINGS = 10.0


class Progress(NamedTuple):
    """The progress of some tasks. ``key``: of a client its session, of a map or graph its session and number, else the
    name."""

    kind: str
    key: Hashable
    name: str
    done: int = 0  # succeeded
    failed: int = 0
    canceled: int = 0
    on_hosts: int = 0  # assigned to an agent; of a function see ``_on_hosts``
    unfinished: int = 0  # with the running ones, and with those that clients have still to submit, as far as known
    is_open: bool = False  # further tasks may come, and their number is not known
    seconds_left: float = 0.0  # until all have ended; 0: not known, or all have ended

    @property
    def ended(self) -> int:
        return self.done + self.failed + self.canceled

    @property
    def share(self) -> float:
        """The part that has ended, from 0 to 1."""
        total = self.ended + self.unfinished
        return self.ended / total if total else 1.0


def seconds_left(unfinished: int, ended: float, seconds: float) -> float:
    """The estimate, if ``ended`` tasks ended in the last ``seconds``; 0 if none did."""
    return unfinished * seconds / ended if ended > 0 else 0.0


class Pace:
    """The number of tasks of one kind that ended lately, and the time in which they did."""

    __slots__ = ("_ended", "_endings", "_seconds", "_time")

    def __init__(self, time: float, ended: int) -> None:
        self._time, self._ended = time, ended
        self._endings = self._seconds = 0.0

    def add(self, time: float, ended: int) -> None:
        """At ``time``, so many had ended since the beginning."""
        seconds, endings = time - self._time, ended - self._ended
        self._time, self._ended = time, ended
        if seconds <= 0 or endings < 0:  # the clock was set, or counts began again
            return
        kept = math.exp(-min(seconds / RECENT_SECONDS, endings / RECENT_ENDINGS))
        self._endings = kept * self._endings + endings
        self._seconds = kept * self._seconds + seconds

    def seconds_left(self, unfinished: int) -> float:
        return seconds_left(unfinished, self._endings, self._seconds)


class ProgressWatch:
    """A row for all tasks, then one for each thing that has unfinished tasks in the last snapshot. Only these have a
    pace."""

    def __init__(self) -> None:
        self.rows: list[Progress] = []
        self._paces: dict[tuple[str, Hashable], Pace] = {}

    def add(self, snapshot: Snapshot) -> None:
        """Snapshots of one epoch, in order."""
        paces: dict[tuple[str, Hashable], Pace] = {}
        self.rows = []
        coming = _coming(snapshot)
        for counted in _counted(snapshot):
            to_come, is_open = coming.get((counted.kind, counted.key), (0, False))
            row = counted._replace(unfinished=counted.unfinished + to_come, is_open=is_open)
            if row.unfinished:
                pace = paces[row.kind, row.key] = self._pace(row, snapshot.time)
                left = 0.0 if row.is_open else pace.seconds_left(row.unfinished)
                row = row._replace(seconds_left=left)
            if row.unfinished or row.kind == ALL:
                self.rows.append(row)
        self._paces = paces

    def find(self, kind: str, key: Hashable) -> Progress | None:
        """None: there is nothing unfinished."""
        return next((row for row in self.rows if row.kind == kind and row.key == key), None)

    def by_key(self, kind: str) -> dict[Hashable, Progress]:
        return {row.key: row for row in self.rows if row.kind == kind}

    def _pace(self, row: Progress, time: float) -> Pace:
        pace = self._paces.get((row.kind, row.key))
        if pace is None:
            return Pace(time, row.done + row.failed)
        pace.add(time, row.done + row.failed)
        return pace


def _counted(snapshot: Snapshot) -> Iterator[Progress]:
    tasks = snapshot.tasks
    failed, unfinished = tasks.failed + tasks.not_found, tasks.running + tasks.unassigned
    yield Progress(ALL, "", "all tasks", tasks.success, failed, tasks.canceled, tasks.running, unfinished)
    yield from map(_of_client, snapshot.clients)
    yield from _of_groups(snapshot.clients)
    on_hosts = _on_hosts(snapshot)
    yield from (_of_function(each, on_hosts[each.name]) for each in snapshot.functions)
    yield from map(_of_map, snapshot.maps)
    yield from map(_of_graph, snapshot.graphs)


def _on_hosts(snapshot: Snapshot) -> Counter[str]:
    """Return how many tasks of each function are with agents: all that do not wait, or, if not all waiting tasks are
    listed by function, those that have run for a second or longer."""
    if snapshot.wait_count > len(snapshot.waits) or not all(each.digest for each in snapshot.waits):
        return Counter(task.function for agent in snapshot.agents for task in agent.running)
    found = Counter({each.name: each.unfinished for each in snapshot.functions})
    for each in snapshot.waits:
        found[each.function] = max(0, found[each.function] - each.count)
    return found


def _coming(snapshot: Snapshot) -> dict[tuple[str, Hashable], tuple[int, bool]]:
    """Return how many tasks are still to be submitted, and whether there may be more, by kind and key."""
    found: dict[tuple[str, Hashable], tuple[int, bool]] = {}
    groups = {client.session: client.group for client in snapshot.clients}
    for each in snapshot.maps:
        if not each.to_come and not each.is_open:
            continue
        session, group = each.session, groups.get(each.session, "")
        for key in (
            (ALL, ""), (CLIENT, session), (GROUP, group), (FUNCTION, each.function), (MAP, (session, each.number))
        ):  # fmt: skip
            to_come, is_open = found.get(key, (0, False))
            found[key] = to_come + each.to_come, is_open or each.is_open
    return found


def _of_client(client: ClientStatus) -> Progress:
    """Its name says first who uses it and for what: narrow screens show only the beginning."""
    who = ", ".join(filter(None, (user_of_client(client), client.program)))
    place = f"{who} at {client.host}" if who else f"{client.host} (pid {client.pid})"
    name = f"{client.session.hex()[:8]} {place}"
    return Progress(CLIENT, client.session, name, *_client_counts(client))


def _client_counts(client: ClientStatus) -> tuple[int, int, int, int, int]:
    """Its tasks, in the order of ``Progress``."""
    done = max(0, client.finished - client.failed - client.canceled)
    return done, client.failed, client.canceled, client.running, client.unassigned + client.running


def _of_groups(clients: Iterable[ClientStatus]) -> Iterator[Progress]:
    """Progress of each group; clients without a group do not count."""
    sums: dict[str, list[int]] = {}
    for client in clients:
        if client.group:
            total = sums.setdefault(client.group, [0] * 5)
            for place, count in enumerate(_client_counts(client)):
                total[place] += count
    for group, (done, failed, canceled, running, unfinished) in sums.items():
        yield Progress(GROUP, group, group, done, failed, canceled, running, unfinished)


def _of_function(function: FunctionStatus, on_hosts: int) -> Progress:
    done = max(0, function.finished - function.failed - function.canceled)
    return Progress(
        FUNCTION, function.name, function.name, done, function.failed, function.canceled, on_hosts, function.unfinished
    )


def _of_map(status: MapStatus) -> Progress:
    done = max(0, status.total - status.unfinished - status.failed)
    name = f"map {status.number} of {status.session.hex()[:8]}: {status.function}"
    key = status.session, status.number
    return Progress(MAP, key, name, done, *failed_apart(status), status.running, status.unfinished)


def _of_graph(graph: GraphStatus) -> Progress:
    unfinished = max(0, graph.nodes - graph.done - graph.failed)
    name = f"graph {graph.graph} of {graph.session.hex()[:8]}"
    key = graph.session, graph.graph
    return Progress(GRAPH, key, name, graph.done, *failed_apart(graph), graph.running, unfinished)


def failed_apart(status: MapStatus | GraphStatus) -> tuple[int, int]:
    """Return how many tasks failed, and how many were cancelled."""
    canceled = min(status.canceled, status.failed)
    return status.failed - canceled, canceled
