"""What the core writes down for monitors."""

from __future__ import annotations

import gc
import struct
from dataclasses import dataclass, field, replace

import pytest

from scaler_protocol.ids import shown_id
from scaler_protocol.limits import NO_WORKER
from scaler_protocol.messages import (
    Cancel,
    Capability,
    ControlAction,
    ControlRequest,
    Goodbye,
    Heartbeat,
    HeartbeatEcho,
    ObjectKey,
    ObjectMissing,
    RunningTask,
    Status,
    TaskColumn,
    TaskName,
    TaskOptions,
    Tasks,
)
from scaler_protocol.monitor import feed, records
from scaler_protocol.monitor.records import AGAIN, NONE, Flag, Kind, Naming, Record
from scaler_protocol.monitor.ring import RING_HEADER_BYTES, RingReader, RingWriter
from scaler_scheduler.core import recording, waits
from scaler_scheduler.core.recording import LONGEST_SECONDS
from scaler_scheduler.core.states import TaskState
from scaler_scheduler.core.task_facts import TaskFacts
from tests.unit.scheduler.playbook import FUNCTION, OTHER_FUNCTION, Peer, Playbook, definition, results, run, tasks
from tests.unit.scheduler.test_graphs import chain, done, nodes

MIB = 1024 * 1024


@dataclass
class Watcher:
    """Records of a core from now on."""

    book: Playbook
    memory: bytearray = field(default_factory=lambda: bytearray(RING_HEADER_BYTES + MIB))

    def __post_init__(self) -> None:
        self.reader = RingReader(self.memory)
        self.book.core.watch(RingWriter(self.memory), 1_000_000.0, self.book.now)
        self.said = self.book.run()

    def take(self, *kinds: Kind) -> list[Record]:
        data = b""
        while (batch := self.reader.take(MIB))[0]:
            data += batch[0]
        return [each for each in records.records(data) if not kinds or each.kind in kinds]

    def names(self) -> dict[tuple[int, int], dict]:
        return {(each.flags, each.first): records.name_of(each) for each in self.take(Kind.NAME)}

    def rows(self) -> list[tuple[int, int, int]]:
        """(task, attempt, status) of all executions that ended since the last call."""
        found = []
        for record in self.take(*records.ENDINGS):
            columns = records.ended_columns(record)
            found += list(zip(columns.tasks, columns.attempts, columns.statuses, strict=True))
        return found


def test_a_recording_begins_with_the_names_of_all_who_are_there() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent(slots=2)
    names = Watcher(book).names()
    number = book.core.state.clients[client.session].table.columns.number
    assert names[Naming.SESSION, number]["session"] == shown_id(client.session).hex()
    assert names[Naming.AGENT, 0] == {
        "session": shown_id(agent.session).hex(), "name": "agent", "host": "host", "pid": 1,
        "workers": ["agent-0", "agent-1"],
    }  # fmt: skip


def test_who_watches_learns_the_id_of_no_session() -> None:
    """Whoever knows it can take the connection over, and gets what is sent there."""
    book = Playbook()
    client, agent = book.client(), book.agent()
    child = book.client("child", via=agent, parent_session=client.session, parent_task=0, parent_attempt=1)
    client.says(tasks(client, 0, 3))
    client.says(*chain(client, 3, first=10))
    told = feed.encode(book.core.snapshot(book.now)) + repr(Watcher(book).names()).encode()
    for peer in (client, agent, child):
        assert peer.session not in told and peer.session.hex().encode() not in told
        assert shown_id(peer.session) in told and shown_id(peer.session).hex().encode() in told
        assert shown_id(peer.session)[:4] == peer.session[:4] and shown_id(peer.session) != peer.session


