"""The table of tasks does what the data in states.py says, for every event in every state."""

from __future__ import annotations

import importlib.machinery
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from scaler_protocol.codec import ResultRun, TaskRun
from scaler_protocol.ids import digest
from scaler_protocol.messages import ObjectKey, Status, TaskOptions
from scaler_scheduler.core import waits
from scaler_scheduler.core.agent_loads import AgentLoad
from scaler_scheduler.core.assignments import assign_queued
from scaler_scheduler.core.data_locations import DataLocations
from scaler_scheduler.core.function_loads import FunctionLoad
from scaler_scheduler.core.priority_queues import QueueClass
from scaler_scheduler.core.run_records import MessageMemory, RunRecord
from scaler_scheduler.core.states import (
    FINISHED,
    GRAPH_EVENTS,
    LOSSES_LIMIT,
    NODES,
    ON_HOSTS,
    TASKS,
    UNASSIGNED,
    Action,
    Table,
    TaskEvent,
    TaskState,
    Transition,
    transition,
)
from scaler_scheduler.core.task_table import TaskTable
from scaler_scheduler.core.totals import Totals
from tests.unit.architecture.sources import REPOSITORY

SESSION = b"c" * 16
FUNCTION = digest(b"function")
GRAPH = 4  # the number of its last node
LARGE = (1 << 20).to_bytes(8, "little")
RUN_BY_AGENT = (TaskState.ASSIGNED, TaskState.CANCELLING, TaskState.DONE_LARGE, TaskState.DECIDING)
NODE_STATES = (*RUN_BY_AGENT, TaskState.HELD, TaskState.PENDING, TaskState.STORED, TaskState.ENDED)
TASK_STATES = [each for each in TaskState if each not in (TaskState.STORED, TaskState.FREED)]


class Fixture:
    """A table with a task, or with a graph in which each node needs the one before. The state is that of its second
    node. ``intermediate``: nodes whose values the client does not request."""

    def __init__(
        self, is_node: bool, retries: int = 0, rerun: bool = True, nodes: int = 3, intermediate: Sequence[int] = ()
    ) -> None:
        self.is_node = is_node
        self.retries = retries
        self.rerun = rerun
        self.nodes = nodes
        self.intermediate = intermediate
        self.table = TaskTable(SESSION, Totals())
        self.agent = AgentLoad(0, 8, 100)
        self.other = AgentLoad(1, 8, 100)
        self.queue = QueueClass((), 0)
        self.task = 2 if is_node else 1

    def enter(self, state: TaskState) -> None:
        if self.is_node:
            self.enter_graph(state)
            return
        assert self.table.columns.append(self.record(1, [ObjectKey(SESSION, 0)]), state)
        if state == TaskState.QUEUED:
            self.queue.push(Client, self.table, 0, 1, 2)

    def enter_graph(self, state: TaskState) -> None:
        for task in range(1, self.nodes + 1):
            slots = [b"" if task == 1 else ObjectKey(SESSION, task - 1)]
            assert self.table.nodes.append_graph(self.record(task, slots), state)
        self.push_ready()

    def record(self, task: int, slots: list[Any]) -> RunRecord:
        options = TaskOptions(
            retries=self.retries,
            rerun=self.rerun or task != self.task,
            graph=GRAPH if self.is_node else 0,
            intermediate=task in self.intermediate,
        )
        run = TaskRun(SESSION, FUNCTION, "f", b"", task, 1, (), options, [slots])
        return RunRecord(run, FunctionLoad(FUNCTION, "f"), self.queue, MessageMemory(1))

    def push_ready(self) -> None:
        news = self.table.nodes.take_news()
        for record, first, stop in news.ready if news is not None else ():
            self.queue.push(Client, self.table, record.priority, first, stop)

    def allocate(self) -> bool:
        runs, _ = assign_queued(self.queue, self.agent, DataLocations({}, 1.0), 100)
        return bool(runs)

    def result(self, status: Status, agent: AgentLoad | None = None, task: int | None = None) -> Any:
        payload = LARGE if status == Status.SUCCESS_LARGE else b"N."
        number = self.task if task is None else task
        known = self.table.columns.describe(number)
        row = (number, 1 if known is None else known.attempt, int(status), payload, 1, 1, 0)
        return self.table.accept(ResultRun(SESSION, [row]), agent or self.agent)

    @property
    def state(self) -> TaskState:
        return TaskState(self.table.columns.state(self.task))


