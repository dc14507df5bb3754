"""Results of submitted tasks take a short way through the session, which must do what the general way does."""

from __future__ import annotations

import random
from typing import Any

import pytest

from scaler.core.effects import DropStoredObjects, Finish
from scaler.core.graphs import GraphGroup, fill
from scaler.core.large_results import LargeResult
from scaler.core.open_graph import NodePart
from scaler.core.outcome import Outcome
from scaler.core.runs import Shape
from scaler.core.session import Session
from scaler.core.uploads import Stored, Upload
from scaler_protocol.codec import ResultRun
from scaler_protocol.messages import ObjectKey, Results, Status, TaskOptions
from tests.unit.client.scheduler_side import SESSION, SchedulerSide

SINGLE_TASKS, MAP_TASKS, GRAPH_TASKS, NODES = 8, 4, 3, 6
LAST_TASK = 2 * SINGLE_TASKS + MAP_TASKS + GRAPH_TASKS + SINGLE_TASKS + NODES
LARGE_SIZE = (40_000).to_bytes(8, "little")
STATUSES = [int(status) for status in Status]


class SlowReferences(dict[int, Any]):
    """The short way does not take tasks of a range that has references: these say that there are some."""

    def __bool__(self) -> bool:
        return True


class Sink:
    """``is_awaited``: a thread waits for it, so that it takes its outcome in ``finish``."""

    task_range: Any = None
    task_index = 0

    def __init__(self, is_awaited: bool = False) -> None:
        self.is_awaited = is_awaited
        self.outcomes: list[Outcome] = []

    def settle(self, outcome: Outcome) -> bool:
        if not self.is_awaited:
            self.outcomes.append(outcome)
        return not self.is_awaited

    def finish(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)

    def blame(self, culprit: Any) -> None:
        self.outcomes.append(Outcome(-1, culprit.task_index))


class MapSink(Sink):
    def take_run(self, first: int, run: ResultRun) -> bool:
        return all([self.take_outcome(row[0] - first, Outcome(*row[1:])) for row in run.copied_rows()])

    def take_outcome(self, place: int, outcome: Outcome) -> bool:
        self.outcomes.append(Outcome(place, outcome))
        return not self.is_awaited