def test_the_life_of_a_task() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent()
    watcher = Watcher(book)
    client.says(tasks(client, 5, 1))
    book.now += 0.5
    agent.says(results(client, 5, duration_us=77))
    name, options, submitted, handed, ended = watcher.take()[-5:]
    function = name.first
    assert records.name_of(name) == {"digest": FUNCTION.hex(), "name": "f"}
    assert (options.flags, records.name_of(options)) == (Naming.OPTIONS, {})
    assert (submitted.kind, submitted.first, submitted.count, submitted.function) == (Kind.SUBMITTED, 5, 1, function)
    assert submitted.attempt == options.first
    assert submitted.worker == len(b"5")
    assert (handed.kind, handed.first, handed.attempt, handed.agent) == (Kind.HANDED, 5, 1, 0)
    assert (ended.kind, ended.count, ended.agent, ended.function) == (Kind.ENDED, 1, 0, function)
    columns = records.ended_columns(ended)
    assert (columns.tasks[0], columns.durations[0], columns.attempts[0], columns.statuses[0]) == (5, 77, 1, 0)
    assert ended.time - submitted.time == 500_000


def test_options_have_names() -> None:
    book = Playbook()
    client = book.client()
    watcher = Watcher(book)
    gpu = (Capability("gpu", 0, 500_000),)
    client.says(tasks(client, 0, 2))
    client.says(tasks(client, 2, 1, priority=-3, capabilities=gpu))
    client.says(tasks(client, 3, 1, priority=-3, capabilities=gpu, depth=4))
    client.says(tasks(client, 4, 1, retries=2, rerun=False, timeout_seconds=1.5, memory_bytes=7))
    found = watcher.take()
    named = {each.first: records.name_of(each) for each in found if each.flags == Naming.OPTIONS}
    submitted = [(each.first, each.count, each.attempt) for each in found if each.kind == Kind.SUBMITTED]
    assert submitted == [(0, 2, 1), (2, 1, 2), (3, 1, 2), (4, 1, 3)]
    assert named == {
        1: {},
        2: {"priority": -3, "capabilities": {"gpu": 0.5}},
        3: {"retries": 2, "rerun": False, "timeout_seconds": 1.5, "memory_bytes": 7},
    }


def test_functions_have_the_names_of_their_modules() -> None:
    book = Playbook()
    client = book.client()
    watcher = Watcher(book)
    client.says(Tasks([run(client, 0, 1)], [replace(definition(), module="pricing")]))
    named = [records.name_of(each) for each in watcher.take(Kind.NAME) if each.flags == Naming.FUNCTION]
    assert named == [{"digest": FUNCTION.hex(), "name": "f", "module": "pricing"}]


def test_a_priority_that_is_changed_is_recorded() -> None:
    book = Playbook()
    client = book.client()
    watcher = Watcher(book)
    client.says(tasks(client, 0, 2))
    client.says(tasks(client, 2, 3))
    watcher.take()
    client.says(ControlRequest(7, ControlAction.SET_FUNCTION_PRIORITY, "f", 5.0))
    name, *again = watcher.take()
    assert records.name_of(name) == {"priority": 5}
    assert [(each.kind, each.first, each.count, each.attempt) for each in again] == [
        (Kind.SUBMITTED, 0, 2, name.first), (Kind.SUBMITTED, 2, 3, name.first),
    ]  # fmt: skip
    client.says(ControlRequest(8, ControlAction.SET_FUNCTION_PRIORITY, "f", 5.0))
    assert watcher.take() == []


def long_names(priority: int) -> dict[str, object]:
    """Options with as many capabilities as a task may have, whose names need six bytes a character in JSON."""
    return {"priority": priority, "capabilities": tuple(Capability(f"{n:02}" + "\x01" * 1000, 1) for n in range(64))}


def test_very_long_options_are_cut() -> None:
    book = Playbook()
    client = book.client()
    watcher = Watcher(book)
    client.says(tasks(client, 0, 1, **long_names(0)))
    (named,) = [each for each in watcher.take(Kind.NAME) if each.flags == Naming.OPTIONS]
    value = records.name_of(named)
    assert len(value["capabilities"]) == 16 and value["more_capabilities"] == 48
    assert set(map(len, value["capabilities"])) == {64} and len(named.body) < 8192


