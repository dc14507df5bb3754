"""Graphs of calls on their way to the scheduler, and the futures of their targets."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from array import array
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from scaler.client.client_pool import ClientParts
from scaler.client.fetching_ahead import FetchingAhead
from scaler.client.future import FutureInArgument, ScalerFuture
from scaler.client.object_reference import ObjectReference
from scaler.client.outcomes import failure_of, loads_result
from scaler.client.shims import call_with_packs, pack
from scaler.core.graphs import GraphGroup, GraphPart, fill
from scaler.core.outcome import Outcome
from scaler.core.outgoing import BATCH_LIMIT_BYTES
from scaler.core.runs import Function, Range, Shape
from scaler.core.uploads import Upload
from scaler.graph import Analyse, CallGraph, analyse, group_calls, split_wide
from scaler.utility.exceptions import MissingObjects, ScalerError
from scaler.utility.private_apis import FINISHED, RUNNING
from scaler_protocol.messages import INLINE_LIMIT_BYTES, Status, TaskOptions

if TYPE_CHECKING:
    from scaler.core.session import Session
    from scaler.shell.client_io import ClientIO

_SHARED_INLINE_LIMIT_BYTES = 4096
_CROWDED_INLINE_LIMIT_BYTES = 64
SLOTS_LIMIT = 8192
_RUN_TASKS_LIMIT = 8192
_NUMBER_MASK = 2**32 - 1
_DATA_OUTCOME = Outcome(Status.SUCCESS, b"")


LOADED_FROM_CALLS = 50_000
LOADING_FROM_CALLS = 1_000_000
"""The numbers of calls from which python-graphblas is faster: if it is loaded already, and if it must be loaded first,
which takes half a second and more. Measured on graphs of 20 levels; deep graphs gain nothing at any size. See
docs/graphs.md."""


def analysis_for(calls: int) -> Analyse:
    """The fastest installed way to analyse a graph of ``calls`` calls."""
    if calls < (LOADED_FROM_CALLS if "graphblas" in sys.modules else LOADING_FROM_CALLS):
        return analyse
    if importlib.util.find_spec("graphblas") is None:
        return analyse
    from scaler.integrations import graphblas

    return graphblas.analyse


def values_of(
    parts: ClientParts,
    options: TaskOptions,
    graph: CallGraph,
    block: bool,
) -> list[Any]:
    """One result, or future, per target. ``options`` are those of all calls."""
    call = GraphCall(parts, options, graph)
    futures: list[ScalerFuture[Any]] = []
    try:
        futures = call.start()
        return results_of(futures) if block else list(futures)
    except BaseException:
        call.cancel()
        raise
    finally:
        del call, futures


def results_of(futures: Sequence[Future[Any]]) -> list[Any]:
    """The results of all futures. An exception must not refer to the futures through this frame, because what they hold
    would stay until a garbage collection."""
    results = []
    future = None
    ahead = FetchingAhead(futures)
    try:
        for place, future in enumerate(futures):
            ahead.reach(place)
            results.append(future.result())
        return results
    finally:
        del future, futures, ahead


class FutureInData(FutureInArgument):
    """Data of the graph contains futures. Nothing was sent: its calls can be submitted one by one."""


class GraphFuture(ScalerFuture[Any]):
    """The future of one target. All targets of a graph are cancelled together, and fail with one exception."""

    def __init__(self, client_io: ClientIO, group: GraphGroup, failures: dict[int, BaseException]) -> None:
        super().__init__(client_io)
        self._group = group
        self._failures = failures

    def cancel(self, running: bool = True) -> bool:
        """Cancel the whole graph. Returns True at once unless it has finished. ``running=False`` cancels nothing: a
        graph counts as started."""
        client_io = self._client_io
        if not running:
            return self.cancelled()
        if self._state is RUNNING and not client_io.unusable:
            if client_io.defers(self.cancel):
                return True
            client_io.take_turn(lambda session: session.endings.cancel_graph(self._group), must_be_usable=False)
        return self._state is not RUNNING and self._state is not FINISHED

    def _failure(self, outcome: Outcome) -> BaseException:
        return self._failures.setdefault(0, failure_of(outcome))


def finished_future(client_io: ClientIO, value: Any) -> ScalerFuture[Any]:
    """The future of a target that is data."""
    future: ScalerFuture[Any] = ScalerFuture(client_io)
    future._result, future._outcome = value, _DATA_OUTCOME
    future._loaded, future._state = True, FINISHED
    return future


class GraphCall:
    """One graph on its way to the scheduler."""

    def __init__(self, parts: ClientParts, options: TaskOptions, graph: CallGraph) -> None:
        self._arguments = parts.arguments
        self._book = parts.functions
        self._client_io = parts.client_io
        self._graph = split_wide(graph, SLOTS_LIMIT, pack, call_with_packs)
        self._options = options
        self._groups, self._shapes = group_calls(self._graph, self._functions())
        self._analysis = analysis_for(len(self._graph))(self._graph, self._groups)
        self._failures: dict[int, BaseException] = {}
        self._group: GraphGroup | None = None
        self._futures: dict[int, GraphFuture] = {}
        self._slots: list[bytes | Upload] = []
        self._held: list[Upload] = []

    # ---- the application's side ------------------------------------------------------------------------------------

    def start(self) -> list[ScalerFuture[Any]]:
        """Send the graph. One future per target."""
        data = [self._datum(target) if target < 0 else None for target in self._graph.targets]
        if len(self._graph):
            try:
                self._slots = self._encoded_data()
                self._send()
            finally:
                self._let_go()
        return [
            self._futures[target] if target >= 0 else finished_future(self._client_io, value)
            for target, value in zip(self._graph.targets, data, strict=True)
        ]

    def cancel(self) -> None:
        """Cancel the calls of the graph that have not ended."""
        group = self._group
        if group is not None:
            self._client_io.take_turn_shielded(lambda session: session.endings.cancel_graph(group))

    # ---- data ------------------------------------------------------------------------------------------------------

    def _datum(self, target: int) -> Any:
        value = self._graph.data[~target]
        if not isinstance(value, ObjectReference):
            return value
        with self._client_io.lock:
            upload = self._arguments.upload_of(value)
        content = upload.content()
        if content is None:
            raise MissingObjects(f"{value!r} is lost: its store has died.")
        return loads_result(self._client_io.loads_object, content)

    def _encoded_data(self) -> list[bytes | Upload]:
        """A slot for each datum that calls use."""
        graph = self._graph
        used = {~slot for slot in set(graph.slots) if slot < 0}
        if len(used) == len(graph.data):
            slots: list[bytes | Upload] = self._encode(graph.data)
        else:
            slots = [b""] * len(graph.data)
            for index in used:
                slots[index] = self._encode((graph.data[index],))[0]
        self._hold([slot for slot in slots if isinstance(slot, Upload)])
        self._upload_large(slots)
        self._relieve_crowded(slots)
        return slots

    def _encode(self, data: Sequence[Any]) -> list[Any]:
        try:
            return self._arguments.encode(data)
        except ScalerError:
            raise
        except Exception as error:
            raise self._unsendable(error) from None

    def _unsendable(self, error: Exception) -> Exception:
        """The exception for data that cannot be sent. It names a node that uses the data."""
        graph = self._graph
        for call in range(len(graph)):
            values = [graph.data[~slot] if slot < 0 else None for slot in graph.arguments(call)]
            if any(self._arguments.error_of(value) is not None for value in values):
                failure = self._arguments.explain(error, graph.functions[call], values, graph.keywords.get(call, ()))
                failure.add_note(f"Raised by an argument of node {graph.names[call]!r} of the graph.")
                return FutureInData() if isinstance(failure, FutureInArgument) else failure
        return error

    def _upload_large(self, slots: list[bytes | Upload]) -> None:
        """Upload data that is large, or that is not small and is used several times."""
        large = {~index for index, slot in enumerate(slots) if len(slot) > _SHARED_INLINE_LIMIT_BYTES}
        if not large:
            return
        uses: dict[int, int] = {}
        for slot in self._graph.slots:
            if slot in large:
                uses[slot] = uses.get(slot, 0) + 1
        for slot, count in uses.items():
            if count > 1 or len(slots[~slot]) > INLINE_LIMIT_BYTES:
                self._upload(slots, ~slot)

    def _relieve_crowded(self, slots: list[bytes | Upload]) -> None:
        """Upload all but tiny data of calls that have very much data."""
        longest = max((len(slot) for slot in slots if not isinstance(slot, Upload)), default=0)
        widest = max(shape.arity for shape in self._shapes)
        if longest * widest <= BATCH_LIMIT_BYTES:
            return
        for call in range(len(self._graph)):
            data = [~slot for slot in self._graph.arguments(call) if slot < 0]
            if sum(len(slots[index]) for index in data if not isinstance(slots[index], Upload)) > BATCH_LIMIT_BYTES:
                for index in data:
                    if len(slots[index]) > _CROWDED_INLINE_LIMIT_BYTES:
                        self._upload(slots, index)

    def _upload(self, slots: list[bytes | Upload], index: int) -> None:
        payload = slots[index]
        if isinstance(payload, Upload):
            return
        self._client_io.check_usable()
        slots[index] = self._arguments.upload_once(payload, self._held)

    def _hold(self, uploads: Sequence[Upload]) -> None:
        """Keep the uploads until the tasks that use them are submitted."""
        with self._client_io.lock:
            for upload in uploads:
                if not self._client_io.session.objects.owns(upload):
                    raise MissingObjects("An object of the graph was cleared.")
                upload.uses += 1
                self._held.append(upload)

    def _let_go(self) -> None:
        self._arguments.let_go(self._held)
        self._held.clear()

    # ---- functions ------------------------------------------------------------------------------------------------

    def _functions(self) -> list[Function]:
        """Return the functions by call. Each function object is serialized once per graph. Each function object is
        serialized once per graph."""
        functions = self._graph.functions
        distinct = dict(zip(map(id, functions), functions, strict=True))
        found = {identity: self._book.find(function) for identity, function in distinct.items()}
        return [found[identity] for identity in map(id, functions)]

    def _run_shapes(self, number: int) -> list[Shape]:
        wanted = dataclasses.replace(self._options, graph=number)
        unwanted = dataclasses.replace(wanted, intermediate=True)
        return [
            Shape(shape.kind, shape.arity, shape.keywords, wanted if shape.is_target else unwanted)
            for shape in self._shapes
        ]

    # ---- sending ---------------------------------------------------------------------------------------------------

    def _send(self) -> None:
        """The tasks are numbered before they are built, without the lock. When another thread submitted meanwhile, they
        are built once more, with it."""
        client_io = self._client_io
        with client_io.lock:
            client_io.check_usable()
            first = self._first_task()
        built = self._build(first)

        def add(session: Session) -> None:
            group, references = built
            if not session.submissions.add_graph(group):
                group, references = self._build(self._first_task())
                session.submissions.add_graph(group)
            for entry, index, uploads in references:
                session.objects.refer(entry, index, uploads)

        client_io.take_turn(add)

    def _first_task(self) -> int:
        """The number of a graph is the low 32 bits of its last id; 0 is reserved for tasks outside graphs."""
        submissions = self._client_io.session.submissions
        first = submissions.next_task()
        if not (first + len(self._analysis.order) - 1) & _NUMBER_MASK:
            submissions.skip_task()
            first += 1
        return first

    def _build(self, first: int) -> tuple[GraphGroup, list[tuple[Range[GraphPart], int, list[Upload]]]]:
        order = self._analysis.order
        self._group = group = GraphGroup(first, first + len(order) - 1)
        self._futures = {
            target: GraphFuture(self._client_io, group, self._failures) for target in self._graph.targets if target >= 0
        }
        filler = _Filler(self._graph, self._slots, order, group)
        open_range = self._client_io.session.submissions.open_graph_range
        shapes = self._run_shapes(group.last & _NUMBER_MASK)
        for number, members in groupby(order, self._groups.__getitem__):
            filler.fill(array("q", members), partial(open_range, shapes[number], group))
        for entry, calls in filler.filled:
            self._close(entry, calls)
        return group, filler.references()

    def _close(self, entry: Range[GraphPart], calls: Sequence[int]) -> None:
        if entry.shape.options.intermediate:
            fill(entry, (), ())
        else:
            heights = self._analysis.heights
            fill(entry, [self._futures[call] for call in calls], [heights[call] > 0 for call in calls])


class _Filler:
    """Fills the ranges of a group with tasks."""

    def __init__(
        self, graph: CallGraph, data: Sequence[bytes | Upload], order: Sequence[int], group: GraphGroup
    ) -> None:
        self._graph = graph
        self._data = [slot.key if isinstance(slot, Upload) else slot for slot in data]
        self._uploads = {~index: slot for index, slot in enumerate(data) if isinstance(slot, Upload)}
        self._tasks = array("q", bytes(8 * len(graph)))
        for task, call in enumerate(order, group.first):
            self._tasks[call] = task
        self.filled: list[tuple[Range[GraphPart], array[int]]] = []

    def fill(self, calls: array[int], open_range: Callable[[], Range[GraphPart]]) -> None:
        """``calls`` share a shape. There are as many ranges as messages must hold them."""
        graph = self._graph
        while calls:
            entry = open_range()
            assert entry.builder is not None
            joined = entry.builder.append_nodes(
                calls[:_RUN_TASKS_LIMIT], graph.ends, graph.slots, self._tasks, self._data, BATCH_LIMIT_BYTES
            )
            self.filled.append((entry, calls[:joined]))
            calls = calls[joined:]

    def references(self) -> list[tuple[Range[GraphPart], int, list[Upload]]]:
        """Return which tasks use which uploads."""
        found: list[tuple[Range[GraphPart], int, list[Upload]]] = []
        if not self._uploads:
            return found
        for entry, calls in self.filled:
            for index, call in enumerate(calls):
                uploads = [self._uploads[slot] for slot in self._graph.arguments(call) if slot in self._uploads]
                if uploads:
                    found.append((entry, index, uploads))
        return found
