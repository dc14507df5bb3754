"""The end of a client's tasks: by their results, by a cancel, with their graph, or all at once."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from scaler.core.completion import Completion
from scaler.core.effects import Finish
from scaler.core.graphs import GraphGroup, GraphPart, end_tasks
from scaler.core.kept_objects import KeptObjects
from scaler.core.large_results import LargeResults
from scaler.core.open_graph import DependentSink, NodePart
from scaler.core.operator_cancels import OperatorCancels
from scaler.core.outcome import CANCELLED, Outcome
from scaler.core.outgoing import Outgoing
from scaler.core.runs import AnyRange, ClosedRanges, MapPart, Range
from scaler_protocol.messages import ObjectKey, Results, Status

if TYPE_CHECKING:
    from scaler_protocol.codec import ResultRun

_SMALL = int(Status.SUCCESS)
_LARGE = int(Status.SUCCESS_LARGE)
_WITHOUT_INPUT = (Status.CANCELLED, Status.OBJECT_MISSING)
_new_tuple = tuple.__new__
"""Makes an Outcome without the Python call that its constructor is."""


class TaskEndings:
    """Passes the outcomes of tasks to their sinks."""

    def __init__(
        self,
        session: bytes,
        ranges: ClosedRanges,
        outgoing: Outgoing,
        objects: KeptObjects,
        large: LargeResults,
        completion: Completion,
        operator_cancels: OperatorCancels,
    ) -> None:
        self._session = session
        self._ranges = ranges
        self._outgoing = outgoing
        self._objects = objects
        self._large = large
        self._completion = completion
        self._operator_cancels = operator_cancels
        self._unexplained: list[tuple[Range[NodePart], int, Outcome]] = []

    def cancel(self, entry: AnyRange, index: int) -> bool:
        """End a task. Returns False if it had ended before; otherwise the caller passes the outcome to its sink."""
        if not entry.is_unsettled(index):
            return False
        if isinstance(entry.part, NodePart):
            entry.part.note_ended(index, CANCELLED)
        entry.settle_silently(index)
        if entry.left:
            self._outgoing.cancels.append(entry.first + index)
        self._completion.finish(entry, index)
        return True

    def cancel_map(self, entries: Sequence[Range[MapPart]]) -> None:
        """Cancel the unfinished tasks of a map. Parts that were never closed only release their objects."""
        for entry in entries:
            for index in range(entry.count):
                self.cancel(entry, index)
                if index in entry.large:
                    self._large.release(entry, index)
            for index in list(entry.references):
                self._objects.unrefer(entry, index)

    def cancel_graph(self, group: GraphGroup) -> bool:
        """End a graph. Returns False if all its targets had ended before. The sinks get their outcomes here."""
        if not group.waiting:
            return False
        self._end_graph(group, CANCELLED)
        return True

    def on_results(self, results: Results, now: float) -> None:
        for run in results.runs:
            if run.session == self._session and run.count:
                entry = self._ranges.get(run.task(0))
                if entry is not None and entry.part is None:
                    self._take_rows(run)
                else:
                    self._take_run(run)
        if self._unexplained:
            self._explain_late()
        if self._operator_cancels and not self._ranges:
            self._operator_cancels.clear()

    def _take_run(self, run: ResultRun) -> None:
        """Take results of maps that all succeeded as they are, range by range, and all others row by row."""
        start = 0
        while start < run.count:
            entry = self._ranges.find(run.task(start))
            if entry is None or not isinstance(entry.part, MapPart):
                self._take_rows(_part(run, start, run.count) if start else run)
                return
            stop = max(start + 1, bisect_left(run.task_column, entry.first + entry.count, start))
            part = _part(run, start, stop)
            ended = part.mark(entry.first, entry.states)
            if ended:
                self._take_map_run(entry, part, ended)
            else:
                self._take_rows(part)
            start = stop

    def _take_map_run(self, entry: Range[MapPart], run: ResultRun, ended: int) -> None:
        part = entry.part
        if not part.sink.take_run(entry.first - part.offset, run):
            self._outgoing.effects.append(Finish(part.sink, CANCELLED))
        entry.remaining -= ended
        for index in list(entry.references):
            if entry.states[index]:
                self._objects.unrefer(entry, index)
        if not entry.remaining:
            self._ranges.pop(entry.first, None)

    def _take_rows(self, run: ResultRun) -> None:
        """Take results row by row. The usual result of ``submit``, a small one whose task used no object, is handled
        inline for speed, and so is that of a node; the effect equals that of ``_take_outcome``."""
        ranges = self._ranges
        first, stop, is_usual = 1, 0, False
        entry: AnyRange | None = None
        nodes: NodePart | None = None
        for task, status, payload, duration_us, cpu_time_us, memory_peak in run.copied_rows():
            if not first <= task < stop:
                entry = ranges.get(task) or ranges.find(task)
                if entry is None:
                    first, stop = 1, 0
                    if status == _LARGE:  # of a graph that ended meanwhile
                        self._outgoing.releases.append(ObjectKey(self._session, task))
                    continue
                first, stop = entry.first, entry.first + entry.count
                part = entry.part
                nodes = part if type(part) is NodePart else None
                is_usual = (part is None or nodes is not None) and not (entry.references or self._operator_cancels)
            assert entry is not None
            outcome = _new_tuple(Outcome, (status, payload, duration_us, cpu_time_us, memory_peak))
            is_simple = is_usual and (status == _SMALL if nodes is not None else status != _LARGE)
            sink = entry.sinks[task - first] if is_simple else None
            if sink is None:
                self._take_outcome(entry, task - first, outcome)
                continue
            if not sink.settle(outcome):
                self._outgoing.effects.append(Finish(sink, outcome))
            if nodes is not None:
                nodes.end_with_value(entry, task - first)
                if not nodes.group.waiting:
                    self._completion.finish(entry, task - first)
                continue
            entry.sinks[task - first] = None
            entry.remaining -= 1
            if not entry.remaining:
                ranges.pop(first, None)

    def _take_outcome(self, entry: AnyRange, index: int, outcome: Outcome) -> None:
        if self._operator_cancels:
            outcome = self._operator_cancels.explained(entry.first + index, outcome)
        if isinstance(entry.part, GraphPart) and self._ends_graph(entry, index, outcome):
            return
        if isinstance(entry.part, NodePart):
            known = self._node_outcome(entry, index, outcome)
            if known is None:
                return
            outcome = known
        if not entry.is_unsettled(index):
            if index in entry.large:
                self._large.replace(entry, index, outcome)
            elif outcome.status == Status.SUCCESS_LARGE:
                self._outgoing.releases.append(ObjectKey(self._session, entry.first + index))  # it is here already
            return
        self._settle(entry, index, outcome)

    def _settle(self, entry: AnyRange, index: int, outcome: Outcome) -> None:
        if isinstance(entry.part, NodePart):
            entry.part.note_ended(index, outcome)
        sink = entry.settle_silently(index)
        if outcome.status == Status.SUCCESS_LARGE:
            outcome = self._large.keep(entry, index, outcome)
        else:
            self._completion.finish(entry, index)
        if sink is not None:
            if not sink.settle(outcome):
                self._outgoing.effects.append(Finish(sink, outcome))
        elif isinstance(entry.part, MapPart) and not entry.part.sink.take_outcome(entry.part.offset + index, outcome):
            self._outgoing.effects.append(Finish(entry.part.sink, outcome))

    # ---- nodes of the open graph ---------------------------------------------------------------------------------

    def _node_outcome(
        self, entry: Range[NodePart], index: int, outcome: Outcome, is_late: bool = False
    ) -> Outcome | None:
        """The outcome of a node. The scheduler cancels a node when an input does not succeed: it ends like that input.
        None: it is decided when the results that arrive together have been taken."""
        if not entry.is_unsettled(index):
            return outcome
        if outcome.status in _WITHOUT_INPUT and index in entry.part.inputs:
            culprit = entry.part.culprit(index)
            if culprit is not None:
                cast(DependentSink, entry.sinks[index]).blame(culprit[0])
                return culprit[1]
            if not is_late:
                self._unexplained.append((entry, index, outcome))
                return None
        return outcome

    def _explain_late(self) -> None:
        """Nodes whose input failed in the same message, but behind them. An input may itself be such a node."""
        unexplained, self._unexplained = self._unexplained, []
        for entry, index, outcome in sorted(unexplained, key=lambda each: each[0].first + each[1]):
            known = self._node_outcome(entry, index, outcome, is_late=True)
            if known is not None and entry.is_unsettled(index):
                self._settle(entry, index, known)

    # ---- graphs ------------------------------------------------------------------------------------------------

    def _ends_graph(self, entry: Range[GraphPart], index: int, outcome: Outcome) -> bool:
        """A task that failed ends its whole graph. Returns whether the outcome needs no further handling."""
        if outcome.status in (Status.SUCCESS, Status.SUCCESS_LARGE):
            return not entry.sinks
        if not entry.part.group.waiting:
            return index not in entry.large
        self._end_graph(entry.part.group, outcome, entry.first + index)
        return True

    def _end_graph(self, group: GraphGroup, outcome: Outcome, failed: int = 0) -> None:
        ranges, group.ranges = group.ranges, []
        for entry in ranges:
            for index in end_tasks(entry):
                task = entry.first + index
                if entry.left and task != failed:
                    self._outgoing.cancels.append(task)
                sink = entry.part.take_sink(entry, index)
                if sink is not None:
                    self._outgoing.tell(sink, outcome)
            self._completion.drop_graph_range(entry)

    # ---- everything ----------------------------------------------------------------------------------------------

    def end_all(self, opened: Sequence[AnyRange], outcome: Outcome) -> None:
        """End every task, including those of ``opened`` ranges."""
        for entry in opened:
            self._end_range(entry, len(entry.sinks), outcome)
        for closed in self._ranges.values():
            self._end_range(closed, closed.count, outcome)
        self._ranges.clear()
        self._large.end_all(outcome)

    def _end_range(self, entry: AnyRange, count: int, outcome: Outcome) -> None:
        for index in range(count):
            if entry.is_unsettled(index):
                sink = entry.settle_silently(index)
                if sink is not None:
                    self._outgoing.tell(sink, outcome)
        if isinstance(entry.part, MapPart) and not entry.part.sink.settle(outcome):
            self._outgoing.effects.append(Finish(entry.part.sink, outcome))
        entry.remaining = 0
        entry.references.clear()
        entry.large.clear()
        if isinstance(entry.part, NodePart):
            entry.part.values.clear()

    def check(self) -> None:
        for entry in self._ranges.values():
            unfinished = len(entry.unfinished())
            assert entry.remaining == unfinished, (entry.first, entry.remaining, unfinished)
            assert unfinished or isinstance(entry.part, (GraphPart, NodePart)), entry.first
            assert entry.run is not None and entry.run.first_task == entry.first
            assert all(not entry.is_unsettled(index) for index in entry.large)


def _part(run: ResultRun, start: int, stop: int) -> ResultRun:
    return run if stop - start == run.count else run.slice(start, stop)