def test_a_flood_of_different_options_is_named_in_part() -> None:
    """Usual options always have a number, and others again after some seconds."""
    book = Playbook()
    client = book.client()
    watcher = Watcher(book)
    for number in range(200):
        client.says(tasks(client, number, 1, **long_names(number + 1)))
    client.says(tasks(client, 200, 1))
    found = watcher.take()
    numbers = [each.attempt for each in found if each.kind == Kind.SUBMITTED]
    assert sum(len(each.body) for each in found if each.flags == Naming.OPTIONS and each.kind == Kind.NAME) < 300_000
    assert numbers[:30] == list(range(1, 31)) and numbers[100:200] == [0] * 100 and numbers[200] > 30
    book.now += 1.0
    client.says(tasks(client, 201, 1, priority=-1), tasks(client, 202, 1, **long_names(150)))
    numbers = [each.attempt for each in watcher.take(Kind.SUBMITTED)]
    assert numbers[0] and numbers[1] == numbers[0] + 1


def test_priorities_used_in_turn_keep_their_numbers_until_there_are_too_many() -> None:
    """One more than have numbers at a time: those that were not used for longest get new ones."""
    book = Playbook()
    client = book.client()
    watcher = Watcher(book)
    for number in range(1001):
        client.says(tasks(client, number, 1, priority=number + 1))
    client.says(tasks(client, 1001, 1, priority=500))
    names = [each.first for each in watcher.take() if each.kind == Kind.NAME and each.flags == Naming.OPTIONS]
    assert names == list(range(1, 1002))


def test_a_recording_ends_with_what_it_knows_of_options() -> None:
    book = Playbook()
    client = book.client()

    def held() -> list[object]:
        """What the recorder keeps of options, directly or by their names."""
        return [
            each for each in gc.get_referents(book.core.state.events) if isinstance(each, (TaskOptions, dict)) and each
        ]

    Watcher(book)
    client.says(tasks(client, 0, 1, priority=3))
    assert len(held()) == 2
    book.core.unwatch(book.now)
    assert held() == []
    named = [each for each in Watcher(book).take(Kind.NAME) if each.flags == Naming.OPTIONS]
    assert [records.name_of(each) for each in named] == [{"priority": 3}]


def test_a_recording_tells_of_tasks_until_their_names_are_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "NAMES_TOLD_LIMIT_BYTES", 10_000)
    book = Playbook()
    client, other = book.client(), book.client("other")
    for number in range(8):
        client.says(tasks(client, number, 1, **long_names(number)))
    other.says(tasks(other, 0, 1))
    submitted = Watcher(book).take(Kind.SUBMITTED)
    assert [each.first for each in submitted] == [0, 1]


def test_a_recording_tells_of_the_tasks_that_came_before() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent(slots=8)
    client.says(tasks(client, 0, 3))
    client.says(tasks(client, 3, 1))
    client.says(tasks(client, 4, 2, priority=5))
    agent.says(results(client, 3))
    entered = book.now
    book.now += 7.0
    submitted = Watcher(book).take(Kind.SUBMITTED)
    assert [(each.first, each.count) for each in submitted] == [(0, 3), (4, 2)]
    assert [each.attempt for each in submitted] == [1, 2]
    assert {each.time for each in submitted} == {int((1_000_000.0 + entered) * 1e6)}


def test_very_many_runs_are_not_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "RUNS_TOLD_LIMIT", 3)
    book = Playbook()
    many, few = book.client("many"), book.client("few")
    for number in range(4):
        many.says(tasks(many, number, 1))
    few.says(tasks(few, 0, 1))
    (submitted,) = Watcher(book).take(Kind.SUBMITTED)
    assert submitted.session == book.core.state.clients[few.session].table.columns.number


def test_tasks_of_several_functions_keep_theirs() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent(slots=4)
    watcher = Watcher(book)
    other = OTHER_FUNCTION
    client.says(Tasks([run(client, 0, 1), run(client, 1, 1, function=other), run(client, 2, 1)]))
    watcher.take()
    agent.says(results(client, 0, 1, 2))
    (ended,) = watcher.take(*records.ENDINGS)
    functions = records.ended_columns(ended).functions
    assert functions is not None
    assert functions[0] == functions[2] != functions[1]


def test_nothing_is_written_before_and_after() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent()
    client.says(tasks(client, 0, 1))
    watcher = Watcher(book)
    watcher.take()
    book.core.unwatch(book.now)
    agent.says(results(client, 0))
    assert watcher.take() == []
    assert book.core.snapshot(book.now).events.recorded > 0


