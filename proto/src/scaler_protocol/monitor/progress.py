"""Progress of all tasks, and of those of each client, group of clients, function, map and graph. Pure.

The estimate is the same on every screen: the number of unfinished tasks times the time that one has lately taken. What
is lately depends on how many end: the last half minute, or the last ten tasks if these took longer. Tasks that are
cancelled do not count: they say nothing about the time that the others take. Nothing ends before a part of it: all
tasks take at least as long as those of each client, group and function. Tasks that a map has still to submit
count; there is no estimate if their number is not known. Tasks that no worker can run at present do not count, nor do
actors, which run until they are ended. There is no estimate if there are no other tasks, or if it is not known to which
map or graph they belong. The time in which there is nothing else is not part of the time that a task takes.

No estimate is less than what the running tasks contradict. A task that has run for a shorter time than its function
usually takes needs at least the rest of it; one that has overrun by some time is expected to need at least as long
again. If tasks that usually take 10 ms have run for 5 minutes, 5 minutes are left. A task that waits for tasks of its
own or for a lock, and whose usual time is not known, contradicts nothing: what it waits for counts itself.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple, cast

from scaler_protocol.monitor.blocked_tasks import NONE, WaitingTasks, waiting_by
from scaler_protocol.monitor.format import format_count, format_end, format_left
from scaler_protocol.monitor.messages import (
    ClientStatus,
    FunctionStatus,
    GraphStatus,
    MapStatus,
    RunningTaskStatus,
    Snapshot,
    WaitGroup,
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

_OPEN = "further tasks may come, and their number is not known"
_ONLY_ACTORS = "only actors run, until they are ended"
_FUNCTION_OF_CLIENT = "function of a client"


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
    seconds_left: float = 0.0  # until all that can run have ended; 0: not known, or all have ended
    cannot_run: int = 0  # of the unfinished ones: no worker can run them at present
    actors: int = 0  # of those on hosts: they run until they are ended
    obstacle: str = ""  # why these cannot run, or why nothing can be estimated

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


def least_seconds(task: RunningTaskStatus) -> float:
    """Return how much longer a running task is expected to run at least."""
    if task.actor or (task.blocked and not task.usual_seconds):
        return 0.0
    return abs(task.usual_seconds - task.seconds)


def left_text(row: Progress, now: float) -> str:
    """Return when the tasks will have ended, how many cannot run and why, or why there is no estimate.

    ``3 min left, until 12:05; 7 cannot run: no worker has gpu=1``. Empty: no task has ended yet, or all have.
    ``now``: unix seconds.
    """
    left = f"{format_left(row.seconds_left)} left, {until_text(row, now)}" if row.seconds_left else ""
    if not row.obstacle:
        return left
    blocked = f"{cannot_run_text(row)}: {row.obstacle}" if row.cannot_run else f"no estimate: {row.obstacle}"
    return f"{left}; {blocked}" if left else blocked


def short_left_text(row: Progress) -> str:
    """Return the same in a few words: ``3 min left, 7 cannot run``."""
    left = f"{format_left(row.seconds_left)} left" if row.seconds_left else ""
    return ", ".join(filter(None, (left, cannot_run_text(row))))


def until_text(row: Progress, now: float) -> str:
    """``until 12:05``; empty without an estimate."""
    return f"until {format_end(now + row.seconds_left, now)}" if row.seconds_left else ""


def cannot_run_text(row: Progress) -> str:
    """``7 cannot run``, or that there are only actors; empty if all can run, and will end."""
    if row.cannot_run:
        return f"{format_count(row.cannot_run)} cannot run"
    return "only actors run" if row.actors and row.actors == row.unfinished else ""


class Pace:
    """The number of tasks of one kind that ended lately, and the time in which they did."""

    __slots__ = ("_ended", "_endings", "_seconds", "_time")

    def __init__(self, time: float, ended: int) -> None:
        self._time, self._ended = time, ended
        self._endings = self._seconds = 0.0

    def add(self, time: float, ended: int, could_run: bool = True) -> None:
        """At ``time``, so many had ended since the beginning. ``could_run``: there was something to run."""
        seconds, endings = time - self._time, ended - self._ended
        self._time, self._ended = time, ended
        if seconds <= 0 or endings < 0:  # the clock was set, or counts began again
            return
        if not could_run and not endings:
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
        coming, waiting, owners = _coming(snapshot), _waiting(snapshot), _owners(snapshot)
        actors, least = _actors(snapshot), _least_seconds(snapshot)
        for counted in _counted(snapshot):
            key = counted.kind, counted.key
            to_come, is_open = coming.get(key, (0, False))
            row = _with_obstacle(counted, waiting.get(owners.get(key, key), NONE))
            row = row._replace(actors=min(actors[key], row.on_hosts))
            can_run = row.cannot_run + row.actors < row.unfinished if row.cannot_run else not row.obstacle
            row = row._replace(unfinished=row.unfinished + to_come, is_open=is_open)
            if row.actors and row.actors == row.unfinished:
                row, can_run = row._replace(obstacle=_ONLY_ACTORS), False
            if row.unfinished:
                pace = paces[key] = self._pace(row, snapshot.time, can_run)
                row = _estimated(row, pace, least.get(key, 0.0)) if can_run else row
            if row.unfinished or row.kind == ALL:
                self.rows.append(row)
        self.rows = _not_before_parts(self.rows, snapshot)
        self._paces = paces

    def find(self, kind: str, key: Hashable) -> Progress | None:
        """None: there is nothing unfinished."""
        return next((row for row in self.rows if row.kind == kind and row.key == key), None)

    def by_key(self, kind: str) -> dict[Hashable, Progress]:
        return {row.key: row for row in self.rows if row.kind == kind}

    def _pace(self, row: Progress, time: float, can_run: bool) -> Pace:
        pace = self._paces.get((row.kind, row.key))
        if pace is None:
            return Pace(time, row.done + row.failed)
        pace.add(time, row.done + row.failed, can_run)
        return pace


def _estimated(row: Progress, pace: Pace, least: float) -> Progress:
    """``least``: the seconds that its running tasks are expected to take at least."""
    if row.is_open:
        return row._replace(obstacle=row.obstacle or _OPEN)
    seconds = pace.seconds_left(row.unfinished - row.cannot_run - row.actors)
    return row._replace(seconds_left=max(seconds, least) if seconds else 0.0)


def _not_before_parts(rows: list[Progress], snapshot: Snapshot) -> list[Progress]:
    """Return the rows, none of which ends before a part of it: the pace of many short tasks says little about the long
    ones among them."""
    groups = {client.session: client.group for client in snapshot.clients}
    functions = {(each.session, each.number): each.function for each in snapshot.maps}
    longest: dict[tuple[str, Hashable], float] = {}
    for row in rows:
        for whole in _wholes(row, groups, functions):
            longest[whole] = max(longest.get(whole, 0.0), row.seconds_left)
    return [
        row._replace(seconds_left=max(row.seconds_left, longest.get((row.kind, row.key), 0.0)))
        if row.seconds_left
        else row
        for row in rows
    ]


def _wholes(
    row: Progress, groups: dict[bytes, str], functions: dict[tuple[bytes, int], str]
) -> Iterator[tuple[str, Hashable]]:
    """Yield the kind and key of all that contains the tasks of a row. ``groups``: by session; ``functions``: by map."""
    if row.kind != ALL:
        yield ALL, ""
    if row.kind in (MAP, GRAPH):
        session, number = cast("tuple[bytes, int]", row.key)
        yield CLIENT, session
        yield GROUP, groups.get(session, "")
        if row.kind == MAP:
            yield FUNCTION, functions[session, number]
    elif row.kind == CLIENT:
        yield GROUP, groups.get(cast("bytes", row.key), "")


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


def _least_seconds(snapshot: Snapshot) -> dict[tuple[str, Hashable], float]:
    """Return how long the tasks that have run for a second or longer are expected to run at least, by kind and key.
    Recordings of earlier releases do not say to which map or graph a task belongs."""
    found: dict[tuple[str, Hashable], float] = {}
    groups = {client.session: client.group for client in snapshot.clients}
    for agent in snapshot.agents:
        for task in agent.running:
            seconds, session = least_seconds(task), task.session
            for key in (
                (ALL, ""), (CLIENT, session), (GROUP, groups.get(session, "")), (FUNCTION, task.function),
                (MAP, (session, task.map_number)), (GRAPH, (session, task.graph)),
            ):  # fmt: skip
                found[key] = max(found.get(key, 0.0), seconds)
    return found


def _actors(snapshot: Snapshot) -> Counter[tuple[str, Hashable]]:
    """Return how many actors are on hosts, by kind and key: the shown ones, and those that have run for a second or
    longer without calls."""
    running = (task for agent in snapshot.agents for task in agent.running if task.actor)
    actors = {(task.session, task.task): task.function for task in running}
    actors.update({(each.session, each.task): each.function for each in snapshot.actors if each.host})
    groups = {client.session: client.group for client in snapshot.clients}
    found: Counter[tuple[str, Hashable]] = Counter()
    for (session, _), function in actors.items():
        found.update(((ALL, ""), (CLIENT, session), (GROUP, groups.get(session, "")), (FUNCTION, function)))
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


def _waiting(snapshot: Snapshot) -> dict[Hashable, WaitingTasks]:
    """Return the waiting tasks by kind and key, and by function and client. Keys without blocked
    tasks are left out."""
    groups = {client.session: client.group for client in snapshot.clients}

    def keys_of(wait: WaitGroup) -> Iterator[Hashable]:
        yield ALL, ""
        yield FUNCTION, wait.function
        if wait.session in groups:
            yield CLIENT, wait.session
            yield GROUP, groups[wait.session]
            yield _FUNCTION_OF_CLIENT, (wait.session, wait.function)

    return waiting_by(snapshot.waits, keys_of)


def _owners(snapshot: Snapshot) -> dict[tuple[str, Hashable], Hashable]:
    """Return the keys of ``_waiting`` that tell most about maps and graphs; all others are keys themselves."""
    owners: dict[tuple[str, Hashable], Hashable] = {}
    for each in snapshot.maps:
        owners[MAP, (each.session, each.number)] = _FUNCTION_OF_CLIENT, (each.session, each.function)
    for graph in snapshot.graphs:
        owners[GRAPH, (graph.session, graph.graph)] = CLIENT, graph.session
    return owners


def _with_obstacle(row: Progress, waiting: WaitingTasks) -> Progress:
    """Return the row with the tasks of ``waiting``, those of its owner, that cannot run."""
    own = row.unfinished - row.on_hosts
    if not waiting.blocked or own <= 0:
        return row
    if row.kind in (GRAPH, MAP) and own < waiting.total and waiting.blocked < waiting.total:
        owner = "client" if row.kind == GRAPH else "function"
        found = f"{format_count(waiting.blocked)} of the tasks of its {owner} cannot run, perhaps its own"
        return row._replace(obstacle=found)
    blocked = waiting.blocked
    if row.kind not in (FUNCTION, MAP) and not row.on_hosts and blocked + waiting.dependent >= own:
        blocked = own  # what the others need is among these
    return row._replace(cannot_run=min(blocked, own), obstacle=waiting.reason)


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