class Client:
    """What a queue needs of one."""

    is_paused = False


def in_state(state: TaskState, is_node: bool, retries: int = 0, rerun: bool = True) -> Fixture:
    found = Fixture(is_node, retries, rerun)
    if state in (TaskState.WAITING, TaskState.HELD):
        found.enter(state)
    elif state != TaskState.ENDED:
        found.enter(TaskState.QUEUED)
        _advance(found, state)
    assert found.state == state, f"Add the steps that lead to {state.name} to in_state or _advance"
    return found


def _advance(found: Fixture, state: TaskState) -> None:
    if state != TaskState.QUEUED and not (found.is_node and state == TaskState.PENDING):
        found.allocate()
    if state == TaskState.CANCELLING:
        found.table.cancel([found.task])
    elif state == TaskState.DONE_LARGE:
        found.result(Status.SUCCESS_LARGE)
    elif state == TaskState.DECIDING:
        found.result(Status.PROCESSOR_DIED)
    elif state == TaskState.PENDING and not found.is_node:
        found.result(Status.OBJECT_MISSING)
        found.table.await_inputs(found.task)
    elif state == TaskState.STORED:
        found.result(Status.SUCCESS)


def _result(status: Status) -> Callable[[Fixture], Action]:
    def drive(found: Fixture) -> Action:
        outcome = found.result(status)
        if outcome is None:
            return Action.FORWARD
        if outcome.decisions:
            return outcome.decisions[0].action
        if outcome.unknown:
            return Action.KEEP_UNKNOWN
        return Action.FORWARD if outcome.forward == [0] else Action.NOTHING

    return drive


def _claim(found: Fixture, agent: AgentLoad) -> Action:
    known = found.table.columns.describe(found.task)
    stale, unknown = found.table.claim([found.task], [1 if known is None else known.attempt], agent)
    return Action.CANCEL_AT_AGENT if stale else Action.KEEP_UNKNOWN if unknown else Action.NOTHING


def _ready(found: Fixture) -> Action:
    if found.is_node and found.state == TaskState.HELD:
        found.table.nodes.end_holds(False)
    else:
        found.table.ready(found.task, found.task + 1)
    return Action.NOTHING


def _allocate(found: Fixture) -> Action:
    found.allocate()
    return Action.NOTHING


def _withdraw(found: Fixture) -> Action:
    before = found.state
    known = found.table.columns.describe(found.task)
    ranges, cancelled = found.table.withdrawn([found.task], [1 if known is None else known.attempt], found.agent)
    if found.state == before:
        return Action.NOTHING
    return _what_follows(found, found.task in cancelled, bool(ranges))


def _lose(found: Fixture) -> Action:
    before = found.state
    ranges, died, cancelled = found.table.lose(found.agent.index, LOSSES_LIMIT, Status.WORKER_DIED)
    news = found.table.nodes.take_news() if found.is_node else None
    if news is not None:
        died, cancelled = [task for task, _ in news.died], news.ended
    if died:
        return Action.GIVE_UP
    if found.state == before:
        return Action.NOTHING
    return _what_follows(found, found.task in cancelled, any(first <= found.task < stop for _, first, stop in ranges))


def _what_follows(found: Fixture, is_cancelled: bool, is_queued: bool) -> Action:
    if is_cancelled:
        return Action.TELL_CANCELLED
    return Action.REQUEUE if is_queued else Action.WAIT if found.state == TaskState.PENDING else Action.NOTHING