def test_agents_are_told_when_somebody_watches() -> None:
    book = Playbook()
    agent = book.agent()
    heard: list[HeartbeatEcho] = []
    hears = agent.hears
    agent.hears = lambda envelope: heard.append(envelope.body) or hears(envelope)  # type: ignore[method-assign]
    Watcher(book)
    book.core.unwatch(book.now)
    book.run()
    assert [(echo.sent_at, echo.watched) for echo in heard] == [(0.0, True), (0.0, False)]


def test_a_task_that_runs_again_ends_once() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent()
    watcher = Watcher(book)
    client.says(tasks(client, 0, 1, retries=1))
    agent.says(results(client, (0, 1, Status.EXCEPTION, b"why")))
    assert watcher.rows() == [(0, 1, Status.EXCEPTION | AGAIN)]
    agent.says(results(client, (0, 2, Status.SUCCESS, b"r")))
    assert watcher.rows() == [(0, 2, Status.SUCCESS)]


def test_a_task_that_fails_for_good_ends_after_its_last_execution() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent()
    watcher = Watcher(book)
    client.says(tasks(client, 0, 1, rerun=False))
    agent.says(results(client, (0, 1, Status.PROCESSOR_DIED, b"{}")))
    assert watcher.rows() == [(0, 1, Status.PROCESSOR_DIED | AGAIN), (0, 1, Status.PROCESSOR_DIED)]


@pytest.mark.parametrize(("is_agent_lost", "status"), [(False, Status.OBJECT_MISSING), (True, Status.WORKER_DIED)])
def test_a_lost_large_result_that_is_not_made_again_ends_its_task_once_more(is_agent_lost: bool, status: int) -> None:
    book = Playbook()
    client, agent = book.client(), book.agent()
    watcher = Watcher(book)
    client.says(tasks(client, 0, 1, rerun=False))
    agent.says(results(client, (0, 1, Status.SUCCESS_LARGE, (40_000).to_bytes(8, "little"))))
    assert watcher.rows() == [(0, 1, Status.SUCCESS_LARGE)]
    if is_agent_lost:
        book.lose(agent)
        book.wait(book.core.state.settings.worker_timeout_seconds + 1.0)
    else:
        agent.says(ObjectMissing(ObjectKey(client.session, 0), "lost"))
    assert watcher.rows() == [(0, 1, status)]
    assert {each: book.core.state.totals.outcome(each) for each in (Status.SUCCESS_LARGE, status)} == {
        Status.SUCCESS_LARGE: 1,
        status: 1,
    }


def test_results_that_do_not_count_are_left_out() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent()
    watcher = Watcher(book)
    client.says(tasks(client, 0, 2))
    agent.says(results(client, 0, (1, 7, Status.SUCCESS, b"r"), (99, 1, Status.SUCCESS, b"r")))
    assert watcher.rows() == [(0, 1, Status.SUCCESS)]


def test_tasks_that_end_without_an_agent() -> None:
    book = Playbook()
    client = book.client()
    watcher = Watcher(book)
    client.says(tasks(client, 0, 5000))
    client.says(Cancel((TaskColumn(client.session, tuple(range(5000))),)))
    ended = watcher.take(*records.ENDINGS)
    assert sum(record.count for record in ended) == 5000
    assert {record.agent for record in ended} == {NONE}
    assert set(records.ended_columns(ended[0]).statuses) == {Status.CANCELLED}


def where(record: Record) -> tuple[int, int, list[tuple[int, int, int]]]:
    """Agent and worker, and the task, the microseconds and the status of each execution."""
    columns = records.ended_columns(record)
    return record.agent, record.worker, list(zip(columns.tasks, columns.durations, columns.statuses, strict=True))


