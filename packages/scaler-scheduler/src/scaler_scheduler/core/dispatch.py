"""Turns the tasks that an agent was given into messages: merged, with the functions that it lacks, under the limit."""

from __future__ import annotations

from collections.abc import Iterator

from scaler_protocol.codec import TaskRun
from scaler_protocol.messages import MESSAGE_LIMIT_BYTES, FunctionDefinition, TaskColumn, Tasks
from scaler_scheduler.core.agents import Agent

_LIMIT_BYTES = MESSAGE_LIMIT_BYTES * 9 // 10
_RUN_BYTES = 256
_TASK_BYTES = 8
_DEFINITION_BYTES = 128
CANCELS_PER_MESSAGE = 50_000
_COLUMN_COST = 10
"""The cost of a column, in tasks."""


def task_messages(
    agent: Agent, functions: dict[bytes, FunctionDefinition], serializers: dict[bytes, FunctionDefinition]
) -> list[Tasks]:
    """Empty the agent's outbox. Functions and serializers travel with the first batch that needs them at this agent."""
    messages: list[Tasks] = []
    size = _LIMIT_BYTES
    known = agent.known
    for run in agent.outbox:
        function = None if run.function in known else _unseen(agent, run.function, functions)
        serializer = _unseen(agent, run.serializer, serializers) if run.serializer else None
        cost = _cost(run, function) + (len(serializer.payload) if serializer is not None else 0)
        if size + cost > _LIMIT_BYTES:
            message = Tasks([])
            messages.append(message)
            size = 0
        size += cost
        message.runs.append(run)
        if function is not None:
            message.functions.append(function)
        if serializer is not None:
            message.serializers.append(serializer)
    agent.outbox = []
    return messages


def _cost(run: TaskRun, function: FunctionDefinition | None) -> int:
    cost = run.payload_bytes + _RUN_BYTES + run.names_bytes + run.count * (run.arity + 1) * _TASK_BYTES
    return cost if function is None else cost + len(function.payload) + _DEFINITION_BYTES


def _unseen(agent: Agent, digest: bytes, definitions: dict[bytes, FunctionDefinition]) -> FunctionDefinition | None:
    if digest in agent.known:
        return None
    definition = definitions.get(digest)
    if definition is not None:
        agent.known.add(digest)
    return definition


def in_messages(cancels: dict[bytes, tuple[list[int], list[int]]]) -> Iterator[tuple[TaskColumn, ...]]:
    """Tasks and attempts by session, as columns that each fit a message."""
    columns: list[TaskColumn] = []
    room = CANCELS_PER_MESSAGE
    for session, (tasks, attempts) in cancels.items():
        start = 0
        while start < len(tasks):
            if room <= 0:
                yield tuple(columns)
                columns, room = [], CANCELS_PER_MESSAGE
            stop = min(len(tasks), start + room)
            columns.append(TaskColumn(session, tuple(tasks[start:stop]), tuple(attempts[start:stop])))
            room -= stop - start + _COLUMN_COST
            start = stop
    if columns:
        yield tuple(columns)