def _lose_value(found: Fixture) -> Action:
    return Action(found.table.nodes.lose_value(found.task, found.agent.index, LOSSES_LIMIT))


def _cancel(found: Fixture) -> Action:
    was_large = found.state == TaskState.DONE_LARGE
    ended, told, freed = found.table.cancel([found.task])
    if found.task in ended:
        return Action.TELL_CANCELLED
    if told:
        return Action.CANCEL_AT_AGENT
    if freed:
        return Action.FREE_AT_AGENT
    return Action.DELIVER if was_large else Action.NOTHING


def _abandon(found: Fixture) -> Action:
    found.table.abandon({})
    return Action.NOTHING


def _requeue(found: Fixture) -> Action:
    before = found.state
    record = found.table.requeue(found.task)
    if record is not None:
        return Action.REQUEUE
    return Action.NOTHING if found.state == before else Action.WAIT


def _finish(found: Fixture) -> Action:
    found.table.finish(found.task, Status.CANCELLED)
    return Action.NOTHING


def _await_inputs(found: Fixture) -> Action:
    if found.is_node or found.state != TaskState.DECIDING:
        return Action.NOTHING  # the rules ask for it only then
    found.table.await_inputs(found.task)
    return Action.WAIT


def _make_inputs(found: Fixture) -> Action:
    return Action.REQUEUE if found.table.inputs_made([found.task]) else Action.NOTHING


DRIVERS: dict[TaskEvent, Callable[[Fixture], Action]] = {
    TaskEvent.READY: _ready,
    TaskEvent.ALLOCATED: _allocate,
    TaskEvent.CLAIMED: lambda found: _claim(found, found.agent),
    TaskEvent.CLAIMED_BY_OTHER: lambda found: _claim(found, found.other),
    TaskEvent.SUCCEEDED: _result(Status.SUCCESS),
    TaskEvent.SUCCEEDED_LARGE: _result(Status.SUCCESS_LARGE),
    TaskEvent.DIED: _result(Status.PROCESSOR_DIED),
    TaskEvent.FAILED_WITH_RETRIES: _result(Status.EXCEPTION),
    TaskEvent.FAILED: _result(Status.EXCEPTION),
    TaskEvent.INPUT_MISSING: _result(Status.OBJECT_MISSING),
    TaskEvent.STOPPED: _result(Status.CANCELLED),
    TaskEvent.WITHDRAWN: _withdraw,
    TaskEvent.AGENT_LOST: _lose,
    TaskEvent.AGENT_LOST_FINALLY: _lose,
    TaskEvent.VALUE_LOST: _lose_value,
    TaskEvent.VALUE_LOST_FINALLY: _lose_value,
    TaskEvent.CANCELLED_BY_CLIENT: _cancel,
    TaskEvent.ABANDONED: _abandon,
    TaskEvent.RUNS_AGAIN: _requeue,
    TaskEvent.GIVEN_UP: _finish,
    TaskEvent.AWAITS_INPUTS: _await_inputs,
    TaskEvent.INPUTS_MADE: _make_inputs,
}
FINAL = (TaskEvent.AGENT_LOST_FINALLY, TaskEvent.VALUE_LOST_FINALLY)


def test_every_event_is_driven() -> None:
    events = list(TaskEvent)
    assert list(TASKS) == events and list(NODES) == events, (
        "Add each event to TASKS and NODES, in the order of TaskEvent"
    )
    assert [*DRIVERS, *GRAPH_EVENTS] == events, (
        "Add a driver for each event, or the event to GRAPH_EVENTS, in this order"
    )
    assert set(GRAPH_CASES) == {(event, state) for event in GRAPH_EVENTS for state in NODES[event]}
    assert not [event for event in GRAPH_EVENTS if TASKS[event]]