@pytest.mark.parametrize("leaves", [False, True])
def test_tasks_that_end_with_their_agent_say_where_they_ran_and_for_how_long(leaves: bool) -> None:
    book = Playbook()
    client, agent = book.client(), book.agent(slots=4)
    watcher = Watcher(book)
    client.says(tasks(client, 0, 4, rerun=False))
    rows = [
        RunningTask(client.session, task, attempt, worker, 4242, 46.0, 48.0, 1.5, 2**20, False)
        for task, attempt, worker in ((0, 1, 2), (1, 1, NO_WORKER), (3, 7, 1), (99, 1, 0))
    ]
    rows.append(replace(rows[0], session=b"?" * 16))
    agent.says(Heartbeat(50.0, 0.0, 0.0, 0, 0, 0, (), tuple(rows)))
    client.says(Cancel((TaskColumn(client.session, (0, 1, 2)),)))
    book.now += 0.5
    watcher.take()
    if leaves:
        agent.says(Goodbye())
    else:
        book.lose(agent)
        book.wait(1.0)
    ended = [where(record) for record in watcher.take(*records.ENDINGS)]
    index = next(each for each, _, found in ended if found[0][0] == 0)
    cancelled, died = Status.CANCELLED, [] if leaves else [(3, 0, Status.WORKER_DIED)]
    assert sorted(ended) == sorted([
        (index, 2, [(0, 4_000_000, cancelled)]),
        (index, NONE, [(1, 4_000_000, cancelled)]),
        (NONE, NONE, [(2, 0, cancelled), *died]),
    ])  # fmt: skip
    assert index != NONE
    client.says(tasks(client, 10, 1), Cancel((TaskColumn(client.session, (10,)),)))
    assert [where(record)[:2] for record in watcher.take(*records.ENDINGS)] == [(NONE, NONE)]


def test_an_agent_cannot_claim_that_a_task_has_run_for_ages() -> None:
    for seconds in (-1e308, float("-inf"), float("nan"), 1e308):
        book = Playbook()
        client, agent = book.client(), book.agent()
        watcher = Watcher(book)
        client.says(tasks(client, 0, 1, rerun=False))
        row = RunningTask(client.session, 0, 1, 0, 4242, seconds, 48.0, 1.5, 2**20, False)
        agent.says(Heartbeat(50.0, 0.0, 0.0, 0, 0, 0, (), (row,)))
        book.lose(agent)
        book.wait(1.0)
        [ended] = watcher.take(*records.ENDINGS)
        assert where(ended)[2] == [(0, int(LONGEST_SECONDS * 1e6) if seconds < 0 else 0, Status.WORKER_DIED)]


def test_a_failure_is_written_with_its_payload_and_not_too_many() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent(slots=1)
    watcher = Watcher(book)
    client.says(tasks(client, 0, 1))
    agent.says(results(client, (0, 1, Status.EXCEPTION, b"why it failed")))
    (failed,) = watcher.take(Kind.FAILED)
    assert (failed.first, failed.flags, failed.agent) == (0, Status.EXCEPTION, 0)
    assert records.failure_of(failed) == (13, b"why it failed")
    for task in range(1, 200):
        client.says(tasks(client, task, 1))
        agent.says(results(client, (task, 1, Status.EXCEPTION, b"x")))
    assert len(watcher.take(Kind.FAILED)) == 99
    client.says(tasks(client, 500, 1))
    agent.says(results(client, (500, 1, Status.TIMED_OUT, b"y")))
    assert [failed.flags for failed in watcher.take(Kind.FAILED)] == [Status.TIMED_OUT]  # a flood of others or not
    book.now += 1.1
    client.says(tasks(client, 501, 1))
    agent.says(results(client, (501, 1, Status.EXCEPTION, b"x")))
    assert len(watcher.take(Kind.FAILED)) == 1


def test_who_comes_and_who_leaves() -> None:
    book = Playbook()
    watcher = Watcher(book)
    client, agent = book.client(), book.agent()
    agent.says(Goodbye())
    client.says(Goodbye())
    book.lose(book.agent("lost"))
    book.wait(20.0)
    kinds = [(record.kind, record.first) for record in watcher.take() if record.kind not in (Kind.NAME, Kind.LOG)]
    assert kinds == [
        (Kind.CLIENT_JOINED, 0),
        (Kind.AGENT_JOINED, 0),
        (Kind.AGENT_LOST, 1),
        (Kind.CLIENT_LEFT, 0),
        (Kind.AGENT_JOINED, 0),
        (Kind.AGENT_LOST, 0),
    ]


