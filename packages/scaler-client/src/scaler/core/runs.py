"""Functions, the shapes of the calls made to them, and the ranges of tasks that this client has submitted.

A range is one run on the wire: consecutive task ids that share one shape. It keeps its run until its last task has
ended, so that unfinished tasks can be stated again to a scheduler that has restarted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from scaler.core.outcome import Outcome, Sink
from scaler_protocol.ids import digest
from scaler_protocol.messages import INLINE_LIMIT_BYTES, FunctionDefinition, TaskOptions

if TYPE_CHECKING:
    from scaler.core.uploads import Upload
    from scaler_protocol.codec import ResultRun, TaskRun, TaskRunBuilder

_GAPS_LIMIT = 64


class Function:
    """A serialized function, or a serializer, which names the ``environment`` of its tasks. ``payload`` is kept as long
    as a task may have to be stated again. ``usual_shapes`` has the shapes with the client's own options, by number of
    arguments, or by that number and the keyword names. ``is_input``: results of this function have been arguments of
    other tasks, so that its next tasks become nodes of the open graph. ``clock``: gives the times of submission in
    seconds since 1970, which its tasks state; None: they state none."""

    __slots__ = ("digest", "name", "payload", "definition", "shapes", "usual_shapes", "is_input", "clock")

    def __init__(
        self,
        name: str,
        payload: bytes,
        environment: str = "",
        module: str = "",
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.digest = digest(payload)
        self.name = name
        self.payload = payload
        inline = payload if len(payload) <= INLINE_LIMIT_BYTES else b""
        self.definition = FunctionDefinition(self.digest, name, inline, len(payload), environment, module)
        self.shapes: dict[object, Shape] = {}
        self.usual_shapes: dict[object, Shape] = {}
        self.is_input = False
        self.clock = clock

    @property
    def is_large(self) -> bool:
        return len(self.payload) > INLINE_LIMIT_BYTES


class Shape:
    """The data that the tasks of one run share. ``open`` is the run that is being collected, if any. ``new_builder``
    makes an empty builder; the session sets it when it first needs one. ``is_node``: whether the tasks become nodes of
    the open graph; None: if their function says so. ``new_node_builder`` makes builders for nodes of
    ``graph_of_nodes``. ``may_be_node``: not an actor or a call of one."""

    __slots__ = (
        "function",
        "arity",
        "keywords",
        "options",
        "open",
        "new_builder",
        "new_node_builder",
        "graph_of_nodes",
        "may_be_node",
        "_is_node",
        "_variants",
    )

    def __init__(
        self,
        function: Function,
        arity: int,
        keywords: tuple[str, ...],
        options: TaskOptions,
        is_node: bool | None = None,
    ) -> None:
        self.function = function
        self.arity = arity
        self.keywords = keywords
        self.options = options
        self.open: AnyRange | None = None
        self.new_builder: Callable[[], TaskRunBuilder] | None = None
        self.new_node_builder: Callable[[], TaskRunBuilder] | None = None
        self.graph_of_nodes: object = None
        self.may_be_node = not options.hosts_actor and not options.actor  # these keep their own order
        self._is_node = is_node if self.may_be_node else False
        self._variants: dict[bool, Shape] = {}

    @property
    def is_node(self) -> bool:
        return self.function.is_input if self._is_node is None else self._is_node

    def variant(self, is_node: bool) -> Shape:
        """The shape of the same calls as nodes of the open graph, or outside of it."""
        found = self._variants.get(is_node)
        if found is None:
            shape = Shape(self.function, self.arity, self.keywords, self.options, is_node)
            found = self._variants[is_node] = shape
        return found


class RangePart(Protocol):
    """The part of a range that only tasks of a map or a graph have."""

    def settle_silently(self, entry: AnyRange, index: int) -> Sink | None:
        """Do what ``Range.settle_silently`` does."""

    def unfinished(self, entry: AnyRange) -> list[int]:
        """Return what ``Range.unfinished`` returns."""


Part = TypeVar("Part", bound=RangePart | None)


class Range(Generic[Part]):
    """``first`` is 0 until the range is closed and its tasks have ids. ``large`` has the tasks that succeeded with a
    result that is still at its agent; they count as unfinished until the result is fetched or dropped. ``left``: the
    range has been sent. ``sinks`` has one sink per task unless the tasks share one; None means that the task has
    ended. ``states`` has one byte per task, 0 for one that has not ended; it is empty where ``sinks`` says that.
    ``part`` is what the tasks have in addition if they belong to a map or a graph; None: they were submitted one by
    one, outside of graphs."""

    __slots__ = (
        "shape",
        "first",
        "count",
        "remaining",
        "builder",
        "run",
        "references",
        "large",
        "left",
        "sinks",
        "states",
        "part",
    )

    def __init__(self, shape: Shape, builder: TaskRunBuilder, part: Part) -> None:
        self.shape = shape
        self.first = 0
        self.count = 0
        self.remaining = 0
        self.builder: TaskRunBuilder | None = builder
        self.run: TaskRun | None = None
        self.references: dict[int, list[Upload]] = {}
        self.large: dict[int, Outcome] = {}
        self.left = False
        self.sinks: list[Sink | None] = []
        self.states = bytearray()
        self.part = part

    def mend(self) -> None:
        """Repair the range after an interruption while a task was added: give every task a place in ``sinks``, because
        otherwise all later tasks would get the results of their neighbours."""
        if self.builder is not None:
            self.sinks.extend([None] * (self.builder.count - len(self.sinks)))
            self.remaining = sum(sink is not None for sink in self.sinks)

    def is_unsettled(self, index: int) -> bool:
        return not self.states[index] if self.states else self.sinks[index] is not None

    def settle_silently(self, index: int) -> Sink | None:
        """Mark the task as finished. Returns its sink, if it has one of its own."""
        return self.take_sink(index) if self.part is None else self.part.settle_silently(self, index)

    def take_sink(self, index: int) -> Sink | None:
        sink = self.sinks[index]
        self.sinks[index] = None
        return sink

    def unfinished(self) -> list[int]:
        """Return the indices of the tasks that must be stated again to a restarted scheduler."""
        if self.part is not None:
            return self.part.unfinished(self)
        return [index for index, sink in enumerate(self.sinks) if sink is not None or index in self.large]

    def unfinished_segments(self) -> Iterator[tuple[int, int]]:
        """Return the unfinished tasks as pairs (start, stop) of indices."""
        start = stop = -1
        for index in self.unfinished():
            if index != stop:
                if start >= 0:
                    yield start, stop
                start = index
            stop = index + 1
        if start >= 0:
            yield start, stop


AnyRange: TypeAlias = "Range[Any]"


class TaskSink(Sink, Protocol):
    """Receives the outcome of one task. The session records in ``task_range`` and ``task_index`` which task it is."""

    task_range: AnyRange | None
    task_index: int


class MapSink(Sink, Protocol):
    """Receives the results of a whole map. As with ``settle``, False means that ``finish`` must be called."""

    def take_run(self, first: int, run: ResultRun) -> bool:
        """Receive results of one part of the map. ``first``: the id of the first task of the map, if its parts had
        consecutive ids."""

    def take_outcome(self, place: int, outcome: Outcome) -> bool:
        """Receive the outcome of one task, by its place in the map."""


class MapPart:
    """A part of a map, whose tasks share one sink. ``offset`` is the position of the first task in the map."""

    __slots__ = ("sink", "offset")

    def __init__(self, sink: MapSink, offset: int) -> None:
        self.sink = sink
        self.offset = offset

    def settle_silently(self, entry: AnyRange, index: int) -> None:
        entry.states[index] = 1

    def unfinished(self, entry: AnyRange) -> list[int]:
        return [index for index, state in enumerate(entry.states) if not state or index in entry.large]


class ClosedRanges(dict[int, AnyRange]):
    """The ranges whose tasks have ids, by their first id. Ids only grow, so the range of a task is found by
    bisection."""

    def __init__(self) -> None:
        super().__init__()
        self.next_task = 1
        self._firsts: list[int] = []

    def close(self, entry: AnyRange) -> None:
        """Give the tasks of ``entry`` the next ids. An interrupted call changes everything or nothing and may be
        repeated, because no function call separates assignments that belong together."""
        builder = entry.builder
        if builder is not None:
            builder.first_task = self.next_task
            run = builder.build()
            entry.run = run
            entry.first = self.next_task
            entry.count = builder.count
            entry.builder = None
        self.next_task = entry.first + entry.count
        self[entry.first] = entry
        if not self._firsts or self._firsts[-1] != entry.first:
            self._firsts.append(entry.first)
        if len(self._firsts) > 2 * len(self) + _GAPS_LIMIT:
            self._firsts = list(self)

    def find(self, task: int) -> AnyRange | None:
        """Return the unfinished range that contains the task, or None."""
        position = bisect_right(self._firsts, task) - 1
        entry = self.get(self._firsts[position]) if position >= 0 else None
        return entry if entry is not None and task < entry.first + entry.count else None

    def clear(self) -> None:
        super().clear()
        self._firsts.clear()