def test_monitors_count_each_state_once() -> None:
    """Tasks are DECIDING only within a call of the core, and WAITING ones are counted apart."""
    counted = [*UNASSIGNED, *ON_HOSTS, *FINISHED, TaskState.WAITING, TaskState.DECIDING]
    assert sorted(counted) == sorted(TaskState), (
        "Add each state to one group of states.py: UNASSIGNED, ON_HOSTS, FINISHED"
    )


def test_monitors_get_a_reason_for_each_state_outside_queues() -> None:
    outside = {*UNASSIGNED, TaskState.WAITING} - {TaskState.QUEUED}
    assert set(waits._REASONS) == outside, "State in waits.py why a task in this state waits, and in explanation.py"


@pytest.mark.parametrize("state", TASK_STATES, ids=lambda state: state.name)
@pytest.mark.parametrize("event", DRIVERS, ids=lambda event: event.name)
def test_a_task_does_what_the_table_says(event: TaskEvent, state: TaskState) -> None:
    _check(TASKS, event, state)


@pytest.mark.parametrize("state", NODE_STATES, ids=lambda state: state.name)
@pytest.mark.parametrize("event", DRIVERS, ids=lambda event: event.name)
def test_a_node_does_what_the_table_says(event: TaskEvent, state: TaskState) -> None:
    _check(NODES, event, state)


def _check(table: Table, event: TaskEvent, state: TaskState) -> None:
    found = in_state(state, table is NODES, int(event == TaskEvent.FAILED_WITH_RETRIES), event not in FINAL)
    action = DRIVERS[event](found)
    assert Transition(found.state, action) == transition(table, event, state)


# ---- events that other nodes cause -----------------------------------------------------------------------------------


def _give(found: Fixture) -> None:
    assert found.allocate()


def _take_back(found: Fixture) -> None:
    """The agent returns the node unstarted."""
    known = found.table.columns.describe(found.task)
    assert known is not None
    found.table.withdrawn([found.task], [known.attempt], found.agent)
    found.push_ready()


def _ends(task: int, status: Status = Status.SUCCESS) -> Callable[[Fixture], None]:
    return lambda found: found.result(status, task=task)


def _loses(task: int) -> Callable[[Fixture], None]:
    def step(found: Fixture) -> None:
        found.table.nodes.lose_value(task, found.agent.index, LOSSES_LIMIT)
        found.push_ready()

    return step


def _cancels(*tasks: int) -> Callable[[Fixture], None]:
    return lambda found: found.table.cancel(list(tasks))


def _settle(found: Fixture) -> None:
    (graph,) = found.table.nodes.graphs.values()
    found.table.nodes.settle(graph)


def _end_holds(found: Fixture) -> None:
    found.table.nodes.end_holds(False)


Step = Callable[[Fixture], None]

TO_PENDING: list[Step] = [_give, _take_back]
TO_QUEUED: list[Step] = [_give, _ends(1), _take_back]
TO_STORED: list[Step] = [_give, _ends(1), _ends(2)]
TO_FREED: list[Step] = [*TO_STORED, _ends(3)]
TO_PENDING_AGAIN: list[Step] = [*TO_STORED, _loses(2)]
TO_QUEUED_AGAIN: list[Step] = [*TO_PENDING_AGAIN, _give, _ends(1), _take_back]
FAILED = Status.EXCEPTION