@pytest.mark.parametrize("lost", [False, True])
def test_every_task_ends_exactly_once_in_the_records(lost: bool) -> None:
    book = Playbook()
    client, first, second = book.client(), book.agent("first", 2), book.agent("second", 2)
    watcher = Watcher(book)
    client.says(tasks(client, 0, 8))
    if lost:
        first.says(Goodbye())
    ended: list[int] = []
    for _ in range(20):
        for agent in (first, second):
            held = book.core.state.clients[client.session].table
            mine = [
                task for task in range(8) if (known := held.columns.describe(task)) and _is_with(book, known, agent)
            ]
            rows = [(task, held.columns.describe(task).attempt, Status.SUCCESS, b"r") for task in mine]
            if rows:
                agent.says(results(client, *rows))
    ended = [task for task, _, status in watcher.rows() if not status & AGAIN]
    assert sorted(ended) == list(range(8))


def _is_with(book: Playbook, known: TaskFacts, agent: Peer) -> bool:
    core_agent = book.core.state.agents.get(agent.session)
    return core_agent is not None and known.state == TaskState.ASSIGNED and known.agent_index == core_agent.index


def test_functions_count_how_their_tasks_ended() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent(slots=4)
    client.says(tasks(client, 0, 4))
    rows = [(1, 1, Status.EXCEPTION, b""), (2, 1, Status.CANCELLED, b"")]
    agent.says(results(client, 0, *rows, (3, 1, Status.SUCCESS, b"r"), duration_us=500_000))
    (function,) = book.core.snapshot(book.now).functions
    assert (function.succeeded, function.failed, function.canceled, function.finished) == (2, 1, 1, 4)
    assert function.duration_seconds == pytest.approx(1.5)


def test_waiting_tasks_are_grouped_by_function_and_reason() -> None:
    book = Playbook()
    client = book.client()
    client.says(Tasks([run(client, 0, 10), run(client, 10, 5, function=OTHER_FUNCTION), run(client, 15, 1)]))
    client.says(Cancel((TaskColumn(client.session, (3, 4)),)))
    book.now += 7.0
    snapshot = book.core.snapshot(book.now)
    groups = [(group.digest, group.reason, group.count, group.oldest_seconds) for group in snapshot.waits]
    reason = "No worker is connected."
    assert groups == [(FUNCTION, reason, 9, 7.0), (OTHER_FUNCTION, reason, 5, 7.0)]
    assert (snapshot.wait_count, snapshot.waits[1].task, snapshot.waits[1].session) == (2, 10, shown_id(client.session))


@pytest.mark.parametrize("cancelled", [(), (0, 4095, 4096, 9_999), tuple(range(4000, 9000))])
def test_cancelled_tasks_do_not_count_as_waiting(cancelled: tuple[int, ...]) -> None:
    book = Playbook()
    client = book.client()
    client.says(Tasks([run(client, 0, 10_000)]))
    client.says(Cancel((TaskColumn(client.session, cancelled),)))
    assert [group.count for group in book.core.snapshot(book.now).waits] == [10_000 - len(cancelled)]


def test_tasks_that_no_worker_can_run_are_told_from_those_that_wait_their_turn() -> None:
    book = Playbook()
    client = book.client()
    book.agent(slots=1)
    client.says(Tasks([run(client, 0, 100), run(client, 100, 3, capabilities=(Capability("gpu", 2),))]))
    reasons = {group.reason: group.count for group in book.core.snapshot(book.now).waits}
    assert reasons["No connected worker has the capabilities it needs (gpu=2)."] == 3
    (agent,) = book.core.state.agents.values()
    assert reasons["The only worker that could run it is busy."] == 100 - agent.load.outstanding
    assert {each.demand for each in book.core.snapshot(book.now).waits} == {"gpu=2", ""}


def test_more_waiting_runs_than_are_looked_at_are_counted_all_the_same() -> None:
    book = Playbook()
    client = book.client()
    client.says(Tasks([run(client, task, 1) for task in range(0, 24_000, 2)]))
    assert sum(group.count for group in book.core.snapshot(book.now).waits) == 12_000