class Stage:
    """A session with tasks of every kind, and what follows from results."""

    def __init__(self, seed: int, is_slow: bool) -> None:
        self.chance = random.Random(seed)
        self.side = SchedulerSide()
        self.session: Session = self.side.session
        self.sinks: list[Sink] = []
        self.uploads: list[Upload] = []
        self.side.connect()
        self._add_single(SINGLE_TASKS, 0.0)
        self._add_map()
        self._add_single(SINGLE_TASKS, 0.5)
        self._add_graph()
        self._add_single(SINGLE_TASKS, 0.0)
        self._add_nodes()
        self.session.submissions.close_batch()
        for sink in self.sinks:
            if type(sink) is Sink and self.chance.random() < 0.1:
                self.session.endings.cancel(sink.task_range, sink.task_index)
        for entry in self.session.ranges.values():
            if is_slow and (entry.part is None or isinstance(entry.part, NodePart)):
                entry.references = SlowReferences(entry.references)

    def _add_single(self, count: int, share_with_objects: float) -> None:
        shape = self._shape(1)
        for _ in range(count):
            sink = Sink(self.chance.random() < 0.3)
            self.sinks.append(sink)
            self.session.submissions.add(shape, [b"1"], 1, sink)
            if self.chance.random() < share_with_objects:
                self._refer(sink)
        self.session.submissions.close_batch()

    def _refer(self, sink: Sink) -> None:
        objects = self.session.objects
        upload = objects.add(objects.next_key(), Stored(50_000, b"store", lambda _: None))
        objects.refer(sink.task_range, sink.task_index, [upload])
        objects.let_go(upload)
        self.uploads.append(upload)

    def _add_map(self) -> None:
        sink = MapSink(self.chance.random() < 0.3)
        self.sinks.append(sink)
        entry = self.session.submissions.open_map(self._shape(1), sink, 0)
        assert entry.builder is not None
        for _ in range(MAP_TASKS):
            entry.builder.append([b"1"])
        self.session.submissions.close_map(entry)

    def _add_graph(self) -> None:
        submissions = self.session.submissions
        first = submissions.next_task()
        group = GraphGroup(first, first + GRAPH_TASKS - 1)
        entry = submissions.open_graph_range(self._shape(0, TaskOptions(graph=group.last)), group)
        assert entry.builder is not None
        sinks = [Sink(self.chance.random() < 0.3) for _ in range(GRAPH_TASKS)]
        for _ in sinks:
            entry.builder.append([])
        fill(entry, sinks, [False] * GRAPH_TASKS)
        self.sinks += sinks
        assert submissions.add_graph(group)

    def _add_nodes(self) -> None:
        """Each needs the result of the one before."""
        submissions = self.session.submissions
        shape = self._shape(1).variant(is_node=True)
        inputs: list[Sink] = []
        for _ in range(NODES):
            sink = Sink(self.chance.random() < 0.3)
            slots = [ObjectKey(SESSION, submissions.id_of(each)) for each in inputs] or [b"1"]
            submissions.add_node(shape, slots, 24, sink, inputs)
            self.sinks.append(sink)
            inputs = [sink]

    def _shape(self, arity: int, options: TaskOptions | None = None) -> Shape:
        return Shape(self.side.book.find(abs), arity, (), options or TaskOptions())

    def hear(self, rows: list[tuple[int, int, int, bytes, int, int, int]]) -> list[Any]:
        """All that can be seen of what the results do."""
        self.session.endings.on_results(Results([ResultRun(SESSION, rows)]), 0.0)
        self.session.check()
        outgoing = self.session._outgoing
        found = [
            [(type(sink), [plain(outcome) for outcome in sink.outcomes]) for sink in self.sinks],
            [self.effect(effect) for effect in outgoing.effects],
            list(outgoing.releases),
            list(outgoing.cancels),
            [(upload.key, upload.uses) for upload in self.uploads],
            [self.range_state(entry) for entry in self.session.ranges.values()],
        ]
        outgoing.effects.clear()
        return found

    def effect(self, effect: Any) -> Any:
        if isinstance(effect, Finish):
            place = next(place for place, sink in enumerate(self.sinks) if sink is effect.sink)
            return "finish", place, plain(effect.outcome)
        return ("drop", effect.keys) if isinstance(effect, DropStoredObjects) else type(effect)

    def range_state(self, entry: Any) -> Any:
        waiting = [sink is None for sink in entry.sinks]
        large = {index: plain(outcome) for index, outcome in entry.large.items()}
        found = entry.first, entry.remaining, waiting, sorted(entry.references), large, entry.unfinished()
        part = entry.part
        if not isinstance(part, NodePart):
            return found
        failures = {index: plain(outcome) for index, outcome in part.failures.items()}
        return *found, part.values, failures, sorted(part.inputs), part.group.waiting, part.group.is_over


def plain(value: Any) -> Any:
    """With large results by what they say."""
    if isinstance(value, LargeResult):
        return value.key, value.index, value.size, value.store
    return tuple(map(plain, value)) if isinstance(value, tuple) else value


def rows_of(chance: random.Random) -> list[tuple[int, int, int, bytes, int, int, int]]:
    """Rows in order, as runs have them; some of tasks that have ended, or that never were."""
    tasks = sorted(chance.choices(range(1, LAST_TASK + 4), k=chance.randint(1, 12)))
    rows = []
    for task in tasks:
        status = chance.choice([int(Status.SUCCESS)] * 4 + [int(Status.SUCCESS_LARGE)] + STATUSES)
        payload = LARGE_SIZE + b"store" if status == Status.SUCCESS_LARGE else bytes([chance.randrange(256)])
        rows.append((task, 1, status, payload, chance.randrange(100), chance.randrange(100), chance.randrange(100)))
    return rows


@pytest.mark.parametrize("seed", range(300))
def test_the_short_way_does_what_the_general_way_does(seed: int) -> None:
    chance, quick, slow = random.Random(seed), Stage(seed, is_slow=False), Stage(seed, is_slow=True)
    for _ in range(12):
        rows = rows_of(chance)
        assert quick.hear(rows) == slow.hear(rows)


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("is_awaited", [False, True])
def test_each_status(status: int, is_awaited: bool) -> None:
    payload = LARGE_SIZE if status == Status.SUCCESS_LARGE else b"p"
    stages = [Stage(1, is_slow) for is_slow in (False, True)]
    for stage in stages:
        for sink in stage.sinks:
            sink.is_awaited = is_awaited
    rows = [(task, 1, status, payload, 1, 2, 3) for task in range(1, LAST_TASK + 1)]
    quick, slow = (stage.hear(rows) for stage in stages)
    assert quick == slow