GRAPH_CASES: dict[tuple[TaskEvent, TaskState], tuple[list[Step], list[Step]]] = {
    (TaskEvent.INPUTS_ARRIVED, TaskState.PENDING): (TO_PENDING, [_ends(1)]),
    (TaskEvent.INPUT_LOST, TaskState.QUEUED): (TO_QUEUED, [_loses(1)]),
    (TaskEvent.DROPPED, TaskState.WAITING): ([], [_cancels(1)]),
    (TaskEvent.DROPPED, TaskState.HELD): ([], [_ends(1, FAILED)]),
    (TaskEvent.DROPPED, TaskState.QUEUED): (
        TO_QUEUED,
        [_cancels(3, 4), _ends(3, Status.CANCELLED), _ends(4, Status.CANCELLED)],
    ),
    (TaskEvent.DROPPED, TaskState.PENDING): (TO_PENDING, [_ends(1, FAILED)]),
    (TaskEvent.DROPPED, TaskState.ASSIGNED): ([_give], [_ends(1, FAILED)]),
    (TaskEvent.VALUE_UNNEEDED, TaskState.STORED): (TO_STORED, [_ends(3)]),
    (TaskEvent.VALUE_UNNEEDED, TaskState.PENDING): (TO_PENDING_AGAIN, [_ends(3, FAILED), _settle]),
    (TaskEvent.VALUE_UNNEEDED, TaskState.QUEUED): (TO_QUEUED_AGAIN, [_ends(3, FAILED), _settle]),
    (TaskEvent.VALUE_UNNEEDED, TaskState.HELD): ([], [_cancels(3, 4), _end_holds]),
    (TaskEvent.VALUE_NEEDED, TaskState.FREED): (TO_FREED, [_loses(3)]),
    (TaskEvent.GRAPH_OVER, TaskState.FREED): (TO_FREED, [_ends(4)]),
}
"""The steps to the state, and those that cause the event."""

INTERMEDIATE = {(TaskEvent.DROPPED, TaskState.QUEUED), (TaskEvent.VALUE_UNNEEDED, TaskState.HELD)}
"""The client does not request the value of the node, and therefore is not told that it ended."""


@pytest.mark.parametrize("case", GRAPH_CASES, ids=lambda case: f"{case[0].name}-{case[1].name}")
def test_a_node_follows_the_other_nodes_of_its_graph(case: tuple[TaskEvent, TaskState]) -> None:
    event, state = case
    before, cause = GRAPH_CASES[case]
    found = Fixture(True, nodes=GRAPH, intermediate=(2,) if case in INTERMEDIATE else ())
    found.enter(state if state in (TaskState.WAITING, TaskState.HELD) else TaskState.QUEUED)
    for step in before:
        step(found)
    assert found.state == state
    found.push_ready()
    for step in cause:
        step(found)
    expected = transition(NODES, event, state)
    assert found.state == expected.state
    if case not in INTERMEDIATE:
        assert _action_in_news(found) == expected.action
    found.table.check()


def _action_in_news(found: Fixture) -> Action:
    """What the news says about the node."""
    news = found.table.nodes.take_news()
    if news is None:
        return Action.NOTHING
    if found.task in news.ended:
        return Action.TELL_CANCELLED
    if found.task in news.cascaded:
        return Action.CANCEL_AT_AGENT
    told = [task for tasks, _ in news.cancels.values() for task in tasks]
    return Action.FREE_AT_AGENT if found.task in told else Action.NOTHING


@pytest.mark.parametrize(
    "event", [TaskEvent.SUCCEEDED, TaskEvent.SUCCEEDED_LARGE, TaskEvent.DIED, TaskEvent.FAILED, TaskEvent.STOPPED]
)
@pytest.mark.parametrize("state", [TaskState.ASSIGNED, TaskState.CANCELLING])
@pytest.mark.parametrize("is_node", [False, True])
def test_a_result_of_another_agent_does_not_count(event: TaskEvent, state: TaskState, is_node: bool) -> None:
    found = in_state(state, is_node)
    found.agent, found.other = found.other, found.agent
    DRIVERS[event](found)
    assert found.state == state


def test_the_generated_files_are_current() -> None:
    for path, text in _script().files().items():
        assert path.read_text(encoding="utf-8") == text, f"Run .venv/bin/python scripts/states, which writes {path}"


def test_compiled_code_has_the_numbers_of_all_statuses() -> None:
    assert max(Status) < _script().STATUSES


def _script() -> Any:
    loader = importlib.machinery.SourceFileLoader("states_script", str(REPOSITORY / "scripts" / "states"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module