def waiting_for_results(book: Playbook) -> dict[bytes, tuple[int, float, int]]:
    groups = [each for each in book.core.snapshot(book.now).waits if each.reason.startswith("Waits for results")]
    return {each.digest: (each.count, each.oldest_seconds, each.task) for each in groups}


def test_tasks_that_wait_for_results_are_grouped_by_function() -> None:
    book = Playbook()
    client = book.client()
    client.says(nodes(client, 1, [[]], 5), nodes(client, 2, [[1], [1]], 5))
    book.now += 3.0
    client.says(nodes(client, 4, [[1], [2]], 5, True, function=OTHER_FUNCTION))
    book.now += 4.0
    assert waiting_for_results(book) == {FUNCTION: (2, 7.0, 2), OTHER_FUNCTION: (2, 4.0, 4)}


def test_more_runs_outside_the_queue_than_are_looked_at_are_counted_all_the_same(monkeypatch) -> None:
    monkeypatch.setattr(waits, "OUTSIDE_LIMIT", 3)
    book = Playbook()
    client = book.client()
    client.says(*chain(client, 3, first=1), *chain(client, 3, first=4))
    assert waiting_for_results(book) == {FUNCTION: (2, 0.0, 2), b"": (2, 0.0, 0)}


def test_tasks_that_the_full_queue_holds_back_are_grouped_by_function() -> None:
    book = Playbook(max_number_of_tasks_waiting=1)
    client = book.client()
    client.says(Tasks([run(client, 0, 1), run(client, 1, 4), run(client, 5, 3000, function=OTHER_FUNCTION)]))
    groups = {each.digest: each.count for each in book.core.snapshot(book.now).waits if "outside" in each.reason}
    assert groups == {FUNCTION: 4, OTHER_FUNCTION: 3000}


def test_an_open_graph_of_futures_is_written_with_its_edges() -> None:
    book = Playbook()
    client = book.client()
    watcher = Watcher(book)
    client.says(nodes(client, 1, [[]], 65_536, True, grows=True))
    client.says(nodes(client, 4, [[1]], 65_536, True, grows=True))
    graphs = [records.edges_of(record) for record in watcher.take(Kind.GRAPH)]
    assert [(graph, list(pairs)) for graph, pairs in graphs] == [(65_536, []), (65_536, [4, 1])]


def test_an_open_graph_with_very_many_nodes_is_written_without_edges() -> None:
    book = Playbook()
    client = book.client()
    watcher = Watcher(book)
    client.says(nodes(client, 1, [[]], 65_536, True, grows=True))
    client.says(nodes(client, 5, [[1]] * 10_000, 65_536, True, grows=True))
    assert [bool(each.flags & Flag.CUT) for each in watcher.take(Kind.GRAPH)] == [False, True]


def test_a_graph_is_written_with_its_edges_and_shown_with_its_progress() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent()
    watcher = Watcher(book)
    for part in chain(client, 4):
        client.says(part)
    edges = []
    for record in watcher.take(Kind.GRAPH):
        graph, pairs = records.edges_of(record)
        assert graph == 4
        edges += list(zip(pairs[::2], pairs[1::2], strict=True))
    assert edges == [(2, 1), (3, 2), (4, 3)]
    agent.says(done(client, 1))
    (status,) = book.core.snapshot(book.now).graphs
    assert (status.graph, status.nodes, status.done) == (4, 4, 1)
    assert status.waiting + status.ready + status.running == 3
    agent.says(done(client, 2, status=Status.EXCEPTION, payload=b"why"))
    agent.says(done(client, 3, 4, status=Status.CANCELLED))
    assert book.core.snapshot(book.now).graph_count == 0
    ended = [row for row in watcher.rows() if not row[2] & AGAIN]
    assert [(task, status) for task, _, status in ended if task <= 2] == [(1, Status.SUCCESS), (2, Status.EXCEPTION)]
    assert {(task, status) for task, _, status in ended if task > 2} <= {(3, Status.CANCELLED), (4, Status.CANCELLED)}


