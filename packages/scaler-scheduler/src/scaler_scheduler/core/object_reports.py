"""The largest objects, for monitors: who has made them, where they are, and which tasks need them.

Objects are what clients have sent, large functions, large results that their clients have not fetched, and large values
in graphs. All loops are bounded, because a snapshot must not keep the scheduler: of very many objects, some are not
looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from heapq import nlargest
from itertools import chain, islice
from operator import itemgetter

from scaler_protocol.messages import ObjectKey
from scaler_protocol.monitor.messages import ObjectStatus
from scaler_scheduler.core.clients import ClientPeer
from scaler_scheduler.core.run_records import RunRecord
from scaler_scheduler.core.state import SchedulerState
from scaler_scheduler.core.states import TaskState
from scaler_scheduler.core.stored_objects import StoredObject

SHOWN_LIMIT = 200
LOOKED_LIMIT = 5_000
"""Objects of one kind, of all clients together, that are looked at."""

SLOTS_LIMIT = 2_000
"""Arguments of tasks that are looked at, to find the tasks that need an object."""

READERS_LIMIT = 10
"""Tasks named as needing an object."""

NODES_LIMIT = 500_000
"""Nodes and edges of all graphs together that are looked at."""

GRAPH_NODES = 50
"""Looking at a graph takes as long as at so many nodes."""

HOSTS_LIMIT = 10

_Candidate = tuple[int, Callable[[], ObjectStatus]]
"""The size of an object, and what describes it."""


@dataclass(slots=True)
class _Readers:
    """The unfinished tasks that need an object: how many, and the first ones."""

    count: int = 0
    tasks: list[int] = field(default_factory=list)

    def add(self, tasks: Iterable[int], count: int) -> None:
        self.count += count
        self.tasks += islice(tasks, max(0, READERS_LIMIT - len(self.tasks)))


def largest_objects(state: SchedulerState) -> tuple[ObjectStatus, ...]:
    """The largest ones first. Where they are is looked up for these alone."""
    found = chain(_sent(state, _readers(state)), _values_of_graphs(state), _results(state))
    return tuple(make() for _, make in nlargest(SHOWN_LIMIT, found, key=itemgetter(0)))


def _sent(state: SchedulerState, readers: dict[ObjectKey, _Readers]) -> Iterator[_Candidate]:
    """Return what clients have sent: arguments and functions."""
    for key, stored in islice(state.objects.objects.items(), LOOKED_LIMIT):
        if stored.size > 0:
            yield stored.size, partial(_sent_object, state, key, stored, readers.get(key, _Readers()))


def _sent_object(state: SchedulerState, key: ObjectKey, stored: StoredObject, needed: _Readers) -> ObjectStatus:
    hosts = _hosts_of(state, stored)
    if stored.is_function:
        load = state.function_loads.get(key.owner)
        needed = _Readers(load.unfinished if load is not None else 0)
    owner = next((state.clients[each] for each in stored.owners if each in state.clients), None)
    return ObjectStatus(
        session=owner.shown_id if owner is not None else b"",
        number=key.number,
        digest=key.owner if stored.is_function else b"",
        size_bytes=stored.size,
        copies=len(hosts),
        hosts=_shown(hosts),
        readers=needed.count,
        reader_tasks=_texts(needed.tasks),
        host_names=tuple(hosts[:HOSTS_LIMIT]),
    )


def _values_of_graphs(state: SchedulerState) -> Iterator[_Candidate]:
    """Return the large values in graphs. Graphs that are too large to be looked at are left out."""
    room = NODES_LIMIT
    for client in state.clients.values():
        nodes = client.table.nodes
        for graph in nodes.graphs.values():
            room -= GRAPH_NODES
            if room < 0:
                return
            if not graph.has_large or graph.count + graph.edge_count > room:
                continue
            room -= graph.count + graph.edge_count
            for task, size, agent, count, tasks in nodes.large_values(graph, SHOWN_LIMIT, READERS_LIMIT):
                agents = [agent, *nodes.copies_of(task)]
                yield size, partial(_value, state, client, task, size, agents, _Readers(count, tasks))


def _results(state: SchedulerState) -> Iterator[_Candidate]:
    """Return the large results of tasks outside of graphs."""
    results = ((client, *item) for client in state.clients.values() for item in client.large_bytes.items())
    for client, task, size in islice(results, LOOKED_LIMIT):
        known = client.table.columns.describe(task)
        if known is not None and known.state == TaskState.DONE_LARGE and known.record.graph is None:
            yield size, partial(_value, state, client, task, size, [known.agent_index], _Readers())


def _value(
    state: SchedulerState, client: ClientPeer, task: int, size: int, agents: Iterable[int], readers: _Readers
) -> ObjectStatus:
    found = (state.agent_by_index.get(index) for index in agents)
    hosts = list(dict.fromkeys(agent.host for agent in found if agent is not None))
    return ObjectStatus(
        session=client.shown_id, number=task, size_bytes=size, copies=len(hosts), hosts=_shown(hosts),
        readers=readers.count, reader_tasks=_texts(readers.tasks), host_names=tuple(hosts[:HOSTS_LIMIT]),
    )  # fmt: skip


def _readers(state: SchedulerState) -> dict[ObjectKey, _Readers]:
    """The unfinished tasks that need what clients have sent, as far as there is room to look at their arguments."""
    found: dict[ObjectKey, _Readers] = {}
    room = SLOTS_LIMIT
    for client in state.clients.values():
        for record in client.table.columns.runs_with_uploads(room):
            room -= _add_readers(found, client, record, room)
            if room <= 0:
                return found
    return found


def _add_readers(found: dict[ObjectKey, _Readers], client: ClientPeer, record: RunRecord, room: int) -> int:
    """Add the tasks of one run that fit into ``room``. Returns how much of it was used, at least 1."""
    width = max(1, record.run.arity)
    looked = min(record.stop - record.first, room // width)
    for index in range(looked):
        task = record.first + index
        if client.table.columns.state(task) != TaskState.ENDED:
            for key in dict.fromkeys(slot for slot in record.run.slots(index) if isinstance(slot, ObjectKey)):
                found.setdefault(key, _Readers()).add([task], 1)
    return max(1, looked * width)


def _hosts_of(state: SchedulerState, stored: StoredObject) -> list[str]:
    """The hosts that have an object, some of them if they are very many."""
    agents = [agent for store in stored.stores for agent in state.agents_by_store.get(store, ())[:1]]
    agents += [state.agents[session] for session in islice(stored.holders, LOOKED_LIMIT) if session in state.agents]
    hosts = dict.fromkeys(agent.host for agent in agents)
    owner = next((state.clients[each] for each in stored.owners if each in state.clients), None)
    if not hosts and owner is not None:
        hosts[owner.hello.host] = None
    return list(hosts)


def _shown(hosts: list[str]) -> str:
    more = len(hosts) - HOSTS_LIMIT
    return ", ".join(hosts[:HOSTS_LIMIT]) + (f" and {more} more" if more > 0 else "")


def _texts(tasks: Iterable[int]) -> str:
    return " ".join(map(str, tasks))
