"""The contents that accompany tasks to a worker process: definitions and objects that it lacks, values of graphs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scaler_protocol.codec import TaskRun, split
from scaler_protocol.messages import FunctionDefinition, ObjectKey, Tasks
from scaler_worker.core.dispatch import DispatchTasks
from scaler_worker.core.state import AgentState
from scaler_worker.core.worker_process import WorkerProcess

DEFINITIONS_LIMIT_BYTES = 256 * 1024


class DispatchContents:
    def __init__(self, state: AgentState) -> None:
        self._functions, self._serializers = state.functions, state.serializers
        self._nodes = state.nodes

    def of(self, process: WorkerProcess, runs: list[TaskRun]) -> Iterator[DispatchTasks]:
        """``runs``, which are this worker process's now, with all that it needs for them."""
        functions = [self._functions[digest] for digest in _news(process, (run.function for run in runs))]
        named = (run.serializer for run in runs if run.serializer)
        serializers = [self._serializers[digest] for digest in _news(process, named)]
        values, large = self._nodes.values(runs) if self._nodes else ([], [])
        objects = _new_objects(process, runs, functions + serializers, large)
        first, *others = _messages(runs, functions, serializers)
        dispatch = DispatchTasks(process.number, first, objects)
        if self._nodes:
            assert process.board is not None
            dispatch.values, dispatch.watermark = values, process.board.harvested
        yield dispatch
        for tasks in others:
            yield DispatchTasks(process.number, tasks)


def _news(process: WorkerProcess, digests: Iterable[bytes]) -> list[bytes]:
    """Return those that the worker process has not seen; now it has."""
    news = [digest for digest in dict.fromkeys(digests) if digest not in process.functions]
    process.functions.update(news)
    return news


def _new_objects(
    process: WorkerProcess, runs: list[TaskRun], definitions: list[FunctionDefinition], values: list[ObjectKey]
) -> list[ObjectKey]:
    keys = [ObjectKey(each.digest, 0) for each in definitions if not each.payload]
    keys.extend(values)
    for run in runs:
        if run.has_references:
            keys.extend(run.uploads() if run.options.graph else run.references())
    news = [key for key in dict.fromkeys(keys) if key not in process.objects]
    process.objects.update(news)
    return news


def _messages(
    runs: list[TaskRun], functions: list[FunctionDefinition], serializers: list[FunctionDefinition]
) -> Iterator[Tasks]:
    """Under the message limit: definitions ride with the first runs unless they are large together."""
    if sum(len(each.payload) for each in functions) > DEFINITIONS_LIMIT_BYTES:
        for function in functions:
            yield Tasks([], [function])
        functions = []
    for group in split(runs):
        yield Tasks(group, functions, serializers)
        functions, serializers = [], []