def test_parts_of_durations_are_recorded() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent(slots=4)
    watcher = Watcher(book)
    client.says(tasks(client, 5, 2))
    said = results(client, 5, 6, duration_us=1000)
    said.runs[0].set_parts(struct.pack("<4I", 1, 100, 200, 300))
    agent.says(said)
    (record,) = watcher.take(Kind.PARTS)
    assert record.session == book.core.state.clients[client.session].table.columns.number
    assert list(records.parts_of(record)) == [(6, 1, 100, 200, 300)]


def test_a_client_inside_tasks_is_recorded_with_each_of_them() -> None:
    book = Playbook()
    client, agent = book.client(), book.agent()
    watcher = Watcher(book)
    client.says(tasks(client, 1, 2))
    child = book.client("child", via=agent, parent_session=client.session, parent_task=1, parent_attempt=1)
    child.says(tasks(child, 1, 5))
    child.says(Tasks([run(child, 6, 1)], parent=TaskName(client.session, 2, 1)))
    outer, inner = (book.core.state.clients[each.session].table.columns.number for each in (client, child))
    taken = watcher.take(Kind.NAME, Kind.NESTED)
    moves = [each for each in taken if each.kind == Kind.NESTED]
    found = [(each.session, each.first, each.attempt, *records.nested_of(each)) for each in moves]
    assert found == [(inner, 1, 1, 0, outer), (inner, 2, 1, 6, outer)]
    assert taken[-2:] == moves, "the names of both come first"
    late = Watcher(book).take(Kind.NESTED)
    assert [(each.first, *records.nested_of(each)) for each in late] == [(2, 7, outer)]


def test_a_client_inside_a_task_may_come_back_before_its_parent() -> None:
    book = Playbook()
    agent = book.agent()
    watcher = Watcher(book)
    parent = b"client".ljust(16, b".")
    child = book.client("child", via=agent, parent_session=parent, parent_task=1, parent_attempt=1)
    child.says(tasks(child, 1, 5))
    assert watcher.take(Kind.NESTED) == []
    client = book.client()
    assert client.session == parent
    outer, inner = (book.core.state.clients[each.session].table.columns.number for each in (client, child))
    (move,) = watcher.take(Kind.NESTED)
    assert (move.session, move.first, move.attempt, *records.nested_of(move)) == (inner, 1, 1, 0, outer)


def test_calls_say_which_actor_they_are_of() -> None:
    book = Playbook()
    client, other = book.client(), book.client("other")
    watcher = Watcher(book)
    client.says(tasks(client, 1, 1, hosts_actor=True, actor_name="ledger"))
    watcher.take()
    client.says(tasks(client, 2, 1, actor=1, rerun=False))
    client.says(tasks(client, 3, 1, actor=1, rerun=False, profiling=True))
    other.says(tasks(other, 1, 1, actor=1, actor_session=client.session, rerun=False))
    found = watcher.take()
    named = {each.first: records.name_of(each) for each in found if each.flags == Naming.OPTIONS}
    submitted = [each.attempt for each in found if each.kind == Kind.SUBMITTED]
    assert [named[number] for number in submitted] == [
        {"rerun": False, "actor": 1}, {"rerun": False, "actor": 1},
        {"rerun": False, "actor": 1, "actor_session": shown_id(client.session).hex()},
    ]  # fmt: skip


def test_calls_of_very_many_actors_leave_room_for_other_options() -> None:
    """Then calls say no more of what they are calls, but still what else they need."""
    book = Playbook()
    client = book.client()
    watcher = Watcher(book)
    for number in range(1, 4001):
        client.says(tasks(client, number, 1, actor=number, rerun=False))
    client.says(tasks(client, 4001, 1, priority=3))
    found = watcher.take()
    named = {each.first: records.name_of(each) for each in found if each.flags == Naming.OPTIONS}
    submitted = [each.attempt for each in found if each.kind == Kind.SUBMITTED]
    assert named[submitted[0]] == {"rerun": False, "actor": 1}
    assert named[submitted[-2]] == {"rerun": False} and named[submitted[-1]] == {"priority": 3}
    assert sum(len(each.body) for each in found if each.kind == Kind.NAME) < 256 * 1024
