"""Turns submitted tasks into runs with ids: one by one, as parts of a map, or as a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import count

from scaler.core.completion import Completion
from scaler.core.definitions import Definitions
from scaler.core.graphs import GraphGroup, GraphPart
from scaler.core.open_graph import NodePart, OpenGraph
from scaler.core.outgoing import BATCH_LIMIT_BYTES, RUN_OVERHEAD_BYTES, SLOT_OVERHEAD_BYTES, Outgoing
from scaler.core.runs import AnyRange, ClosedRanges, MapPart, MapSink, Range, Shape, TaskSink
from scaler.core.scheduler_link import SchedulerLink
from scaler_protocol.codec import TaskRunBuilder
from scaler_protocol.messages import ObjectKey, TaskOptions

_FLUSHES_UNDER_WAY_LIMIT = 8
_TURN_MASK = 63
_IDLE_SECONDS = 0.05


class Submissions:
    """``submitted`` counts all tasks. ``open_runs`` is the open batch: the runs that further tasks of their shapes
    join. A closed run has ids and waits in ``outgoing``. ``graphs`` are not closed yet: the open graph, and others that
    get no more nodes. ``graph_due``: when the open graph, which is idle, is to be closed."""

    def __init__(
        self,
        session: bytes,
        connection: SchedulerLink,
        outgoing: Outgoing,
        ranges: ClosedRanges,
        definitions: Definitions,
        completion: Completion,
    ) -> None:
        self.submitted = 0
        self.open_runs: list[AnyRange] = []
        self._open_bytes = 0
        self._flush_asked = False
        self._last_batch: list[AnyRange] = []
        self._last_batch_bytes = 0
        self._map_numbers = count()
        self._graph: OpenGraph | None = None
        self.graphs: list[OpenGraph] = []
        self.graph_due: float | None = None
        self._session = session
        self._connection = connection
        self._outgoing = outgoing
        self._uploads = outgoing.uploads
        self._ranges = ranges
        self._definitions = definitions
        self._completion = completion

    # ---- single tasks ----------------------------------------------------------------------------------------------

    def add(self, shape: Shape, slots: Sequence[bytes | ObjectKey], size: int, sink: TaskSink) -> bool:
        """Submit one task. ``size``: bytes of the slots. Returns whether the submitting thread should look at the
        connection now: it is idle, the batch is full, or it is time to look for results."""
        entry = shape.open
        if entry is None:
            entry = self._open_range(shape)
        assert entry.builder is not None
        entry.builder.append(slots)
        sinks = entry.sinks
        sink.task_index = len(sinks)  # before its range: an interrupted call must not name another task
        sink.task_range = entry
        sinks.append(sink)
        entry.remaining += 1
        self.submitted += 1
        self._open_bytes += size + SLOT_OVERHEAD_BYTES
        if not self.submitted & _TURN_MASK or self._open_bytes >= BATCH_LIMIT_BYTES:
            return True
        connection = self._connection
        return connection.welcomed and connection.link.in_flight <= self._uploads.pieces_under_way

    def ask_flush(self) -> bool:
        """A thread begins to wait, so the open batch need not fill first. Returns whether a batch may leave."""
        connection = self._connection
        if not self.open_runs or not connection.welcomed or connection.messages_under_way >= _FLUSHES_UNDER_WAY_LIMIT:
            return False
        self._flush_asked = True
        return True

    def close_when_due(self) -> None:
        """Close the open batch if no message is under way, if it is full, or if a thread waits."""
        if (
            self._flush_asked
            or self._connection.link.in_flight <= self._uploads.pieces_under_way
            or self._open_bytes >= BATCH_LIMIT_BYTES
        ):
            self.close_batch()
        self._flush_asked = False

    def close_batch(self) -> None:
        """Give the tasks of the open runs their ids, run by run. Together the runs become one message, also with those
        that wait before them."""
        if not self.open_runs:
            return
        entries: list[AnyRange] = []
        for entry in self.open_runs:
            entry.shape.open = None
            part = entry.part
            if entry.remaining or (part is not None and entry.sinks):  # others may name cancelled nodes
                self._ranges.close(entry)
                entries.append(entry)
            if part is not None:
                part.note_closed(entry)
        waiting, size = self._outgoing.waiting, self._open_bytes
        joins = bool(waiting) and waiting[-1] is self._last_batch and self._last_batch_bytes + size <= BATCH_LIMIT_BYTES
        self.open_runs, self._open_bytes = [], 0
        if joins:  # a chain of nodes has one task per run
            self._last_batch_bytes += size
            self._last_batch.extend(entries)
        elif entries:
            self._last_batch, self._last_batch_bytes = entries, size
            waiting.append(entries)

    def mend(self) -> None:
        """Repair the open runs after an interruption, and close them."""
        for entry in self.open_runs:
            entry.mend()
        self.close_batch()

    def take_open_runs(self) -> list[AnyRange]:
        """Empty the open batch. The caller ends its tasks."""
        opened, self.open_runs, self._open_bytes = self.open_runs, [], 0
        for entry in opened:
            entry.shape.open = None
        self._graph = self.graph_due = None
        self.graphs.clear()
        return opened

    def _open_range(self, shape: Shape) -> AnyRange:
        entry: AnyRange
        actor = shape.options.actor
        if actor and any(each.shape.options.actor == actor for each in self.open_runs):
            self.close_batch()  # the calls of an actor keep their order, and within a batch each run has its own
        if shape.is_node:
            entry = self._node_range(shape)
        else:
            builder = shape.new_builder() if shape.new_builder is not None else self._new_builder(shape)
            entry = Range(shape, builder, None)
        self.open_runs.append(entry)
        shape.open = entry
        self._open_bytes += RUN_OVERHEAD_BYTES
        if shape.function.digest not in self._definitions.sent:
            self._open_bytes += len(shape.function.definition.payload)
        return entry

    # ---- nodes of the open graph -----------------------------------------------------------------------------------

    @property
    def current_graph(self) -> OpenGraph | None:
        """The graph whose tasks may be inputs of the next nodes, if there is one."""
        graph = self._graph
        return graph if graph is not None and graph.has_room(self._ranges.next_task) else None

    def open_graph(self) -> OpenGraph:
        """The graph of the next nodes. Its earlier tasks may be their inputs."""
        graph = self.current_graph
        if graph is None:
            self.end_graph()
            graph = self._graph = OpenGraph(self._ranges.next_task, self._outgoing)
            self.graphs.append(graph)
        return graph

    def end_graph(self) -> None:
        """No more nodes join the open graph. It is closed when it is idle."""
        self.close_batch()
        self._graph = None

    def close_graphs(self, now: float) -> None:
        """Close graphs that get no more nodes, and the open one when it has been idle for a while."""
        for graph in [each for each in self.graphs if each.is_idle]:
            if graph is self._graph and not self._is_due(now):
                continue
            graph.close()
            self.graphs.remove(graph)
            self._completion.finish_graph(graph)  # its last tasks may have been cancelled before they had ids
        if self._graph is not None and self._graph.is_closed:
            self._graph = None
        if self._graph is None or not self._graph.is_idle:
            self.graph_due = None

    def _is_due(self, now: float) -> bool:
        """Return whether the open graph has been idle for long enough."""
        if self.graph_due is None:
            self.graph_due = now + _IDLE_SECONDS
        return now >= self.graph_due

    def add_node(
        self,
        shape: Shape,
        slots: Sequence[bytes | ObjectKey],
        size: int,
        sink: TaskSink,
        inputs: Sequence[TaskSink],
    ) -> bool:
        """Like ``add``, for a node of the open graph. ``inputs``: the nodes that it names by ``id_of``."""
        must_turn = self.add(shape, slots, size, sink)
        entry = sink.task_range
        assert entry is not None
        entry.part.inputs[sink.task_index] = inputs
        return must_turn

    def id_of(self, sink: TaskSink) -> int:
        """The id that a task has, or will get because its run is the first of the open batch. Otherwise 0: it is known
        when the batch is closed."""
        entry = sink.task_range
        assert entry is not None
        if entry.first:
            return entry.first + sink.task_index
        is_next = bool(self.open_runs) and entry is self.open_runs[0]
        return self._ranges.next_task + sink.task_index if is_next else 0

    def _node_range(self, shape: Shape) -> Range[NodePart]:
        graph = self.open_graph()
        factory = shape.new_node_builder
        if shape.graph_of_nodes is not graph or factory is None:
            factory = self._builder_factory(shape, replace(shape.options, graph=graph.number, grows=True))
            shape.graph_of_nodes, shape.new_node_builder = graph, factory
        return Range(shape, factory(), NodePart(graph))

    def _new_builder(self, shape: Shape) -> TaskRunBuilder:
        """Make a run builder, and store its factory in the shape: later builders need no Python call."""
        shape.new_builder = self._builder_factory(shape, shape.options)
        return shape.new_builder()

    def _builder_factory(self, shape: Shape, options: TaskOptions) -> Callable[[], TaskRunBuilder]:
        function = shape.function
        serializer = self._definitions.serializer
        shared = (self._session, function.digest, function.name, b"" if serializer is None else serializer.digest, 0)
        factory = partial(TaskRunBuilder, *shared, shape.arity, shape.keywords)
        clock = function.clock
        if clock is None:
            return partial(factory, options)
        return lambda: factory(replace(options, submitted_at=clock()))

    # ---- maps ------------------------------------------------------------------------------------------------------

    def number_map(self) -> int:
        """The number of a new map. Needs no lock."""
        return next(self._map_numbers) % (2**32 - 1) + 1

    def open_map(self, shape: Shape, sink: MapSink, offset: int, number: int = 0) -> Range[MapPart]:
        """Make a part of the map with this number, or of one without, which monitors do not name. Fill it through its
        ``builder``, then pass it to ``close_map``. Needs no lock."""
        if not number:
            return Range(shape, self._new_builder(shape), MapPart(sink, offset))
        factory = self._builder_factory(shape, replace(shape.options, map_number=number))
        return Range(shape, factory(), MapPart(sink, offset))

    def close_map(self, entry: Range[MapPart]) -> None:
        assert entry.builder is not None
        count = entry.builder.count
        entry.states = bytearray(count)
        entry.remaining = count
        self.submitted += count
        self.close_batch()
        self._ranges.close(entry)
        self._outgoing.waiting.append([entry])

    # ---- graphs ----------------------------------------------------------------------------------------------------

    def open_graph_range(self, shape: Shape, group: GraphGroup) -> Range[GraphPart]:
        """Make a range for the next tasks of a graph. Fill it through its ``builder``. Needs no lock."""
        entry = Range(shape, self._new_builder(shape), GraphPart(group))
        group.ranges.append(entry)
        return entry

    def next_task(self) -> int:
        """The first id of the next graph, if nothing else is submitted before it."""
        self.close_batch()
        return self._ranges.next_task

    def skip_task(self) -> None:
        """Leave out the next id, which no task will get."""
        self._ranges.next_task += 1

    def add_graph(self, group: GraphGroup) -> bool:
        """Submit a graph whose tasks were built for its ids. False: other tasks have taken ids meanwhile."""
        if self.next_task() != group.first:
            return False
        batch: list[AnyRange] = []
        size = 0
        for entry in group.ranges:
            self._ranges.close(entry)
            self.submitted += entry.count
            added = self._message_bytes(entry)
            if batch and size + added > BATCH_LIMIT_BYTES:
                self._outgoing.waiting.append(batch)
                batch, size = [], 0
            batch.append(entry)
            size += added
        if batch:
            self._outgoing.waiting.append(batch)
        return True

    def _message_bytes(self, entry: AnyRange) -> int:
        """Return the most bytes that a range takes in its message."""
        shape = entry.shape
        assert entry.run is not None
        size = RUN_OVERHEAD_BYTES + entry.run.payload_bytes + entry.count * SLOT_OVERHEAD_BYTES
        if shape.function.digest not in self._definitions.sent:
            size += len(shape.function.definition.payload)
        return size

    def check(self) -> None:
        for entry in self.open_runs:
            assert entry.shape.open is entry and entry.first == 0
